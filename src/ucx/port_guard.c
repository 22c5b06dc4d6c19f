#include "port_guard.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "units.h"

/* Where in its head a packet has its sender; the steps of a filter for each host, and beside. */
enum { SOURCE_V4 = 12, SOURCE_V6 = 8, STEPS_V4 = 2, STEPS_V6 = 5, STEPS_MORE = 5 };

static struct sy_port_host host_of(const struct sockaddr *address)
{
	struct sy_port_host host = {0};

	if (address->sa_family == AF_INET) {
		host.low = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
	} else {
		const struct sockaddr_in6 *v6 = (const void *)address;
		memcpy(&host, &v6->sin6_addr, sizeof host);
		host.high = ntohl(host.high);
		host.low = ntohl(host.low);
	}
	return host;
}

static bool is_wildcard(const struct sockaddr *address)
{
	const struct sockaddr_in6 *v6 = (const void *)address;

	return address->sa_family == AF_INET ? host_of(address).low == INADDR_ANY
	                                     : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

static in_port_t port_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET
		? ((const struct sockaddr_in *)(const void *)address)->sin_port
		: ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
}

/* Whether this descriptor is a socket that listens there, or one that does not but is bound there,
 * as a connection is that came in there. */
static bool is_at(int fd, const struct sockaddr *address, bool listens)
{
	struct sockaddr_storage bound = {0};
	socklen_t bytes = sizeof bound;
	char is[SY_UCX_ADDRESS_BYTES], wanted[SY_UCX_ADDRESS_BYTES];
	int listening = 0;
	socklen_t listening_bytes = sizeof listening;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_bytes) != 0 ||
	    (listening != 0) != listens ||
	    getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0 ||
	    bound.ss_family != address->sa_family)
		return false;
	if (is_wildcard(address) && !listens)
		return port_of((const struct sockaddr *)&bound) == port_of(address);
	sy_address_text((const struct sockaddr *)&bound, is);
	sy_address_text(address, wanted);
	return strcmp(is, wanted) == 0;
}

/* The first socket of this process that is there, or -1; with `act` that is called for all. */
static int find(const struct sockaddr *address, bool listens, void (*act)(int fd))
{
	DIR *open_ones = opendir("/proc/self/fd");
	uint64_t number;
	int found = -1;

	for (const struct dirent *entry; open_ones != NULL && found < 0;) {
		entry = readdir(open_ones);
		if (entry == NULL)
			break;
		if (sy_parse_u64(entry->d_name, strlen(entry->d_name), &number, NULL) != SY_OK ||
		    !is_at((int)number, address, listens))
			continue;
		if (act != NULL)
			act((int)number);
		else
			found = (int)number;
	}
	if (open_ones != NULL)
		closedir(open_ones);
	return found;
}

/* Nothing more comes once it is shut; what had come before is still to be read. */
static void cut(int fd)
{
	uint8_t rest[256];

	(void)shutdown(fd, SHUT_RDWR);
	while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
		;
}

void sy_port_guard_shut(const struct sockaddr *address)
{
	int fd = find(address, true, NULL);

	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
}

void sy_port_guard_cut(const struct sockaddr *address)
{
	(void)find(address, false, cut);
}

static void step(struct sock_fprog *program, uint16_t code, uint32_t value, uint8_t if_not)
{
	program->filter[program->len++] =
		(struct sock_filter){.code = code, .jf = if_not, .k = value};
}

/* A packet is kept whole if its sender is one of the hosts, and else not at all. */
static void allow(struct sock_fprog *program, const struct sy_port_guard *guard,
                  const struct sy_port_host *host)
{
	if (guard->is_v6) {
		step(program, BPF_LD | BPF_MEM, 0, 0);
		step(program, BPF_JMP | BPF_JEQ | BPF_K, host->high, STEPS_V6 - 2);
		step(program, BPF_LD | BPF_MEM, 1, 0);
	}
	step(program, BPF_JMP | BPF_JEQ | BPF_K, host->low, 1);
	step(program, BPF_RET | BPF_K, UINT32_MAX, 0);
}

static bool attach(const struct sy_port_guard *guard)
{
	size_t steps = (guard->is_v6 ? STEPS_V6 : STEPS_V4) * guard->count + STEPS_MORE;
	struct sock_fprog program = {.filter = calloc(steps, sizeof *program.filter)};
	uint32_t source = (uint32_t)SKF_NET_OFF + (guard->is_v6 ? SOURCE_V6 : SOURCE_V4);

	if (program.filter == NULL || steps > BPF_MAXINSNS) {
		free(program.filter);
		return false;
	}
	step(&program, BPF_LD | BPF_W | BPF_ABS, source, 0);
	if (guard->is_v6) {
		step(&program, BPF_ST, 0, 0);
		step(&program, BPF_LD | BPF_W | BPF_ABS, source + 4, 0);
		step(&program, BPF_ST, 1, 0);
	}
	for (size_t i = 0; i < guard->count; i++)
		allow(&program, guard, &guard->hosts[i]);
	step(&program, BPF_RET | BPF_K, 0, 0);
	bool attached = setsockopt(guard->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
	                           sizeof program) == 0;
	free(program.filter);
	return attached;
}

static void give_up(struct sy_port_guard *guard)
{
	const int unused = 0;

	(void)setsockopt(guard->fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
	guard->fd = -1;
}

void sy_port_guard_open(struct sy_port_guard *guard, const struct sockaddr *address)
{
	*guard = (struct sy_port_guard){
		.fd = is_wildcard(address) ? -1 : find(address, true, NULL),
		.is_v6 = address->sa_family == AF_INET6, .own = host_of(address)};
	if (guard->fd >= 0 && !attach(guard))
		give_up(guard);
}

void sy_port_guard_close(struct sy_port_guard *guard)
{
	free(guard->hosts);
	*guard = (struct sy_port_guard){.fd = -1};
}

static bool add(struct sy_port_guard *guard, struct sy_port_host host)
{
	if (guard->count == guard->capacity) {
		size_t capacity = guard->capacity > 0 ? 2 * guard->capacity : 16;
		void *hosts = realloc(guard->hosts, capacity * sizeof *guard->hosts);
		if (hosts == NULL)
			return false;
		guard->hosts = hosts;
		guard->capacity = capacity;
	}
	guard->hosts[guard->count++] = host;
	return true;
}

void sy_port_guard_admit(struct sy_port_guard *guard, const char *host)
{
	struct sy_port_host wanted = guard->own;
	struct sockaddr_storage address;
	socklen_t bytes;

	if (guard->fd < 0)
		return;
	if (host != NULL && sy_address_from_host(host, &address, &bytes) &&
	    (address.ss_family == AF_INET6) == guard->is_v6)
		wanted = host_of((const struct sockaddr *)&address);
	for (size_t i = 0; i < guard->count; i++) {
		if (guard->hosts[i].high == wanted.high && guard->hosts[i].low == wanted.low)
			return;
	}
	if (!add(guard, wanted) || !attach(guard))
		give_up(guard);
}
