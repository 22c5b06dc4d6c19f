#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "control_parts.h"
#include "fail.h"

enum { RECONNECT_MS = 50, RECONNECT_MAX_MS = 2000, PAUSES = 50, PAUSE_NS = 2000000 };

struct sy_control_context {
	void *zmq;
	struct sy_control_keys keys; /* "": none */
};

struct sy_control_client {
	void *socket;
	zmq_msg_t message; /* the one lent to the caller */
	bool lent;
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

static bool has_keys(const struct sy_control_keys *keys)
{
	return keys->client_secret[0] != '\0';
}

static bool is_tcp(const char *endpoint)
{
	return strncmp(endpoint, "tcp://", 6) == 0;
}

sy_status sy_control_context_check(struct sy_control_context *context, const char *endpoint,
                                   uint64_t deadline_ns, sy_error *err)
{
	char mechanism[SY_CONTROL_MECHANISM_BYTES];
	if (!is_tcp(endpoint) ||
	    !sy_control_hear_mechanism(context->zmq, endpoint, deadline_ns, mechanism))
		return SY_OK;
	bool wanted = strcmp(mechanism, "CURVE") == 0;
	if (wanted && !has_keys(&context->keys))
		return sy_fail(err, SY_E_AUTH, __func__,
		               "who listens at %.120s asks for keys: name the folder of its client.key "
		               "(--keys DIR)", endpoint);
	if (!wanted && has_keys(&context->keys))
		return sy_fail(err, SY_E_AUTH, __func__,
		               "who listens at %.120s has no keys: give none (leave out --keys), or start "
		               "it with them", endpoint);
	return SY_OK;
}

static bool keys_show(void *socket, const struct sy_control_keys *keys, const char *endpoint)
{
	if (!has_keys(keys) || !is_tcp(endpoint))
		return true;
	return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server_public,
	                      SY_CONTROL_KEY_BYTES) == 0 &&
	       zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->client_public,
	                      SY_CONTROL_KEY_BYTES) == 0 &&
	       zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->client_secret,
	                      SY_CONTROL_KEY_BYTES) == 0;
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

static bool set_up(struct sy_control_client *client, struct sy_control_context *context,
                   const char *endpoint)
{
	client->socket = open_socket(context->zmq);
	return client->socket != NULL && sy_control_setup(client->socket) &&
	       keys_show(client->socket, &context->keys, endpoint) &&
	       sy_control_set(client->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
	       sy_control_set(client->socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
}

static bool connect_one(void *socket, const char *endpoint)
{
	return sy_control_set_family(socket, endpoint) && sy_control_connect(socket, endpoint);
}

static sy_status give_up(struct sy_control_client *client, const char *endpoint, sy_error *err)
{
	int error = zmq_errno();
	sy_control_client_close(client, 0);
	return sy_fail(err, SY_E_SYS, "sy_control_client_open", "cannot connect to %s: %s%s", endpoint,
	               zmq_strerror(error),
	               error == EINVAL ? "; write ipc://PATH or tcp://HOST:PORT" : "");
}

sy_status sy_control_client_open(struct sy_control_context *context, const char *endpoint,
                                 struct sy_control_client **ret_client, sy_error *err)
{
	struct sy_control_client *client = calloc(1, sizeof *client);
	if (client == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (!set_up(client, context, endpoint) || !connect_one(client->socket, endpoint))
		return give_up(client, endpoint, err);
	*ret_client = client;
	return SY_OK;
}

sy_status sy_control_client_open_any(struct sy_control_context *context,
                                     const struct sy_control_addresses *addresses,
                                     struct sy_control_client **ret_client, sy_error *err)
{
	struct sy_control_client *client = calloc(1, sizeof *client);
	const char *first = addresses->count > 0 ? addresses->endpoints[0] : "";
	uint32_t connected = 0;
	if (client == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	/* Without it a message would go at once into the queue of one, who may never be there. */
	if (!set_up(client, context, first) || !sy_control_set(client->socket, ZMQ_IMMEDIATE, 1))
		return give_up(client, first, err);
	for (uint32_t i = 0; i < addresses->count; i++)
		connected += connect_one(client->socket, addresses->endpoints[i]);
	if (connected == 0 && addresses->count > 0)
		return give_up(client, first, err);
	*ret_client = client;
	return SY_OK;
}

void sy_control_client_close(struct sy_control_client *client, int linger_ms)
{
	if (client == NULL)
		return;
	if (client->lent)
		zmq_msg_close(&client->message);
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
