#include "harness.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "clock.h"
#include "control.h"
#include "message.h"

struct rig {
	char dir[64], ipc[96];
	struct sy_control_server *server;
	struct sy_control_context *context;
	uint32_t client_count; /* that are open */
};

static int open_rig(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);
	sy_error err = {0};
	assert_non_null(rig);
	snprintf(rig->dir, sizeof rig->dir, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	snprintf(rig->ipc, sizeof rig->ipc, "ipc://%s/unit.ipc", rig->dir);
	const char *const endpoints[] = {rig->ipc, "tcp://127.0.0.1:*"};
	if (sy_control_server_open(endpoints, 2, NULL, &rig->server, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(sy_control_context_open(&rig->context, &err), SY_OK);
	*state = rig;
	return 0;
}

/* ZeroMQ waits for each client that is open, for ever: a test that failed has left some, and then
 * the context, too, is left to the process's end. */
static int close_rig(void **state)
{
	static const char *const names[] = {"unit.ipc", "late.ipc", "keyed.ipc"};
	struct rig *rig = *state;
	char path[96];
	if (rig->client_count == 0)
		sy_control_context_close(rig->context);
	sy_control_server_close(rig->server);
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", rig->dir, names[i]);
		unlink(path);
	}
	int left = rmdir(rig->dir);
	free(rig);
	return left;
}

static void disconnect(struct rig *rig, struct sy_control_client *client, int linger_ms)
{
	sy_control_client_close(client, linger_ms);
	rig->client_count--;
}

static struct sy_control_client *connect_to(struct rig *rig, const char *endpoint)
{
	struct sy_control_client *client = NULL;
	sy_error err = {0};
	if (sy_control_client_open(rig->context, endpoint, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	rig->client_count++;
	return client;
}

/* Both wait on the descriptor as users do: look first, sleep only when there was nothing. The
 * rounds are many more than any message takes. */
static void await_fd(int fd)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	(void)poll(&waited, 1, 100);
}

static void server_take(struct rig *rig, uint64_t *ret_route, const void **ret_message,
                        size_t *ret_bytes)
{
	for (int round = 0; round < 200; round++) {
		if (sy_control_server_receive(rig->server, ret_route, ret_message, ret_bytes))
			return;
		await_fd(sy_control_server_fd(rig->server));
	}
	fail_msg("no message came");
}

static void client_take(struct sy_control_client *client, const void **ret_message,
                        size_t *ret_bytes)
{
	for (int round = 0; round < 200; round++) {
		if (sy_control_client_receive(client, ret_message, ret_bytes))
			return;
		await_fd(sy_control_client_fd(client));
	}
	fail_msg("no reply came");
}

static void test_round_trips(void **state)
{
	struct rig *rig = *state;
	const char *ipc = sy_control_server_endpoint(rig->server, 0);
	const char *tcp = sy_control_server_endpoint(rig->server, 1);
	assert_string_equal(ipc, rig->ipc);
	assert_int_equal(strncmp(tcp, "tcp://127.0.0.1:", 16), 0);
	assert_true(strtoul(tcp + 16, NULL, 10) > 0);
	struct sy_control_client *clients[2] = {connect_to(rig, ipc), connect_to(rig, tcp)};
	uint64_t routes[2] = {0};
	for (uint32_t i = 0; i < 40; i++) {
		const void *message;
		size_t bytes;
		uint64_t route = 0;
		char text[32];
		snprintf(text, sizeof text, "question %u", i);
		assert_true(sy_control_client_send(clients[i % 2], text, strlen(text)));
		server_take(rig, &route, &message, &bytes);
		assert_int_equal(bytes, strlen(text));
		assert_memory_equal(message, text, bytes);
		if (routes[i % 2] == 0)
			routes[i % 2] = route;
		assert_int_equal(route, routes[i % 2]);
		text[0] = 'Q';
		sy_control_server_send(rig->server, route, text, strlen(text));
		client_take(clients[i % 2], &message, &bytes);
		assert_int_equal(bytes, strlen(text));
		assert_memory_equal(message, text, bytes);
	}
	assert_int_not_equal(routes[0], routes[1]);
	assert_int_equal(sy_control_server_dropped(rig->server), 0);
	disconnect(rig, clients[0], 0);
	disconnect(rig, clients[1], 0);
	sy_control_client_close(NULL, 0);
}

static void test_ipv6(void **state)
{
	(void)state;
	struct sy_control_server *server = NULL;
	const char *const endpoints[] = {"tcp://[::1]:*"};
	sy_error err = {0};
	if (sy_control_server_open(endpoints, 1, NULL, &server, &err) != SY_OK) {
		print_message("skip: no IPv6 here (%s)\n", err.message);
		skip();
	}
	struct rig rig = {.server = server};
	assert_int_equal(sy_control_context_open(&rig.context, &err), SY_OK);
	const char *bound = sy_control_server_endpoint(server, 0);
	assert_int_equal(strncmp(bound, "tcp://[::1]:", 12), 0);
	struct sy_control_client *client = connect_to(&rig, bound);
	uint64_t route;
	const void *message;
	size_t bytes;
	assert_true(sy_control_client_send(client, "six", 3));
	server_take(&rig, &route, &message, &bytes);
	assert_memory_equal(message, "six", 3);
	disconnect(&rig, client, 0);
	sy_control_context_close(rig.context);
	sy_control_server_close(server);
}

/* Messages pile up: the descriptor wakes once, all are received, and then none is ready. */
static void test_many_at_once(void **state)
{
	struct rig *rig = *state;
	struct sy_control_client *client = connect_to(rig, rig->ipc);
	uint64_t route = 0;
	const void *message;
	size_t bytes;
	for (uint32_t i = 0; i < 200; i++)
		assert_true(sy_control_client_send(client, &i, sizeof i));
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t number;
		server_take(rig, &route, &message, &bytes);
		assert_int_equal(bytes, sizeof number);
		memcpy(&number, message, sizeof number);
		assert_int_equal(number, i);
		sy_control_server_send(rig->server, route, &number, sizeof number);
	}
	assert_false(sy_control_server_receive(rig->server, &route, &message, &bytes));
	assert_false(sy_control_server_ready(rig->server));
	for (uint32_t i = 0; i < 200; i++)
		client_take(client, &message, &bytes);
	disconnect(rig, client, 0);
}

static void test_replies_that_cannot_go(void **state)
{
	struct rig *rig = *state;
	uint64_t route = 0;
	const void *message;
	size_t bytes;
	/* A route that never was. */
	sy_control_server_send(rig->server, 12345, "x", 1);
	assert_int_equal(sy_control_server_dropped(rig->server), 1);
	/* A client that asks and never reads: what goes over its queues is dropped, and the server
	 * neither waits nor grows. */
	struct sy_control_client *client = connect_to(rig, rig->ipc);
	assert_true(sy_control_client_send(client, "ask", 3));
	server_take(rig, &route, &message, &bytes);
	enum { LARGE_BYTES = 64 << 10 };
	uint8_t *large = calloc(1, LARGE_BYTES);
	assert_non_null(large);
	for (uint32_t i = 0; i < 4000 && sy_control_server_dropped(rig->server) == 1; i++)
		sy_control_server_send(rig->server, route, large, LARGE_BYTES);
	assert_true(sy_control_server_dropped(rig->server) > 1);
	free(large);
	disconnect(rig, client, 0);
	/* Another one is served as ever. */
	client = connect_to(rig, rig->ipc);
	assert_true(sy_control_client_send(client, "ask", 3));
	server_take(rig, &route, &message, &bytes);
	sy_control_server_send(rig->server, route, "reply", 5);
	client_take(client, &message, &bytes);
	assert_memory_equal(message, "reply", 5);
	disconnect(rig, client, 0);
}

/* What a client says to a unit that is not there waits, so much of it, and the rest is refused:
 * nothing grows. The unit comes, and it goes on. */
static void test_requests_that_cannot_go(void **state)
{
	struct rig *rig = *state;
	char late[96];
	uint64_t route = 0;
	const void *message;
	size_t bytes;
	uint32_t sent = 0;
	snprintf(late, sizeof late, "ipc://%s/late.ipc", rig->dir);
	struct sy_control_client *client = connect_to(rig, late);
	while (sent < 4000 && sy_control_client_send(client, &sent, sizeof sent))
		sent++;
	assert_in_range(sent, 64, 1024);
	assert_false(sy_control_client_send(client, "no", 2));
	const char *const endpoints[] = {late};
	struct sy_control_server *first = rig->server;
	assert_int_equal(sy_control_server_open(endpoints, 1, NULL, &rig->server, NULL), SY_OK);
	for (uint32_t i = 0; i < sent; i++) {
		server_take(rig, &route, &message, &bytes);
		assert_memory_equal(message, &i, sizeof i);
	}
	bool goes = sy_control_client_send(client, "yes", 3);
	for (int round = 0; round < 200 && !goes; round++) {
		/* It hears of the room there; a send alone looks there once a millisecond at most. */
		assert_false(sy_control_client_receive(client, &message, &bytes));
		await_fd(sy_control_client_fd(client));
		goes = sy_control_client_send(client, "yes", 3);
	}
	assert_true(goes);
	server_take(rig, &route, &message, &bytes);
	assert_memory_equal(message, "yes", 3);
	disconnect(rig, client, 0);
	sy_control_server_close(rig->server);
	rig->server = first;
	unlink(late + sizeof "ipc://" - 1);
}

/* Peers that are no clients of ours: a name of their own, several parts, too large. */
static void test_strange_peers(void **state)
{
	struct rig *rig = *state;
	void *context = zmq_ctx_new();
	void *named = zmq_socket(context, ZMQ_DEALER);
	void *parts = zmq_socket(context, ZMQ_DEALER);
	void *huge = zmq_socket(context, ZMQ_DEALER);
	const int no_linger = 0;
	uint64_t route = 0;
	const void *message;
	size_t bytes;
	assert_int_equal(zmq_setsockopt(named, ZMQ_ROUTING_ID, "me", 2), 0);
	void *const sockets[] = {named, parts, huge};
	for (size_t i = 0; i < 3; i++) {
		zmq_setsockopt(sockets[i], ZMQ_LINGER, &no_linger, sizeof no_linger);
		assert_int_equal(zmq_connect(sockets[i], rig->ipc), 0);
	}
	assert_int_equal(zmq_send(named, "hi", 2, 0), 2);
	assert_int_equal(zmq_send(named, "more", 4, ZMQ_SNDMORE), 4);
	assert_int_equal(zmq_send(named, "parts", 5, 0), 5);
	assert_int_equal(zmq_send(parts, "one", 3, ZMQ_SNDMORE), 3);
	assert_int_equal(zmq_send(parts, "two", 3, ZMQ_SNDMORE), 3);
	assert_int_equal(zmq_send(parts, "three", 5, 0), 5);
	assert_int_equal(zmq_send(parts, "", 0, ZMQ_SNDMORE), 0);
	assert_int_equal(zmq_send(parts, "delimited", 9, 0), 9);
	uint8_t *large = calloc(1, 2 * SY_MESSAGE_MAX_BYTES);
	assert_non_null(large);
	assert_int_equal(zmq_send(huge, large, 2 * SY_MESSAGE_MAX_BYTES, 0), 2 * SY_MESSAGE_MAX_BYTES);
	for (int round = 0; round < 200 && sy_control_server_dropped(rig->server) < 4; round++) {
		assert_false(sy_control_server_receive(rig->server, &route, &message, &bytes));
		await_fd(sy_control_server_fd(rig->server));
	}
	assert_int_equal(sy_control_server_dropped(rig->server), 4);
	/* The largest one of ours passes. */
	struct sy_control_client *client = connect_to(rig, rig->ipc);
	assert_true(sy_control_client_send(client, large, SY_MESSAGE_MAX_BYTES));
	server_take(rig, &route, &message, &bytes);
	assert_int_equal(bytes, SY_MESSAGE_MAX_BYTES);
	free(large);
	disconnect(rig, client, 0);
	for (size_t i = 0; i < 3; i++)
		zmq_close(sockets[i]);
	zmq_ctx_term(context);
}

static void test_listen_errors(void **state)
{
	struct rig *rig = *state;
	struct sy_control_server *server = NULL;
	sy_error err = {0};
	const char *taken = sy_control_server_endpoint(rig->server, 1);
	const char *const bad[] = {taken, "tcp://127.0.0.1:notaport", "nonsense", "tcp://192.0.2.1:*",
	                           "ipc:///nonexistent/x.ipc", "tcp://127.0.0.1:99999",
	                           "tcp://127.0.0.1:-1", "tcp://127.0.0.1:"};
	const char *const says[] = {"listens there", "notaport", "nonsense", "no such address",
	                            "/nonexistent", "names no port", "names no port", "names no port"};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(sy_control_server_open(&bad[i], 1, NULL, &server, &err), SY_E_SYS);
		if (strstr(err.message, says[i]) == NULL)
			fail_msg("%s", err.message);
		assert_null(strchr(err.message, '\n'));
	}
	assert_int_equal(sy_control_server_open(NULL, 0, NULL, &server, &err), SY_E_INVALID);
	assert_null(server);
	struct sy_control_client *client = NULL;
	assert_int_equal(sy_control_client_open(rig->context, "nonsense", &client, &err), SY_E_SYS);
	assert_null(client);
	sy_control_server_close(NULL);
	sy_control_context_close(NULL);
}

/* A connection of its own over which a question goes; answered only if the server hears it. */
static struct sy_control_client *ask_with(const struct sy_control_keys *keys, const char *endpoint,
                                          const char *question,
                                          struct sy_control_context **ret_context)
{
	struct sy_control_client *client = NULL;
	assert_int_equal(sy_control_context_open(ret_context, NULL), SY_OK);
	if (keys != NULL)
		sy_control_context_set_keys(*ret_context, keys);
	assert_int_equal(sy_control_client_open(*ret_context, endpoint, &client, NULL), SY_OK);
	assert_true(sy_control_client_send(client, question, strlen(question)));
	return client;
}

static void remove_keys(const char *dir)
{
	static const char *const names[] = {"server.key", "client.key"};
	char path[128];
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

static void make_keys(const char *dir, struct sy_control_keys *ret_server,
                      struct sy_control_keys *ret_client)
{
	sy_error err = {0};
	if (sy_control_keys_make(dir, &err) != SY_OK ||
	    sy_control_keys_server(dir, ret_server, &err) != SY_OK ||
	    sy_control_keys_client(dir, ret_client, &err) != SY_OK)
		fail_msg("%s", err.message);
	remove_keys(dir);
}

enum { STRANGERS = 4, FRIENDS = 8 };

/* Each over a connection of its own, over tcp with keys and over ipc without. */
static void friends_ask(struct sy_control_server *server, const struct sy_control_keys *keys)
{
	struct rig keyed = {.server = server};
	for (uint32_t i = 0; i < FRIENDS; i++) {
		const char *endpoint = sy_control_server_endpoint(server, i % 2);
		struct sy_control_context *context;
		const void *message;
		size_t bytes;
		uint64_t route;
		struct sy_control_client *client =
			ask_with(i % 2 == 1 ? keys : NULL, endpoint, "friend", &context);
		server_take(&keyed, &route, &message, &bytes);
		assert_int_equal(bytes, 6);
		assert_memory_equal(message, "friend", 6);
		assert_false(sy_control_server_ready(server));
		sy_control_server_send(server, route, "answer", 6);
		client_take(client, &message, &bytes);
		assert_memory_equal(message, "answer", 6);
		sy_control_client_close(client, 0);
		sy_control_context_close(context);
	}
}

/* Strangers ask first: over tcp with no keys, with keys of another cluster, with a pair of their
 * own though they know the server's public key, and with the server's pair. Nothing of theirs
 * comes before, between or after what friends ask. */
static void test_keys(void **state)
{
	struct rig *rig = *state;
	char dir[96], ipc[96];
	struct sy_control_keys server_keys, friend_keys, other_server, other_keys, own_pair, as_server;
	struct sy_control_server *server;
	sy_error err = {0};
	snprintf(dir, sizeof dir, "%s/keys", rig->dir);
	make_keys(dir, &server_keys, &friend_keys);
	make_keys(dir, &other_server, &other_keys);
	own_pair = other_keys;
	memcpy(own_pair.server_public, friend_keys.server_public, SY_CONTROL_KEY_BYTES);
	as_server = friend_keys;
	memcpy(as_server.client_public, server_keys.server_public, SY_CONTROL_KEY_BYTES);
	memcpy(as_server.client_secret, server_keys.server_secret, SY_CONTROL_KEY_BYTES);
	snprintf(ipc, sizeof ipc, "ipc://%s/keyed.ipc", rig->dir);
	const char *const endpoints[] = {ipc, "tcp://127.0.0.1:*"};
	if (sy_control_server_open(endpoints, 2, &server_keys, &server, &err) != SY_OK)
		fail_msg("%s", err.message);
	const struct sy_control_keys *strange[STRANGERS] = {NULL, &other_keys, &own_pair, &as_server};
	struct sy_control_client *strangers[STRANGERS];
	struct sy_control_context *contexts[STRANGERS];
	for (size_t i = 0; i < STRANGERS; i++)
		strangers[i] = ask_with(strange[i], sy_control_server_endpoint(server, 1), "strange",
		                        &contexts[i]);
	friends_ask(server, &friend_keys);
	for (size_t i = 0; i < STRANGERS; i++) {
		const void *message;
		size_t bytes;
		assert_false(sy_control_client_receive(strangers[i], &message, &bytes));
		sy_control_client_close(strangers[i], 0);
		sy_control_context_close(contexts[i]);
	}
	assert_int_equal(sy_control_server_dropped(server), 0);
	sy_control_server_close(server);
	unlink(ipc + strlen("ipc://"));
}

static void file_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void test_key_files(void **state)
{
	struct rig *rig = *state;
	char dir[80], server_path[128], client_path[128];
	struct sy_control_keys keys, again;
	sy_error err = {0};
	snprintf(dir, sizeof dir, "%s/keys", rig->dir);
	snprintf(server_path, sizeof server_path, "%s/server.key", dir);
	snprintf(client_path, sizeof client_path, "%s/client.key", dir);
	assert_int_equal(sy_control_keys_server(dir, &keys, &err), SY_E_SYS);
	assert_non_null(strstr(err.message, "`slabyard keygen DIR` makes keys"));
	assert_int_equal(sy_control_keys_make(dir, &err), SY_OK);
	assert_int_equal(sy_control_keys_server(dir, &keys, &err), SY_OK);
	assert_int_equal(sy_control_keys_make(dir, &err), SY_E_SYS); /* those stay as they are */
	assert_non_null(strstr(err.message, "File exists"));
	assert_int_equal(unlink(client_path), 0);
	assert_int_equal(sy_control_keys_make(dir, &err), SY_E_SYS);
	assert_int_equal(sy_control_keys_client(dir, &again, &err), SY_E_SYS);
	assert_int_equal(sy_control_keys_server(dir, &again, &err), SY_OK);
	assert_memory_equal(&keys, &again, sizeof keys);
	assert_int_equal(chmod(server_path, 0640), 0);
	assert_int_equal(sy_control_keys_server(dir, &again, &err), SY_E_AUTH);
	assert_non_null(strstr(err.message, "chmod 600"));
	assert_int_equal(chmod(server_path, 0600), 0);
	static const char *const damaged[] = {
		"", "server-public", "server-public x\n",
		"client-public 0123456789012345678901234567890123456789\n"};
	for (size_t i = 0; i < COUNT_OF(damaged); i++) {
		file_write(server_path, damaged[i]);
		assert_int_equal(sy_control_keys_server(dir, &again, &err), SY_E_INVALID);
		assert_non_null(strstr(err.message, "is damaged"));
	}
	remove_keys(dir);
}

/* What was sent last still arrives after close, within its linger. */
static void test_linger(void **state)
{
	struct rig *rig = *state;
	struct sy_control_client *client = connect_to(rig, rig->ipc);
	uint64_t route = 0;
	const void *message;
	size_t bytes;
	assert_true(sy_control_client_send(client, "goodbye", 7));
	disconnect(rig, client, 10000);
	server_take(rig, &route, &message, &bytes);
	assert_memory_equal(message, "goodbye", 7);
}

/* More than libzmq has places for, if it never takes one down as fast as they are closed. Nobody
 * listens: a listener would need a descriptor for each in this process, too. */
static void test_many_after_another(void **state)
{
	struct rig *rig = *state;
	char nobody[96];
	snprintf(nobody, sizeof nobody, "ipc://%s/nobody.ipc", rig->dir);
	for (int i = 0; i < 4000; i++) {
		disconnect(rig, connect_to(rig, nobody), 0);
		if (i % 100 == 99)
			await_fd(-1); /* ZeroMQ lets go of closed sockets in a thread of its own */
	}
}

static void test_clock(void **state)
{
	(void)state;
	uint64_t now_ns = sy_clock_now_ns();
	assert_true(sy_clock_now_ns() >= now_ns);
	assert_int_equal(sy_clock_poll_ms(10, 10), 0);
	assert_int_equal(sy_clock_poll_ms(10, 9), 0);
	assert_int_equal(sy_clock_poll_ms(10, 11), 1);
	assert_int_equal(sy_clock_poll_ms(0, 1000000), 1);
	assert_int_equal(sy_clock_poll_ms(0, 1000001), 2);
	assert_int_equal(sy_clock_poll_ms(0, UINT64_MAX), 60000);
	assert_true(sy_clock_deadline(0, 5) >= now_ns + 5);
	assert_int_equal(sy_clock_deadline(0, UINT64_MAX), UINT64_MAX);
	uint64_t past_ns = sy_clock_deadline(1, 1000);
	assert_true(past_ns >= now_ns && past_ns <= sy_clock_now_ns());
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_round_trips),
		cmocka_unit_test(test_ipv6),
		WITH_RIG(test_many_at_once),
		WITH_RIG(test_replies_that_cannot_go),
		WITH_RIG(test_requests_that_cannot_go),
		WITH_RIG(test_strange_peers),
		WITH_RIG(test_listen_errors),
		WITH_RIG(test_linger),
		WITH_RIG(test_many_after_another),
		WITH_RIG(test_keys),
		WITH_RIG(test_key_files),
		cmocka_unit_test(test_clock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
