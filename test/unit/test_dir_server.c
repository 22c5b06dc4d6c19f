/* The directory's server, client and store together, over real sockets and files. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "dir_client.h"
#include "dir_server.h"
#include "dir_store.h"

enum { SLOTS = 4 };

static const struct sy_dir_times no_leases;

struct place {
	char folder[64], moved[72], state[96], endpoint[96];
	const struct sy_dir_times *times; /* NULL: no leases */
	struct sy_dir_server *server;
	struct sy_dir_client *client;
	pthread_t thread;
	int stop_fd;
};

static uint64_t soon(void)
{
	return sy_clock_now_ns() + 60000000000u;
}

static void *serve(void *argument)
{
	struct place *place = argument;
	struct pollfd waits[2] = {{.fd = place->stop_fd, .events = POLLIN},
	                          {.fd = sy_dir_server_fd(place->server), .events = POLLIN}};
	while ((waits[0].revents & POLLIN) == 0) {
		while (sy_dir_server_step(place->server))
			;
		int wait_ms = sy_clock_poll_ms(sy_clock_now_ns(), sy_dir_server_deadline(place->server));
		while (poll(waits, 2, wait_ms) < 0 && errno == EINTR)
			;
	}
	return NULL;
}

static sy_status server_open(struct place *place, uint32_t slot_count, sy_error *err)
{
	const char *const endpoints[] = {place->endpoint};
	return sy_dir_server_open(place->state, slot_count, place->times, endpoints, 1, NULL,
	                          &place->server, err);
}

static void server_start(struct place *place)
{
	sy_error err = {0};
	if (server_open(place, SLOTS, &err) != SY_OK)
		fail_msg("%s", err.message);
	place->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&place->thread, NULL, serve, place), 0);
}

static void server_stop(struct place *place)
{
	uint64_t one = 1;
	assert_int_equal(write(place->stop_fd, &one, sizeof one), sizeof one);
	pthread_join(place->thread, NULL);
	close(place->stop_fd);
	sy_dir_server_close(place->server);
	place->server = NULL;
}

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof *place);
	if (place == NULL)
		return 1;
	snprintf(place->folder, sizeof place->folder, "/tmp/slabyard-test-XXXXXX");
	if (mkdtemp(place->folder) == NULL)
		return 1;
	snprintf(place->moved, sizeof place->moved, "%s.moved", place->folder);
	snprintf(place->state, sizeof place->state, "%s/state", place->folder);
	snprintf(place->endpoint, sizeof place->endpoint, "ipc://%s/ipc", place->folder);
	*state = place;
	return sy_dir_client_open(place->endpoint, &place->client, NULL) == SY_OK ? 0 : 1;
}

static int tear_down(void **state)
{
	struct place *place = *state;
	char path[128];
	if (place->server != NULL)
		server_stop(place);
	sy_dir_client_close(place->client);
	rename(place->moved, place->folder);
	static const char *const names[] = {"state", "state.new", "ipc"};
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", place->folder, names[i]);
		unlink(path);
	}
	int gone = rmdir(place->folder);
	free(place);
	return gone;
}

static struct sy_unit_info unit_of(uint32_t unit_id, uint64_t incarnation)
{
	struct sy_unit_info unit = {
		.unit_id = unit_id,
		.incarnation = incarnation,
		.pid = 4711,
		.slab_bytes = 1 << 20,
		.ipc_address = "ipc:///somewhere/unit.ipc",
		.local_path = "/somewhere/unit.sock",
	};
	return unit;
}

static void enter(struct place *place, uint32_t unit_id, uint64_t incarnation)
{
	struct sy_unit_info unit = unit_of(unit_id, incarnation);
	sy_error err = {0};
	if (sy_dir_client_register(place->client, &unit, soon(), NULL, &err) != SY_OK)
		fail_msg("%s", err.message);
}

static void bury(struct place *place, uint32_t unit_id, uint64_t incarnation)
{
	assert_int_equal(
		sy_dir_client_exited(place->client, unit_id, incarnation, soon(), NULL), SY_OK);
}

static void test_a_units_life(void **state)
{
	struct place *place = *state;
	server_start(place);
	sy_error err = {0};
	uint64_t epoch = 0;
	assert_int_equal(sy_dir_client_epoch(place->client, soon(), &epoch, &err), SY_OK);
	enter(place, 1, 7);
	enter(place, 1, 7);
	struct sy_unit_list list;
	assert_int_equal(sy_dir_client_units(place->client, 0, soon(), &list, &err), SY_OK);
	assert_int_equal(list.slot_count, SLOTS);
	assert_int_equal(list.count, SLOTS);
	assert_int_equal(list.epoch, epoch + 1);
	assert_int_equal(list.units[0].state, SY_UNIT_NONE);
	assert_int_equal(list.units[1].state, SY_UNIT_ACTIVE);
	assert_int_equal(list.units[1].incarnation, 7);
	assert_int_equal(list.units[1].pid, 4711);
	assert_string_equal(list.units[1].local_path, "/somewhere/unit.sock");
	sy_unit_list_done(&list);
	assert_int_equal(sy_dir_client_units(place->client, epoch + 2, soon(), &list, &err), SY_OK);
	assert_int_equal(list.count, 0);
	sy_unit_list_done(&list);

	assert_int_equal(sy_dir_client_renew(place->client, 1, 7, soon(), NULL, &err), SY_OK);
	assert_int_equal(
		sy_dir_client_set_state(place->client, 1, 7, SY_UNIT_DRAINING, soon(), &err), SY_OK);
	bool is_dead = true;
	assert_int_equal(sy_dir_client_is_dead(place->client, 1, 7, soon(), &is_dead, &err), SY_OK);
	assert_false(is_dead);
	bury(place, 1, 7);
	assert_int_equal(sy_dir_client_is_dead(place->client, 1, 7, soon(), &is_dead, &err), SY_OK);
	assert_true(is_dead);
	enter(place, 1, 8);
	is_dead = false;
	assert_int_equal(sy_dir_client_is_dead(place->client, 1, 7, soon(), &is_dead, &err), SY_OK);
	assert_true(is_dead);
	assert_int_equal(sy_dir_client_is_dead(place->client, 1, 8, soon(), &is_dead, &err), SY_OK);
	assert_false(is_dead);

	struct sy_dir_stats stats;
	assert_int_equal(sy_dir_client_stats(place->client, soon(), &stats, &err), SY_OK);
	assert_int_equal(stats.registrations, 2);
	assert_int_equal(stats.deaths, 1);
	assert_int_equal(stats.refused, 0);
	assert_int_equal(stats.stores, 5); /* the start, and the four changes */
}

static void test_refusals_are_typed(void **state)
{
	struct place *place = *state;
	server_start(place);
	sy_error err = {0};
	bool is_dead;
	struct sy_unit_info unit = unit_of(0, 2);
	enter(place, 0, 1);
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err), SY_E_BUSY);
	assert_string_equal(err.message, "the directory refused register: the slot is held by a unit "
	                                 "that is not dead, process 4711");
	bury(place, 0, 1);
	unit.incarnation = 1;
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err), SY_E_FATAL);
	assert_int_equal(sy_dir_client_renew(place->client, 0, 1, soon(), NULL, &err), SY_E_FATAL);
	assert_int_equal(
		sy_dir_client_set_state(place->client, 0, 1, SY_UNIT_ACTIVE, soon(), &err), SY_E_FATAL);
	unit = unit_of(SLOTS, 9);
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err),
	                 SY_E_INVALID);
	assert_string_equal(err.message, "no slot for unit 4 in a cluster of 4 units");
	unit = unit_of(0, 9);
	memset(unit.ipc_address, 'x', sizeof unit.ipc_address);
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err),
	                 SY_E_INVALID);
	enter(place, 1, 3);
	assert_int_equal(
		sy_dir_client_set_state(place->client, 1, 3, SY_UNIT_DEAD, soon(), &err), SY_E_INVALID);
	/* Where nothing is known, nothing is said. */
	assert_int_equal(sy_dir_client_is_dead(place->client, 2, 3, soon(), &is_dead, &err),
	                 SY_E_INVALID);
	assert_int_equal(sy_dir_client_is_dead(place->client, SLOTS, 3, soon(), &is_dead, &err),
	                 SY_E_INVALID);
	assert_int_equal(sy_dir_client_is_dead(place->client, 1, 0, soon(), &is_dead, &err),
	                 SY_E_INVALID);
}

static void test_bad_addresses(void **state)
{
	(void)state;
	struct sy_dir_client *client = NULL;
	sy_error err = {0};
	assert_int_equal(sy_dir_client_open("", &client, &err), SY_E_INVALID);
	assert_int_equal(sy_dir_client_open("/run/x", &client, &err), SY_E_INVALID);
	assert_null(client);
	sy_dir_client_close(NULL);
	sy_unit_list_done(NULL);
}

static void test_no_directory_is_a_timeout(void **state)
{
	struct place *place = *state;
	sy_error err = {0};
	uint64_t epoch;
	assert_int_equal(
		sy_dir_client_epoch(place->client, sy_clock_now_ns() + 50000000u, &epoch, &err),
		SY_E_TIMEOUT);
	assert_int_equal(sy_dir_client_epoch(place->client, 0, &epoch, &err), SY_E_TIMEOUT);
}

static void *ask_epoch(void *argument)
{
	struct place *place = argument;
	uint64_t epoch = 0;
	sy_dir_client_epoch(place->client, soon(), &epoch, NULL);
	return (void *)(uintptr_t)epoch;
}

/* Calls made before the directory is there are answered once it is. */
static void test_calls_wait_for_the_directory(void **state)
{
	struct place *place = *state;
	pthread_t callers[8];
	for (size_t i = 0; i < COUNT_OF(callers); i++)
		assert_int_equal(pthread_create(&callers[i], NULL, ask_epoch, place), 0);
	server_start(place);
	for (size_t i = 0; i < COUNT_OF(callers); i++) {
		void *epoch = NULL;
		pthread_join(callers[i], &epoch);
		assert_int_equal((uintptr_t)epoch, 1);
	}
}

static void test_a_restart_forgets_nobody(void **state)
{
	struct place *place = *state;
	server_start(place);
	enter(place, 0, 1);
	enter(place, 1, 2);
	bury(place, 0, 1);
	uint64_t before = 0, after = 0;
	assert_int_equal(sy_dir_client_epoch(place->client, soon(), &before, NULL), SY_OK);
	server_stop(place);
	server_start(place);
	assert_int_equal(sy_dir_client_epoch(place->client, soon(), &after, NULL), SY_OK);
	assert_true(after > before);
	struct sy_unit_info unit = unit_of(0, 1);
	sy_error err = {0};
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err), SY_E_FATAL);
	assert_int_equal(sy_dir_client_renew(place->client, 0, 1, soon(), NULL, &err), SY_E_FATAL);
	assert_int_equal(sy_dir_client_renew(place->client, 1, 2, soon(), NULL, &err), SY_OK);
	enter(place, 0, 3);
}

static void await_state(struct place *place, uint32_t unit_id, enum sy_unit_state wanted)
{
	for (uint64_t end_ns = soon(); sy_clock_now_ns() < end_ns;) {
		struct sy_unit_list list;
		assert_int_equal(sy_dir_client_units(place->client, 0, end_ns, &list, NULL), SY_OK);
		enum sy_unit_state state = list.units[unit_id].state;
		sy_unit_list_done(&list);
		if (state == wanted)
			return;
		poll(NULL, 0, 1);
	}
	fail_msg("unit %u never came to be in state %d", unit_id, (int)wanted);
}

/* The units of these never renew: they are suspect, then dead, without anybody's word; only the
 * dead make room, and a restart goes on with what was so. */
static void test_leases_run_out_by_themselves(void **state)
{
	static const struct sy_dir_times times = {20000000, 40000000, 1000000000};
	struct place *place = *state;
	place->times = &times;
	server_start(place);
	enter(place, 0, 1);
	await_state(place, 0, SY_UNIT_SUSPECT);
	sy_error err = {0};
	struct sy_dir_renewal renewal;
	uint64_t before_ns = sy_clock_now_ns();
	assert_int_equal(sy_dir_client_renew(place->client, 0, 1, soon(), &renewal, &err), SY_OK);
	assert_int_equal(renewal.state, SY_UNIT_ACTIVE);
	assert_true(before_ns <= renewal.sent_ns && renewal.sent_ns <= renewal.answered_ns);
	await_state(place, 0, SY_UNIT_DEAD);
	assert_int_equal(sy_dir_client_renew(place->client, 0, 1, soon(), &renewal, &err), SY_E_FATAL);
	struct sy_unit_info unit = unit_of(0, 2);
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), &renewal, &err), SY_OK);
	assert_memory_equal(&renewal.times, &times, sizeof times);
	server_stop(place);

	place->times = NULL;
	assert_int_equal(server_open(place, SLOTS, &err), SY_E_INVALID);
	assert_non_null(strstr(err.message, "other times"));
	place->times = &times;
	server_start(place);
	unit = unit_of(0, 1);
	assert_int_equal(sy_dir_client_register(place->client, &unit, soon(), NULL, &err), SY_E_BUSY);
	await_state(place, 0, SY_UNIT_DEAD);
	struct sy_dir_stats stats;
	assert_int_equal(sy_dir_client_stats(place->client, soon(), &stats, &err), SY_OK);
	assert_int_equal(stats.deaths, 1);
}

/* A report of the process's own is as good as one that came by message. */
static void test_reports_of_the_process_itself(void **state)
{
	struct place *place = *state;
	assert_int_equal(server_open(place, SLOTS, NULL), SY_OK);
	sy_dir_server_process_exited(place->server, 0, 4711);
	assert_int_equal(sy_registry_slot(sy_dir_server_registry(place->server), 0)->turn, 1);
	sy_dir_server_exited(place->server, 0, 9);
	assert_int_equal(sy_registry_slot(sy_dir_server_registry(place->server), 0)->turn, 2);
	sy_dir_server_exited(place->server, SLOTS, 9);
	sy_dir_server_process_exited(place->server, SLOTS, 9);
	sy_dir_server_close(place->server);
	place->server = NULL;
	struct sy_registry *stored = NULL;
	assert_int_equal(sy_dir_store_load(place->state, 0, &stored, NULL), SY_OK);
	assert_non_null(stored);
	assert_int_equal(sy_registry_slot(stored, 0)->turn, 2);
	sy_registry_free(stored);
}

/* While the state cannot be written nothing is answered; afterwards nothing was lost. */
static void test_a_full_disk_silences_and_loses_nothing(void **state)
{
	struct place *place = *state;
	server_start(place);
	enter(place, 0, 1);
	assert_int_equal(rename(place->folder, place->moved), 0);
	/* The socket's path is gone with the folder: a link keeps it in reach. */
	char socket_path[128];
	snprintf(socket_path, sizeof socket_path, "ipc://%s/ipc", place->moved);
	struct sy_dir_client *client = NULL;
	assert_int_equal(sy_dir_client_open(socket_path, &client, NULL), SY_OK);
	sy_error err = {0};
	bool is_dead;
	assert_int_equal(sy_dir_client_exited(client, 0, 1, soon(), &err), SY_E_SYS);
	assert_int_equal(sy_dir_client_is_dead(client, 0, 1, soon(), &is_dead, &err), SY_E_SYS);
	assert_int_equal(sy_dir_client_renew(client, 0, 1, soon(), NULL, &err), SY_E_SYS);
	assert_int_equal(rename(place->moved, place->folder), 0);
	sy_dir_client_close(client);
	assert_int_equal(sy_dir_client_is_dead(place->client, 0, 1, soon(), &is_dead, &err), SY_OK);
	assert_true(is_dead);
	struct sy_registry *stored = NULL;
	assert_int_equal(sy_dir_store_load(place->state, 0, &stored, NULL), SY_OK);
	assert_int_equal(sy_registry_slot(stored, 0)->state, SY_UNIT_DEAD);
	sy_registry_free(stored);
}

static void file_write(const char *path, const uint8_t *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	close(fd);
}

static void test_damaged_state_is_refused(void **state)
{
	struct place *place = *state;
	uint8_t good[4096], bad[4096];
	struct sy_registry *registry = sy_registry_new(SLOTS, &no_leases), *loaded = NULL;
	struct sy_unit_info unit = unit_of(2, 5);
	sy_error err = {0};
	assert_int_equal(sy_registry_register(registry, &unit, 0), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_dir_store_load(place->state, 0, &loaded, &err), SY_OK);
	assert_null(loaded);
	assert_int_equal(sy_dir_store_save(place->state, registry, &err), SY_OK);
	sy_registry_free(registry);
	int fd = open(place->state, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = read(fd, good, sizeof good);
	close(fd);
	assert_true(bytes > 16 && (size_t)bytes < sizeof good);
	for (size_t at = 0; at < (size_t)bytes; at++) {
		memcpy(bad, good, (size_t)bytes);
		bad[at] ^= 0x10;
		file_write(place->state, bad, (size_t)bytes);
		assert_int_equal(sy_dir_store_load(place->state, 0, &loaded, &err), SY_E_PROTOCOL);
		file_write(place->state, good, at);
		assert_int_equal(sy_dir_store_load(place->state, 0, &loaded, &err), SY_E_PROTOCOL);
	}
	assert_int_equal(server_open(place, SLOTS, &err), SY_E_PROTOCOL);
	assert_non_null(strstr(err.message, "is damaged"));
	file_write(place->state, good, (size_t)bytes);
	assert_int_equal(server_open(place, SLOTS - 1, &err), SY_E_INVALID);
	assert_string_equal(err.message, "the cluster has 4 units, not 3");
	assert_int_equal(server_open(place, 0, &err), SY_E_INVALID);
	assert_int_equal(server_open(place, SY_UNITS_MAX + 1, &err), SY_E_INVALID);
	assert_null(place->server);
	assert_int_equal(sy_dir_store_load(place->state, 0, &loaded, &err), SY_OK);
	assert_int_equal(sy_registry_slot(loaded, 2)->incarnation, 5);
	sy_registry_free(loaded);
}

static void test_what_cannot_be_read_is_refused_and_counted(void **state)
{
	struct place *place = *state;
	server_start(place);
	struct sy_control_context *context = NULL;
	struct sy_control_client *client = NULL;
	assert_int_equal(sy_control_context_open(&context, NULL), SY_OK);
	assert_int_equal(sy_control_client_open(context, place->endpoint, &client, NULL), SY_OK);
	static const uint8_t no_such_op[] = {0x93, 0x63, 0x2a, 0x90}; /* [99, 42, []] */
	assert_true(sy_control_client_send(client, "garbage", 7));
	assert_true(sy_control_client_send(client, "", 0));
	assert_true(sy_control_client_send(client, no_such_op, sizeof no_such_op));
	struct pollfd wait = {.fd = sy_control_client_fd(client), .events = POLLIN};
	for (uint32_t answers = 0; answers < 3;) {
		const void *message;
		size_t bytes;
		struct sy_dir_reply reply;
		if (!sy_control_client_receive(client, &message, &bytes)) {
			assert_true(poll(&wait, 1, 60000) > 0);
			continue;
		}
		assert_int_equal(
			sy_dir_reply_decode(message, bytes, SY_DIR_OP_EPOCH, NULL, 0, &reply, NULL), SY_OK);
		assert_int_equal(reply.fault, SY_DIR_FAULT_MALFORMED);
		assert_int_equal(reply.request_id, answers == 2 ? 42 : 0);
		answers++;
	}
	sy_control_client_close(client, 0);
	sy_control_context_close(context);
	struct sy_dir_stats stats;
	assert_int_equal(sy_dir_client_stats(place->client, soon(), &stats, NULL), SY_OK);
	assert_int_equal(stats.malformed, 3);
	assert_int_equal(stats.refused, 3);
}

static bool answered_enough; /* atomic */

/* Answers each request twice: under another's number, with an epoch of 1, then under its own. On a
 * busy host one may be asked again. */
static void *answer_twice(void *argument)
{
	struct sy_control_server *server = argument;
	struct pollfd wait = {.fd = sy_control_server_fd(server), .events = POLLIN};
	struct sy_dir_request request;
	uint64_t route, id;
	const void *message;
	size_t bytes;
	for (int i = 0; i < 6000 && !__atomic_load_n(&answered_enough, __ATOMIC_ACQUIRE); i++) {
		if (!sy_control_server_receive(server, &route, &message, &bytes)) {
			(void)poll(&wait, 1, 10);
			continue;
		}
		if (sy_dir_request_decode(message, bytes, &request, &id, NULL) != SY_OK)
			return NULL;
		for (uint64_t turn = 1; turn <= 2; turn++) {
			struct sy_dir_reply reply = {.request_id = turn == 1 ? id + 1 : id, .epoch = turn};
			struct sy_buf buf = {0};
			sy_dir_reply_encode(&reply, request.op, &buf);
			sy_control_server_send(server, route, buf.data, buf.bytes);
			sy_buf_free(&buf);
		}
	}
	return server;
}

static void test_an_answer_to_another_question_is_none(void **state)
{
	struct place *place = *state;
	struct sy_control_server *server = NULL;
	const char *const endpoints[] = {place->endpoint};
	pthread_t thread;
	uint64_t epoch = 0;
	void *answered = NULL;
	assert_int_equal(sy_control_server_open(endpoints, 1, NULL, &server, NULL), SY_OK);
	assert_int_equal(pthread_create(&thread, NULL, answer_twice, server), 0);
	assert_int_equal(sy_dir_client_epoch(place->client, soon(), &epoch, NULL), SY_OK);
	__atomic_store_n(&answered_enough, true, __ATOMIC_RELEASE);
	pthread_join(thread, &answered);
	sy_control_server_close(server);
	assert_ptr_equal(answered, server);
	assert_int_equal(epoch, 2);
}

static void test_a_fork_child_is_told(void **state)
{
	struct place *place = *state;
	server_start(place);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		uint64_t epoch;
		sy_status status = sy_dir_client_epoch(place->client, soon(), &epoch, NULL);
		_exit(status == SY_E_FATAL ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
#define PLACED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		PLACED(test_a_units_life),
		PLACED(test_refusals_are_typed),
		PLACED(test_bad_addresses),
		PLACED(test_no_directory_is_a_timeout),
		PLACED(test_calls_wait_for_the_directory),
		PLACED(test_a_restart_forgets_nobody),
		PLACED(test_leases_run_out_by_themselves),
		PLACED(test_reports_of_the_process_itself),
		PLACED(test_a_full_disk_silences_and_loses_nothing),
		PLACED(test_damaged_state_is_refused),
		PLACED(test_what_cannot_be_read_is_refused_and_counted),
		PLACED(test_an_answer_to_another_question_is_none),
		PLACED(test_a_fork_child_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
