#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "control_parts.h"
#include "fail.h"
#include "process.h"

enum { RECONNECT_MS = 50, RECONNECT_MAX_MS = 2000, PAUSES = 50, PAUSE_NS = 2000000 };
/* A watch takes two descriptors, and is to be the reason of no shortage. */
enum { WATCH_FDS = 64, WATCH_EVENT_BYTES = 6 };

struct sy_control_context {
	void *zmq;
	struct sy_control_keys keys; /* "": none */
};

struct sy_control_client {
	void *socket;
	void *watch; /* tells of the handshake; NULL: it is over, or cannot be watched */
	bool has_keys, refused, hung_up;
	zmq_msg_t message; /* the one lent to the caller */
	bool lent;
	char endpoint[];
};

sy_status sy_control_context_open(struct sy_control_context **ret_context, sy_error *err)
{
	struct sy_control_context *context = calloc(1, sizeof *context);
	if (context != NULL)
		context->zmq = sy_control_start();
	if (context == NULL || context->zmq == NULL) {
		int error = context != NULL ? errno : ENOMEM;
		free(context);
		return sy_fail(err, SY_E_SYS, __func__, "cannot open a control context: %s",
		               strerror(error));
	}
	*ret_context = context;
	return SY_OK;
}

void sy_control_context_close(struct sy_control_context *context)
{
	if (context == NULL)
		return;
	sy_control_end(context->zmq);
	free(context);
}

void sy_control_context_set_keys(struct sy_control_context *context,
                                 const struct sy_control_keys *keys)
{
	context->keys = *keys;
}

static bool keys_show(void *socket, const struct sy_control_keys *keys, const char *endpoint)
{
	if (keys->client_secret[0] == '\0' || strncmp(endpoint, "tcp://", 6) != 0)
		return true;
	return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server_public,
	                      SY_CONTROL_KEY_BYTES) == 0 &&
	       zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->client_public,
	                      SY_CONTROL_KEY_BYTES) == 0 &&
	       zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->client_secret,
	                      SY_CONTROL_KEY_BYTES) == 0;
}

static void watch_close(struct sy_control_client *client)
{
	if (client->watch == NULL)
		return;
	if (client->socket != NULL)
		(void)zmq_socket_monitor(client->socket, NULL, 0);
	zmq_close(client->watch);
	client->watch = NULL;
}

/* Before the socket connects. ZeroMQ tries again for ever, and tells of a refusal so alone. */
static void watch_open(struct sy_control_client *client, void *context)
{
	const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
	                   ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
	char name[48];
	sy_format(name, sizeof name, "inproc://watch-%llx",
	          (unsigned long long)(uintptr_t)client->socket);
	if (strncmp(client->endpoint, "tcp://", 6) != 0 || !sy_process_has_descriptors(WATCH_FDS) ||
	    zmq_socket_monitor(client->socket, name, events) != 0)
		return;
	client->watch = zmq_socket(context, ZMQ_PAIR);
	if (client->watch == NULL)
		(void)zmq_socket_monitor(client->socket, NULL, 0);
	else if (!sy_control_set(client->watch, ZMQ_LINGER, 0) ||
	         zmq_connect(client->watch, name) != 0)
		watch_close(client);
}

/* One frame of an event: its number and value, or the address that follows them. */
static void watch_hear(struct sy_control_client *client, zmq_msg_t *frame)
{
	uint16_t event;
	uint32_t value;
	const uint8_t *bytes = zmq_msg_data(frame);
	if (zmq_msg_size(frame) != WATCH_EVENT_BYTES || !zmq_msg_more(frame))
		return;
	memcpy(&event, bytes, sizeof event);
	memcpy(&value, bytes + sizeof event, sizeof value);
	if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
		watch_close(client);
	else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
		client->hung_up = true;
	else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
	         value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
		client->refused = true;
}

static void watch_look(struct sy_control_client *client)
{
	zmq_msg_t frame;
	while (client->watch != NULL) { /* few come: a connection is tried every 50 ms at most */
		zmq_msg_init(&frame);
		bool got = sy_control_take(client->watch, &frame);
		if (got)
			watch_hear(client, &frame);
		zmq_msg_close(&frame);
		if (!got)
			return;
	}
}

sy_status sy_control_client_refusal(struct sy_control_client *client, sy_error *err)
{
	watch_look(client);
	if (!client->refused)
		return SY_OK;
	if (client->has_keys)
		return sy_fail(err, SY_E_AUTH, __func__,
		               "who listens at %.120s takes no client with these keys: it has others, or "
		               "none", client->endpoint);
	return sy_fail(err, SY_E_AUTH, __func__,
	               "who listens at %.120s asks for keys: name the folder of client.key (--keys "
	               "DIR)", client->endpoint);
}

bool sy_control_client_hung_up(const struct sy_control_client *client)
{
	return client->hung_up;
}

/* A socket that was closed keeps its place and its descriptors until libzmq's own thread has taken
 * it down, which may be late where processors are few: so many places are not all in use. */
static void *open_socket(void *context)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	void *socket = zmq_socket(context, ZMQ_DEALER);
	for (int i = 0; i < PAUSES && socket == NULL && zmq_errno() == EMFILE; i++) {
		nanosleep(&pause, NULL);
		socket = zmq_socket(context, ZMQ_DEALER);
	}
	return socket;
}

sy_status sy_control_client_open(struct sy_control_context *context, const char *endpoint,
                                 struct sy_control_client **ret_client, sy_error *err)
{
	size_t bytes = strlen(endpoint) + 1;
	struct sy_control_client *client = calloc(1, sizeof *client + bytes);
	if (client == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	memcpy(client->endpoint, endpoint, bytes);
	client->has_keys = context->keys.client_secret[0] != '\0';
	client->socket = open_socket(context->zmq);
	if (client->socket != NULL)
		watch_open(client, context->zmq);
	if (client->socket == NULL || !sy_control_setup(client->socket) ||
	    !sy_control_set_family(client->socket, endpoint) ||
	    !keys_show(client->socket, &context->keys, endpoint) ||
	    !sy_control_set(client->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) ||
	    !sy_control_set(client->socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS) ||
	    zmq_connect(client->socket, endpoint) != 0) {
		int error = zmq_errno();
		sy_control_client_close(client, 0);
		return sy_fail(err, SY_E_SYS, __func__, "cannot connect to %s: %s%s", endpoint,
		               zmq_strerror(error),
		               error == EINVAL ? "; write ipc://PATH or tcp://HOST:PORT" : "");
	}
	*ret_client = client;
	return SY_OK;
}

void sy_control_client_close(struct sy_control_client *client, int linger_ms)
{
	if (client == NULL)
		return;
	if (client->lent)
		zmq_msg_close(&client->message);
	watch_close(client);
	if (client->socket != NULL) {
		(void)sy_control_set(client->socket, ZMQ_LINGER, linger_ms);
		zmq_close(client->socket);
	}
	free(client);
}

int sy_control_client_fd(const struct sy_control_client *client)
{
	return sy_control_fd(client->socket);
}

bool sy_control_client_send(struct sy_control_client *client, const void *message, size_t bytes)
{
	return sy_control_give(client->socket, message, bytes, false);
}

bool sy_control_client_receive(struct sy_control_client *client, const void **ret_message,
                               size_t *ret_bytes)
{
	if (client->lent)
		zmq_msg_close(&client->message);
	zmq_msg_init(&client->message);
	client->lent = true;
	if (!sy_control_take(client->socket, &client->message))
		return false;
	/* A part of a longer message is handed on as it is: its decoder refuses it. */
	*ret_message = zmq_msg_data(&client->message);
	*ret_bytes = zmq_msg_size(&client->message);
	return true;
}
