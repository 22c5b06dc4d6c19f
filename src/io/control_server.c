#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <zmq.h>

#include "control_names.h"
#include "control_parts.h"
#include "control_zap.h"
#include "fail.h"
#include "units.h"

enum {
	ENDPOINTS_MAX = 8,
	/* A ROUTER names a peer by 5 bytes, a zero and a number, unless the peer names itself. */
	ROUTE_BYTES = 5,
	BAD_MAX = 64, /* messages thrown away before the caller gets its turn */
};

/* Which of a server's sockets: a socket either checks keys or does not, on all its endpoints. */
enum { SOCKET_OPEN = 0, SOCKET_KEYED = 1, SOCKETS = 2, ROUTE_SOCKET_SHIFT = 40 };

struct sy_control_server {
	void *context, *sockets[SOCKETS]; /* KEYED: NULL without keys */
	struct sy_control_zap *zap;
	int epoll_fd;     /* of both; -1: there is one */
	uint32_t turn;    /* the socket that is looked at first */
	char endpoints[ENDPOINTS_MAX][SY_CONTROL_ENDPOINT_BYTES];
	size_t endpoint_count;
	zmq_msg_t message; /* the one lent to the caller */
	bool lent;
	uint64_t dropped_count;
};

static sy_status fail_bind(const char *endpoint, int error, sy_error *err)
{
	const char *advice = "";
	if (error == EADDRINUSE)
		advice = ": something else listens there; stop it or choose another address";
	else if (error == EADDRNOTAVAIL || error == ENODEV)
		advice = ": this host has no such address";
	else if (error == EINVAL || error == EPROTONOSUPPORT)
		advice = ": give tcp://ADDRESS:PORT, tcp://[ADDRESS]:PORT or ipc://PATH";
	return sy_fail(err, SY_E_SYS, "sy_control_server_open", "cannot listen at %s: %s%s", endpoint,
	               zmq_strerror(error), advice);
}

/* ZeroMQ takes a port modulo 65,536 without a word. True: no tcp, or "*" or a port there is. */
static bool port_exists(const char *endpoint)
{
	const char *port = strrchr(endpoint, ':');
	uint64_t number;
	if (strncmp(endpoint, "tcp://", 6) != 0)
		return true;
	if (port == NULL || strcmp(port, ":*") == 0)
		return port != NULL;
	return sy_parse_u64(port + 1, strlen(port + 1), &number, NULL) == SY_OK && number <= 65535;
}

static bool bind_address(void *socket, const char *endpoint)
{
	return sy_control_set_family(socket, endpoint) && sy_control_bind(socket, endpoint);
}

static bool read_bound(void *socket, char bound[SY_CONTROL_ENDPOINT_BYTES])
{
	size_t bytes = SY_CONTROL_ENDPOINT_BYTES;
	return zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &bytes) == 0;
}

/* All addresses of the name that are of this host and free, since a client may try any of them;
 * `bound` is the first. Where the port is any that is free the first is all: clients learn it with
 * the port. False and errno: there is none, taken ones above all. */
static bool bind_name(void *socket, const char *endpoint, char bound[SY_CONTROL_ENDPOINT_BYTES])
{
	struct sy_control_addresses found;
	const char *port = strrchr(endpoint, ':');
	bool once = strcmp(port, ":*") == 0 || strspn(port + 1, "0") == strlen(port + 1);
	uint32_t bound_count = 0;
	int error = zmq_errno();
	sy_control_look_up(endpoint, &found);
	for (uint32_t i = 0; i < found.count && !(once && bound_count > 0); i++) {
		if (bind_address(socket, found.endpoints[i]) &&
		    (bound_count > 0 || read_bound(socket, bound)))
			bound_count++;
		else if (error != EADDRINUSE)
			error = zmq_errno();
	}
	errno = error;
	return bound_count > 0;
}

static sy_status bind_one(struct sy_control_server *server, const char *endpoint, sy_error *err)
{
	bool is_keyed = server->sockets[SOCKET_KEYED] != NULL && strncmp(endpoint, "tcp://", 6) == 0;
	void *socket = server->sockets[is_keyed ? SOCKET_KEYED : SOCKET_OPEN];
	char *bound = server->endpoints[server->endpoint_count];
	if (!port_exists(endpoint))
		return sy_fail(err, SY_E_SYS, "sy_control_server_open",
		               "%s names no port: give 0 to 65535, or * for any that is free", endpoint);
	/* ZeroMQ itself knows the names of devices here. */
	bool is_bound = bind_address(socket, endpoint)
	                        ? read_bound(socket, bound)
	                        : sy_control_is_name(endpoint) && bind_name(socket, endpoint, bound);
	if (!is_bound)
		return fail_bind(endpoint, zmq_errno(), err);
	server->endpoint_count++;
	return SY_OK;
}

static void *socket_make(struct sy_control_server *server)
{
	void *socket = zmq_socket(server->context, ZMQ_ROUTER);
	/* Without MANDATORY a reply to a client that does not read would wait in its queue for
	 * ever, and one to a client that is gone would be lost without a word. */
	if (socket == NULL ||
	    (sy_control_setup(socket) && sy_control_set(socket, ZMQ_ROUTER_MANDATORY, 1)))
		return socket;
	int why = zmq_errno();
	zmq_close(socket);
	errno = why;
	return NULL;
}

/* Both sockets wake one descriptor. ZeroMQ's stay readable until they were looked at. */
static bool epoll_make(struct sy_control_server *server)
{
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t i = 0; i < SOCKETS && server->epoll_fd >= 0; i++) {
		struct epoll_event event = {.events = EPOLLIN};
		int fd = sy_control_fd(server->sockets[i]);
		if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
			return false;
	}
	return server->epoll_fd >= 0;
}

static sy_status keyed_open(struct sy_control_server *server, const struct sy_control_keys *keys,
                            sy_error *err)
{
	static const char domain[] = "slabyard";
	sy_status status = sy_control_zap_start(server->context, keys->client_public, &server->zap,
	                                        err);
	if (status != SY_OK)
		return status;
	void *socket = socket_make(server);
	server->sockets[SOCKET_KEYED] = socket;
	if (socket == NULL || !sy_control_set(socket, ZMQ_CURVE_SERVER, 1) ||
	    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->server_secret, SY_CONTROL_KEY_BYTES) !=
	            0 ||
	    zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, sizeof domain - 1) != 0 ||
	    !epoll_make(server))
		return sy_fail(err, SY_E_SYS, "sy_control_server_open",
		               "cannot open a control socket with keys: %s", zmq_strerror(zmq_errno()));
	return SY_OK;
}

sy_status sy_control_server_open(const char *const *endpoints, size_t endpoint_count,
                                 const struct sy_control_keys *keys,
                                 struct sy_control_server **ret_server, sy_error *err)
{
	if (endpoint_count == 0 || endpoint_count > ENDPOINTS_MAX)
		return sy_fail(err, SY_E_INVALID, __func__, "between 1 and %d endpoints", ENDPOINTS_MAX);
	struct sy_control_server *server = calloc(1, sizeof *server);
	if (server == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	server->epoll_fd = -1;
	server->context = sy_control_start();
	if (server->context != NULL)
		server->sockets[SOCKET_OPEN] = socket_make(server);
	sy_status status = SY_OK;
	if (server->sockets[SOCKET_OPEN] == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "cannot open a control socket: %s",
		                 zmq_strerror(zmq_errno()));
	else if (keys != NULL)
		status = keyed_open(server, keys, err);
	for (size_t i = 0; i < endpoint_count && status == SY_OK; i++)
		status = bind_one(server, endpoints[i], err);
	if (status != SY_OK) {
		sy_control_server_close(server);
		return status;
	}
	*ret_server = server;
	return SY_OK;
}

void sy_control_server_close(struct sy_control_server *server)
{
	if (server == NULL)
		return;
	if (server->lent)
		zmq_msg_close(&server->message);
	if (server->epoll_fd >= 0)
		close(server->epoll_fd);
	for (uint32_t i = 0; i < SOCKETS; i++) {
		if (server->sockets[i] != NULL)
			zmq_close(server->sockets[i]);
	}
	if (server->zap != NULL)
		zmq_ctx_shutdown(server->context);
	sy_control_zap_join(server->zap);
	if (server->context != NULL)
		sy_control_end(server->context);
	free(server);
}

const char *sy_control_server_endpoint(const struct sy_control_server *server, size_t index)
{
	return index < server->endpoint_count ? server->endpoints[index] : "";
}

int sy_control_server_fd(const struct sy_control_server *server)
{
	return server->epoll_fd >= 0 ? server->epoll_fd : sy_control_fd(server->sockets[SOCKET_OPEN]);
}

/* Big-endian in the id's last four bytes; one more, so that no route is 0. Above it the socket. */
static bool parse_route(zmq_msg_t *frame, uint32_t socket, uint64_t *ret_route)
{
	const uint8_t *id = zmq_msg_data(frame);
	if (zmq_msg_size(frame) != ROUTE_BYTES || id[0] != 0)
		return false;
	uint32_t number = (uint32_t)id[1] << 24 | (uint32_t)id[2] << 16 | (uint32_t)id[3] << 8 | id[4];
	*ret_route = ((uint64_t)socket << ROUTE_SOCKET_SHIFT) + number + 1;
	return true;
}

/* Takes the further parts of a message out of the way, all of which are there: ZeroMQ hands out
 * whole messages. True if there were none. */
static bool skip_parts(void *socket, zmq_msg_t *frame)
{
	bool single = true;
	while (zmq_msg_more(frame) && sy_control_take(socket, frame))
		single = false;
	return single;
}

/* Reads one message, good or bad. False: none is there. */
static bool receive_one(struct sy_control_server *server, uint32_t which, uint64_t *ret_route,
                        bool *ret_good)
{
	void *socket = server->sockets[which];
	zmq_msg_t id;
	if (socket == NULL)
		return false;
	zmq_msg_init(&id);
	bool got = sy_control_take(socket, &id);
	if (got && parse_route(&id, which, ret_route) && zmq_msg_more(&id))
		*ret_good = sy_control_take(socket, &server->message) &&
		            skip_parts(socket, &server->message);
	else if (got)
		(void)skip_parts(socket, &id);
	zmq_msg_close(&id);
	return got;
}

/* By turns, so that neither socket holds up the other. */
static bool receive_any(struct sy_control_server *server, uint64_t *ret_route, bool *ret_good)
{
	uint32_t first = server->turn;
	server->turn = (first + 1) % SOCKETS;
	return receive_one(server, first, ret_route, ret_good) ||
	       receive_one(server, server->turn, ret_route, ret_good);
}

bool sy_control_server_ready(struct sy_control_server *server)
{
	bool ready = false;
	for (uint32_t i = 0; i < SOCKETS; i++) {
		int events = 0;
		size_t bytes = sizeof events;
		void *socket = server->sockets[i];
		ready = ready || (socket != NULL &&
		                  (zmq_getsockopt(socket, ZMQ_EVENTS, &events, &bytes) != 0 ||
		                   (events & ZMQ_POLLIN) != 0));
	}
	return ready;
}

bool sy_control_server_receive(struct sy_control_server *server, uint64_t *ret_route,
                               const void **ret_message, size_t *ret_bytes)
{
	if (server->lent)
		zmq_msg_close(&server->message);
	zmq_msg_init(&server->message);
	server->lent = true;
	for (uint32_t attempt = 0; attempt < BAD_MAX; attempt++) {
		uint64_t route = 0;
		bool good = false;
		if (!receive_any(server, &route, &good))
			return false;
		if (good) {
			*ret_route = route;
			*ret_message = zmq_msg_data(&server->message);
			*ret_bytes = zmq_msg_size(&server->message);
			return true;
		}
		server->dropped_count++;
	}
	return false;
}

const char *sy_control_server_peer(struct sy_control_server *server)
{
	const char *host = server->lent ? zmq_msg_gets(&server->message, "Peer-Address") : NULL;
	return host != NULL && host[0] != '\0' ? host : NULL;
}

void sy_control_server_send(struct sy_control_server *server, uint64_t route, const void *message,
                            size_t bytes)
{
	void *socket = server->sockets[route >> ROUTE_SOCKET_SHIFT & 1];
	uint32_t number = (uint32_t)(route - 1);
	const uint8_t id[ROUTE_BYTES] = {0, (uint8_t)(number >> 24), (uint8_t)(number >> 16),
	                                 (uint8_t)(number >> 8), (uint8_t)number};
	/* The first frame is refused (EHOSTUNREACH, EAGAIN) where the message cannot go. Once it is
	 * taken, the next one belongs to it whatever it is: an empty one ends a message whose
	 * memory could not be had, and its receiver cannot read it. */
	if (!sy_control_give(socket, id, sizeof id, true)) {
		server->dropped_count++;
	} else if (!sy_control_give(socket, message, bytes, false)) {
		server->dropped_count++;
		(void)sy_control_give(socket, NULL, 0, false);
	}
}

uint64_t sy_control_server_dropped(const struct sy_control_server *server)
{
	return server->dropped_count;
}
