/* ZeroMQ takes the first address that the system names, of one family alone, and looks names up
 * where it connects, not where it listens. So it is never told a name. */
#include "control_names.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"

static const char tcp[] = "tcp://";
enum { TCP_BYTES = sizeof tcp - 1, HOLDERS = 2 /* who waits, and the thread */ };

struct sy_control_lookup {
	_Atomic uint32_t holders;
	atomic_bool through; /* `found` is there */
	int through_fd;      /* readable then */
	struct sy_control_addresses found;
	char endpoint[SY_CONTROL_ENDPOINT_BYTES];
};

/* Between "tcp://" and the port. False: there is none, or none that can be a name: one in
 * brackets, "*", or two with a semicolon, as ZeroMQ has it for an address to come from. */
static bool host_of(const char *endpoint, char out[SY_CONTROL_ENDPOINT_BYTES])
{
	const char *port = strrchr(endpoint, ':');
	if (strncmp(endpoint, tcp, TCP_BYTES) != 0 || port <= endpoint + TCP_BYTES ||
	    port - endpoint >= SY_CONTROL_ENDPOINT_BYTES)
		return false;
	sy_format(out, SY_CONTROL_ENDPOINT_BYTES, "%.*s", (int)(port - endpoint - TCP_BYTES),
	          endpoint + TCP_BYTES);
	return strpbrk(out, "[]*;:") == NULL;
}

bool sy_control_is_name(const char *endpoint)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	char host[SY_CONTROL_ENDPOINT_BYTES];
	struct addrinfo *list = NULL;
	if (!host_of(endpoint, host))
		return false;
	if (getaddrinfo(host, NULL, &hints, &list) != 0)
		return true;
	freeaddrinfo(list);
	return false;
}

/* A name may be in a file twice with the same address. */
static void add(struct sy_control_addresses *addresses, const struct addrinfo *at,
                const char *port)
{
	char host[NI_MAXHOST], *out = addresses->endpoints[addresses->count];
	bool wide = at->ai_family == AF_INET6;
	if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST) !=
	            0 ||
	    sy_format(out, SY_CONTROL_ENDPOINT_BYTES, "%s%s%s%s%s", tcp, wide ? "[" : "", host,
	              wide ? "]" : "", port) >= SY_CONTROL_ENDPOINT_BYTES)
		return;
	for (uint32_t i = 0; i < addresses->count; i++) {
		if (strcmp(addresses->endpoints[i], out) == 0)
			return;
	}
	addresses->count++;
}

void sy_control_look_up(const char *endpoint, struct sy_control_addresses *ret_addresses)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	char host[SY_CONTROL_ENDPOINT_BYTES];
	struct addrinfo *list = NULL;
	ret_addresses->count = 0;
	if (!sy_control_is_name(endpoint)) {
		ret_addresses->count = sy_format(ret_addresses->endpoints[0], SY_CONTROL_ENDPOINT_BYTES,
		                                 "%s", endpoint) < SY_CONTROL_ENDPOINT_BYTES;
		return;
	}
	if (!host_of(endpoint, host) || getaddrinfo(host, NULL, &hints, &list) != 0)
		return;
	for (const struct addrinfo *at = list;
	     at != NULL && ret_addresses->count < SY_CONTROL_ADDRESSES_MAX; at = at->ai_next)
		add(ret_addresses, at, strrchr(endpoint, ':'));
	freeaddrinfo(list);
}

void sy_control_lookup_leave(struct sy_control_lookup *lookup)
{
	if (lookup == NULL || atomic_fetch_sub(&lookup->holders, 1) != 1)
		return;
	close(lookup->through_fd);
	free(lookup);
}

static void *run(void *argument)
{
	struct sy_control_lookup *lookup = argument;
	sy_control_look_up(lookup->endpoint, &lookup->found);
	atomic_store(&lookup->through, true);
	(void)eventfd_write(lookup->through_fd, 1);
	sy_control_lookup_leave(lookup);
	return NULL;
}

/* Nobody joins it: the system's answer may come long after who asked has gone. Signals are for the
 * program's own threads. */
static bool start(struct sy_control_lookup *lookup)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	if (pthread_attr_init(&attributes) != 0)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
	               pthread_create(&thread, &attributes, run, lookup) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return started;
}

struct sy_control_lookup *sy_control_lookup_start(const char *endpoint)
{
	struct sy_control_lookup *lookup = calloc(1, sizeof *lookup);
	if (lookup == NULL)
		return NULL;
	lookup->through_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_init(&lookup->holders, HOLDERS);
	if (lookup->through_fd >= 0 &&
	    sy_format(lookup->endpoint, sizeof lookup->endpoint, "%s", endpoint) <
	            sizeof lookup->endpoint &&
	    start(lookup))
		return lookup;
	if (lookup->through_fd >= 0)
		close(lookup->through_fd);
	free(lookup);
	return NULL;
}

bool sy_control_lookup_wait(struct sy_control_lookup *lookup, uint64_t until_ns,
                            struct sy_control_addresses *ret_addresses)
{
	struct pollfd wait = {.fd = lookup->through_fd, .events = POLLIN};
	for (uint64_t now = sy_clock_now_ns();; now = sy_clock_now_ns()) {
		int ready = poll(&wait, 1, sy_clock_poll_ms(now, until_ns));
		if (ready > 0 && atomic_load(&lookup->through)) {
			*ret_addresses = lookup->found;
			return true;
		}
		if (now >= until_ns || (ready < 0 && errno != EINTR))
			return false;
	}
}
