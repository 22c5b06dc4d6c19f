/* A gate between clients and the real units of a cluster: it sees every request and reply, and
 * may hold, drop or alter it. Its own directory tells the real units' slabs and local sockets,
 * but the gate's addresses, for clients that are here and for those that take themselves to be of
 * another host. One gate a program; it runs in a thread of its own. */
#ifndef SY_TEST_GATE_H
#define SY_TEST_GATE_H

#include "cluster.h"
#include "message.h"

enum gate_says { GATE_PASS, GATE_HOLD, GATE_DROP, GATE_ALTERED };

/* Called in the gate's thread. NULL: everything passes. */
struct gate_hooks {
	/* Asked of each request, again and again while it says HOLD; age: since it came. */
	enum gate_says (*request)(uint32_t unit_id, const struct sy_request *request, uint64_t age_ns);
	/* The same of each reply; ALTERED: it passes as the hook changed it. */
	enum gate_says (*reply)(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
	                        uint64_t age_ns);
};

/* Fails the process with a message. */
void gate_open(const struct cluster *cluster, const struct gate_hooks *hooks);
void gate_close(void);
const char *gate_directory(void); /* its address */

/* While silent the gate's directory answers nobody. */
void gate_directory_silent(bool silent);
/* Tells the gate's directory what became of a unit: it is gone, or a new one is in its place. */
void gate_unit_gone(uint32_t unit_id);
void gate_unit_new(uint32_t unit_id);

#endif
