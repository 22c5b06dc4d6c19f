#include "control_parts.h"

#include <errno.h>
#include <string.h>

#include "message.h"
#include "process.h"

enum {
	/* Frames around the largest message, and what a later version may add to it. */
	SLACK_BYTES = 64 << 10,
	/* Messages queued a connection and direction: all slots of a session, resent, and more. */
	QUEUE_COUNT = 256,
	BACKLOG_COUNT = 512,
	ATTEMPTS = 16, /* of a call that a signal interrupted */
	/* Of a context and its first socket: six (a mailbox each of the context, two threads and the
	 * socket; what the two threads wait on), and room for a change. */
	THREADS_FDS = 8,
};

void *sy_control_start(void)
{
	void *context = zmq_ctx_new();
	if (context == NULL)
		return NULL;
	/* The first socket starts the threads. */
	void *socket = sy_process_has_descriptors(THREADS_FDS) ? zmq_socket(context, ZMQ_PAIR) : NULL;
	int why = errno;
	if (socket != NULL) {
		zmq_close(socket);
		return context;
	}
	sy_control_end(context);
	errno = why;
	return NULL;
}

/* Each signal ends one wait for the threads; what is left of them would stay for good. */
void sy_control_end(void *context)
{
	while (zmq_ctx_term(context) != 0 && zmq_errno() == EINTR)
		;
}

bool sy_control_set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

bool sy_control_setup(void *socket)
{
	const int64_t max_bytes = SY_MESSAGE_MAX_BYTES + SLACK_BYTES;
	return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes) == 0 &&
	       sy_control_set(socket, ZMQ_LINGER, 0) &&
	       sy_control_set(socket, ZMQ_SNDHWM, QUEUE_COUNT) &&
	       sy_control_set(socket, ZMQ_RCVHWM, QUEUE_COUNT) &&
	       sy_control_set(socket, ZMQ_BACKLOG, BACKLOG_COUNT);
}

bool sy_control_set_family(void *socket, const char *endpoint)
{
	return sy_control_set(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL);
}

int sy_control_fd(void *socket)
{
	int fd = -1;
	size_t bytes = sizeof fd;
	return zmq_getsockopt(socket, ZMQ_FD, &fd, &bytes) == 0 ? fd : -1;
}

/* Each looks first at what ZeroMQ's own threads say to it, where a signal ends it. */
static bool attempt_all(int (*call)(void *socket, const char *endpoint), void *socket,
                        const char *endpoint)
{
	for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (call(socket, endpoint) == 0)
			return true;
		if (zmq_errno() != EINTR)
			return false;
	}
	return false;
}

bool sy_control_connect(void *socket, const char *endpoint)
{
	return attempt_all(zmq_connect, socket, endpoint);
}

bool sy_control_bind(void *socket, const char *endpoint)
{
	return attempt_all(zmq_bind, socket, endpoint);
}

bool sy_control_take(void *socket, zmq_msg_t *message)
{
	for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (zmq_msg_recv(message, socket, ZMQ_DONTWAIT) >= 0)
			return true;
		if (zmq_errno() != EINTR)
			return false;
	}
	return false;
}

bool sy_control_give(void *socket, const void *data, size_t bytes, bool more)
{
	zmq_msg_t message;
	if (zmq_msg_init_size(&message, bytes) != 0)
		return false;
	if (bytes > 0)
		memcpy(zmq_msg_data(&message), data, bytes);
	for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (zmq_msg_send(&message, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0)
			return true;
		if (zmq_errno() != EINTR)
			break;
	}
	zmq_msg_close(&message);
	return false;
}
