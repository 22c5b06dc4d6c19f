/* Control messages over ZeroMQ: the unit's (or directory's) ROUTER and the client's DEALER.
 *
 * Nothing here blocks, but that a server looks up a name. A socket is used by one thread at a time
 * (its owner locks). ZeroMQ's descriptor is edge-triggered: who touched a socket (sent or
 * received) must receive until there is nothing, before anyone waits on the descriptor again. */
#ifndef SY_CONTROL_H
#define SY_CONTROL_H

#include <slabyard/status.h>

#include "control_keys.h"
#include "control_names.h"

struct sy_control_server;

/* Binds all `endpoints` (ipc://path, tcp://127.0.0.1:0 or :*, tcp://[::1]:0), a name at all of its
 * addresses that are of this host and free; if any port will do, at the first of them. With `keys`
 * (a server's; NULL: none) only who has the client's is heard over tcp; over ipc the path's
 * directory decides who comes in. An occupied port or path is SY_E_SYS at once. Owned by the
 * caller. */
sy_status sy_control_server_open(const char *const *endpoints, size_t endpoint_count,
                                 const struct sy_control_keys *keys,
                                 struct sy_control_server **ret_server, sy_error *err);
void sy_control_server_close(struct sy_control_server *server);
/* The endpoint as bound, with its address and port; borrowed. */
const char *sy_control_server_endpoint(const struct sy_control_server *server, size_t index);
int sy_control_server_fd(const struct sy_control_server *server);
/* The next message, borrowed until the next call; false: none now. Messages of peers that set
 * a routing id of their own, or of more than one part, are dropped and counted. */
bool sy_control_server_receive(struct sy_control_server *server, uint64_t *ret_route,
                               const void **ret_message, size_t *ret_bytes);
/* The numeric address of the host that the message at hand came from, borrowed until the next one;
 * NULL: of this host, over ipc. */
const char *sy_control_server_peer(struct sy_control_server *server);
/* True if a message waits (or one that will be dropped): asked before sleeping, by who does not
 * receive until there is nothing. */
bool sy_control_server_ready(struct sy_control_server *server);
/* Lost if the route is gone or its queue is full. */
void sy_control_server_send(struct sy_control_server *server, uint64_t route, const void *message,
                            size_t bytes);

/* How many messages were dropped: bad ones that came, and replies that could not go. */
uint64_t sy_control_server_dropped(const struct sy_control_server *server);

struct sy_control_context; /* of a process's DEALERs: ZeroMQ's own thread behind it */
sy_status sy_control_context_open(struct sy_control_context **ret_context, sy_error *err);
void sy_control_context_close(struct sy_control_context *context);
/* Clients that are opened over tcp from now on show these (a client's). Copied. */
void sy_control_context_set_keys(struct sy_control_context *context,
                                 const struct sy_control_keys *keys);
/* Asked where nobody answers: SY_E_AUTH, if who listens there asks for keys and this context has
 * none to show, or the other way round. SY_OK: it is not so, or was not heard by deadline_ns, or
 * the endpoint is none of tcp. May be asked from any thread. */
sy_status sy_control_context_check(struct sy_control_context *context, const char *endpoint,
                                   uint64_t deadline_ns, sy_error *err);

struct sy_control_client;
/* To a unit, at the address that it gave. */
sy_status sy_control_client_open(struct sy_control_context *context, const char *endpoint,
                                 struct sy_control_client **ret_client, sy_error *err);
/* One that connects to all of them (none: to nobody), for one message: it is taken only once one
 * is there who speaks as we do, and goes to one of those. SY_E_SYS: none is an endpoint. */
sy_status sy_control_client_open_any(struct sy_control_context *context,
                                     const struct sy_control_addresses *addresses,
                                     struct sy_control_client **ret_client, sy_error *err);
/* Sends what is queued for at most linger_ms. */
void sy_control_client_close(struct sy_control_client *client, int linger_ms);
int sy_control_client_fd(const struct sy_control_client *client);
/* False: the queue is full, the message was not taken (it is resent by its owner's timer). */
bool sy_control_client_send(struct sy_control_client *client, const void *message, size_t bytes);
bool sy_control_client_receive(struct sy_control_client *client, const void **ret_message,
                               size_t *ret_bytes);

#endif
