/* What both ends of the control plane have in common. */
#ifndef SY_CONTROL_PARTS_H
#define SY_CONTROL_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

/* A context whose threads run, to be ended by sy_control_end. NULL and errno: memory or
 * descriptors are too few for it. ZeroMQ itself ends the process where it finds no descriptors
 * for them. */
void *sy_control_start(void);
/* Ends the context and its threads: once its sockets are closed, whatever signals come. */
void sy_control_end(void *context);
/* Sets an int option; false and zmq_errno on failure. */
bool sy_control_set(void *socket, int option, int value);
/* Limits and manners of every socket: sizes, queues, no lingering. */
bool sy_control_setup(void *socket);
/* IPv6 for endpoints that are written so, and only there: otherwise ZeroMQ would report a bound
 * IPv4 address in its mapped form. */
bool sy_control_set_family(void *socket, const char *endpoint);
int sy_control_fd(void *socket);

/* These four try again where a signal came between. False and zmq_errno on failure. */
bool sy_control_connect(void *socket, const char *endpoint);
bool sy_control_bind(void *socket, const char *endpoint);
/* Never block. False: nothing is there, or it cannot be sent now. */
bool sy_control_take(void *socket, zmq_msg_t *message);
bool sy_control_give(void *socket, const void *data, size_t bytes, bool more);

enum { SY_CONTROL_MECHANISM_BYTES = 21 };
/* The mechanism of ZeroMQ, "CURVE" or "NULL", that who listens at a tcp endpoint speaks. False:
 * nothing of that kind was heard by deadline_ns. */
bool sy_control_hear_mechanism(void *context, const char *endpoint, uint64_t deadline_ns,
                               char ret_name[SY_CONTROL_MECHANISM_BYTES]);

#endif
