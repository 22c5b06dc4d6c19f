/* A directory that is called by name, with a system of the test's own that knows the names. */
#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "dir_client.h"

int __real_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held; /* `slow` is not answered meanwhile */
static _Atomic int answered_count;

/* The names' addresses, in the order in which they are told. */
static const struct {
	const char *name;
	const char *addresses[3];
} known[] = {
	{"slow", {"127.0.0.1"}},
	{"one", {"127.0.0.1", "127.0.0.1"}},
	{"late", {"127.0.0.7", "127.0.0.8", "127.0.0.1"}},
	{"foreign", {"192.0.2.1", "127.0.0.1"}},
};

static struct addrinfo *prepend(const char *address, struct addrinfo *list)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *one = NULL;
	if (__real_getaddrinfo(address, NULL, &hints, &one) != 0)
		abort();
	one->ai_next = list;
	return one;
}

/* libc's own, but for these names. */
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_list)
{
	bool is_slow = strcmp(name, "slow") == 0;
	if ((hints->ai_flags & AI_NUMERICHOST) != 0)
		return __real_getaddrinfo(name, service, hints, ret_list);
	pthread_mutex_lock(&lock);
	while (held && is_slow)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < COUNT_OF(known); i++) {
		if (strcmp(name, known[i].name) != 0)
			continue;
		*ret_list = NULL;
		for (size_t j = COUNT_OF(known[i].addresses); j-- > 0;) {
			if (known[i].addresses[j] != NULL)
				*ret_list = prepend(known[i].addresses[j], *ret_list);
		}
		answered_count++;
		return 0;
	}
	return EAI_NONAME;
}

static void hold(bool yes)
{
	pthread_mutex_lock(&lock);
	held = yes;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static uint64_t in_ms(uint64_t ms)
{
	return sy_clock_now_ns() + ms * 1000000;
}

static void test_addresses(void **state)
{
	(void)state;
	static const char *const as_they_are[] = {"tcp://127.0.0.1:7", "tcp://[::1]:*", "ipc:///a:b",
	                                          "tcp://*:7", "tcp://one", "tcp://:7", "nonsense"};
	struct sy_control_addresses found;
	for (size_t i = 0; i < COUNT_OF(as_they_are); i++) {
		sy_control_look_up(as_they_are[i], &found);
		assert_false(sy_control_is_name(as_they_are[i]));
		assert_int_equal(found.count, 1);
		assert_string_equal(found.endpoints[0], as_they_are[i]);
	}
	sy_control_look_up("tcp://late:7", &found);
	assert_int_equal(found.count, 3);
	assert_string_equal(found.endpoints[0], "tcp://127.0.0.7:7");
	assert_string_equal(found.endpoints[2], "tcp://127.0.0.1:7");
	sy_control_look_up("tcp://one:*", &found);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.endpoints[0], "tcp://127.0.0.1:*");
	sy_control_look_up("tcp://nobody:7", &found);
	assert_int_equal(found.count, 0);
}

static bool is_over(void *context)
{
	(void)context;
	return true;
}

/* The system answers only after the call has ended. */
static void test_a_slow_system_holds_no_call(void **state)
{
	(void)state;
	struct sy_dir_client *client = NULL;
	uint64_t epoch = 0;
	int before = answered_count;
	assert_int_equal(sy_dir_client_open("tcp://slow:7", &client, NULL), SY_OK);
	hold(true);
	assert_int_equal(sy_dir_client_epoch(client, in_ms(50), &epoch, NULL), SY_E_TIMEOUT);
	sy_dir_client_set_interrupt(client, is_over, NULL);
	assert_int_equal(sy_dir_client_epoch(client, in_ms(3600000), &epoch, NULL), SY_E_TIMEOUT);
	assert_int_equal(answered_count, before);
	sy_dir_client_close(client);
	hold(false);
	for (int i = 0; i < 6000 && answered_count < before + 2; i++)
		usleep(10000);
	assert_int_equal(answered_count, before + 2);
}

static void test_no_address_is_told(void **state)
{
	(void)state;
	struct sy_dir_client *client = NULL;
	uint64_t epoch = 0;
	sy_error err = {0};
	assert_int_equal(sy_dir_client_open("tcp://nobody:7", &client, NULL), SY_OK);
	assert_int_equal(sy_dir_client_epoch(client, in_ms(50), &epoch, &err), SY_E_TIMEOUT);
	assert_non_null(strstr(err.message, "no address"));
	sy_dir_client_close(client);
}

static _Atomic bool enough;

/* A directory that answers every question after its epoch. */
static void *serve(void *argument)
{
	struct sy_control_server *server = argument;
	struct pollfd wait = {.fd = sy_control_server_fd(server), .events = POLLIN};
	struct sy_dir_request request;
	uint64_t route, id;
	const void *message;
	size_t bytes;
	while (!enough) {
		if (!sy_control_server_receive(server, &route, &message, &bytes)) {
			(void)poll(&wait, 1, 10);
			continue;
		}
		if (sy_dir_request_decode(message, bytes, &request, &id, NULL) != SY_OK)
			return NULL;
		struct sy_dir_reply reply = {.request_id = id, .epoch = 9};
		struct sy_buf buf = {0};
		sy_dir_reply_encode(&reply, request.op, &buf);
		sy_control_server_send(server, route, buf.data, buf.bytes);
		sy_buf_free(&buf);
	}
	return server;
}

static struct sy_control_server *listen_at(const char *endpoint)
{
	struct sy_control_server *server = NULL;
	sy_error err = {0};
	if (sy_control_server_open(&endpoint, 1, NULL, &server, &err) != SY_OK)
		fail_msg("%s", err.message);
	return server;
}

static void assert_answers(const char *endpoint)
{
	struct sy_dir_client *client = NULL;
	uint64_t epoch = 0;
	sy_error err = {0};
	assert_int_equal(sy_dir_client_open(endpoint, &client, NULL), SY_OK);
	if (sy_dir_client_epoch(client, in_ms(60000), &epoch, &err) != SY_OK)
		fail_msg("%s: %s", endpoint, err.message);
	assert_int_equal(epoch, 9);
	sy_dir_client_close(client);
}

/* The directory has two of its name's addresses: whoever has the first hears the request and says
 * no word, as something else that listens there. */
static void test_the_addresses_that_are_free(void **state)
{
	(void)state;
	char endpoint[64];
	void *answered = NULL;
	pthread_t thread;
	const struct sockaddr_in first = {.sin_family = AF_INET,
	                                  .sin_addr.s_addr = htonl(0x7f000007)};
	struct sockaddr_in bound;
	socklen_t bytes = sizeof bound;
	int mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(mute, (const struct sockaddr *)&first, sizeof first), 0);
	assert_int_equal(listen(mute, 8), 0);
	assert_int_equal(getsockname(mute, (struct sockaddr *)&bound, &bytes), 0);
	snprintf(endpoint, sizeof endpoint, "tcp://late:%d", ntohs(bound.sin_port));
	struct sy_control_server *server = listen_at(endpoint);
	assert_non_null(strstr(sy_control_server_endpoint(server, 0), "//127.0.0.8:"));
	assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);
	assert_answers(endpoint);
	assert_answers(sy_control_server_endpoint(server, 0));
	snprintf(endpoint, sizeof endpoint, "tcp://one:%d", ntohs(bound.sin_port));
	assert_answers(endpoint);
	enough = true;
	pthread_join(thread, &answered);
	assert_ptr_equal(answered, server);
	sy_control_server_close(server);
	close(mute);
}

/* An address of another host is none to listen at; where the port is any, one address is all. */
static void test_any_port(void **state)
{
	(void)state;
	struct sy_control_server *server = listen_at("tcp://foreign:0");
	const char *bound = sy_control_server_endpoint(server, 0);
	char other[64];
	assert_int_equal(strncmp(bound, "tcp://127.0.0.1:", 16), 0);
	sy_control_server_close(server);
	server = listen_at("tcp://late:*");
	bound = sy_control_server_endpoint(server, 0);
	assert_int_equal(strncmp(bound, "tcp://127.0.0.7:", 16), 0);
	snprintf(other, sizeof other, "tcp://127.0.0.8%s", strrchr(bound, ':'));
	sy_control_server_close(listen_at(other));
	sy_control_server_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_a_slow_system_holds_no_call),
		cmocka_unit_test(test_no_address_is_told),
		cmocka_unit_test(test_the_addresses_that_are_free),
		cmocka_unit_test(test_any_port),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
