/* Who may reach the TCP port where UCX takes connections. UCX believes what it reads there, and
 * nonsense in place of its own words ends the process; so the system drops what comes from hosts
 * that no session ever came from, before UCX or even a connection sees it. Connections that come
 * another way (RDMA's own manager) are not looked at. One thread. */
#ifndef SY_PORT_GUARD_H
#define SY_PORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of IPv4 in `low`; of IPv6 its network, since a host changes the rest at will. */
struct sy_port_host {
	uint32_t high, low;
};

struct sy_port_guard {
	int fd;       /* UCX's, which listens; -1: there is none, or all may come */
	bool is_v6;
	struct sy_port_host own; /* what a process of this host comes from */
	struct sy_port_host *hosts;
	size_t count, capacity;
};

/* Finds who listens at this address in this process; from now on nobody may connect. */
void sy_port_guard_open(struct sy_port_guard *guard, const struct sockaddr *address);
void sy_port_guard_close(struct sy_port_guard *guard);
/* From now on this host may, for good: one whose session is over still has to be told so.
 * "10.0.0.7", "fd00::7"; NULL or one that is no such: a process of this host. Where the system
 * takes no more of them (some hundreds) all may. */
void sy_port_guard_admit(struct sy_port_guard *guard, const char *host);

/* From now on nobody new comes in at this address of this process, guarded or not. */
void sy_port_guard_shut(const struct sockaddr *address);
/* What came in there is cut off: nothing of it is read any more. After `shut`. */
void sy_port_guard_cut(const struct sockaddr *address);

#endif
