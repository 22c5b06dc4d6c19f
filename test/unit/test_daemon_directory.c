#include "daemon_rig.h"

#include "dir_client.h"
#include "dir_server.h"

/* A unit and its directory, each in a process of its own. */

struct place {
	char dir[64], address[96], state[96];
	pid_t server;
	int server_end; /* a byte stops it */
};

static void serve(const struct place *place, int end_fd)
{
	const char *const endpoints[] = {place->address};
	struct sy_dir_server *server;
	if (sy_dir_server_open(place->state, 3, NULL, endpoints, 1, NULL, &server, NULL) != SY_OK)
		_exit(1);
	for (;;) { /* until it is told, or the test is gone */
		struct pollfd fds[] = {{.fd = sy_dir_server_fd(server), .events = POLLIN},
		                       {.fd = end_fd, .events = POLLIN}};
		while (sy_dir_server_step(server))
			;
		(void)poll(fds, 2, 1000);
		if (fds[1].revents != 0)
			break;
	}
	sy_dir_server_close(server);
	_exit(0);
}

static void open_place(struct place *place)
{
	int end[2];
	snprintf(place->dir, sizeof place->dir, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	snprintf(place->address, sizeof place->address, "ipc://%s/ipc", place->dir);
	snprintf(place->state, sizeof place->state, "%s/state", place->dir);
	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	place->server = fork();
	assert_true(place->server >= 0);
	if (place->server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(end[1]);
		serve(place, end[0]);
	}
	close(end[0]);
	place->server_end = end[1];
}

static void close_place(struct place *place)
{
	char path[96];
	int status = 0;
	assert_int_equal(write(place->server_end, "x", 1), 1);
	close(place->server_end);
	assert_int_equal(waitpid(place->server, &status, 0), place->server);
	assert_int_equal(status, 0);
	unlink(place->state);
	snprintf(path, sizeof path, "%s/ipc", place->dir);
	unlink(path);
	assert_int_equal(rmdir(place->dir), 0);
}

static uint64_t soon(void)
{
	return sy_clock_now_ns() + 20000000000u;
}

static struct sy_unit_info slot(struct sy_dir_client *directory, uint32_t unit_id)
{
	struct sy_unit_list list = {0};
	sy_error err = {0};
	if (sy_dir_client_units(directory, 0, soon(), &list, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_true(unit_id < list.count);
	struct sy_unit_info info = list.units[unit_id];
	sy_unit_list_done(&list);
	return info;
}

/* What an alloc comes to; a region is given back with the client's end. */
static struct sy_outcome try_alloc(struct client *client)
{
	sy_blob_id id;
	sy_entropy_fill(&id, sizeof id);
	struct sy_request request = {
		.op = SY_OP_ALLOC, .first_notice = 1,
		.alloc = {.blob_id = id, .nbytes = 64, .until_ns = UINT64_MAX / 2, .entry_count = 1}};
	return ask(client, &request)->outcome;
}

static void await_alloc(struct client *client, enum sy_fault fault)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct sy_outcome outcome = try_alloc(client);
		if (outcome.fault == fault) {
			assert_true(fault != SY_FAULT_BUSY || outcome.busy == SY_BUSY_DRAINING);
			return;
		}
		poll(NULL, 0, 5); /* the unit asks the directory once a heartbeat */
	}
	fail_msg("the unit never heard of its state");
}

static void test_registers_drains_and_says_that_it_stops(void **state)
{
	struct rig *rig = *state;
	struct place place;
	struct sy_dir_client *directory = NULL;
	struct client client;
	open_place(&place);
	rig->config.directory = place.address;
	rig->config.heartbeat_ns = 20000000;
	start(rig);
	assert_int_equal(sy_dir_client_open(place.address, &directory, NULL), SY_OK);
	struct sy_unit_info info = slot(directory, 2);
	assert_int_equal(info.state, SY_UNIT_ACTIVE);
	assert_int_equal(info.incarnation, rig->info.incarnation);
	assert_int_equal(info.pid, rig->unit);
	assert_int_equal(info.slab_bytes, SLAB_BYTES);
	assert_true(info.start_time > 0);
	assert_string_equal(info.ipc_address, rig->info.ipc_address);
	assert_string_equal(info.tcp_address, rig->info.tcp_address);
	assert_string_equal(info.local_path, rig->info.local_path);

	connect_client(rig, info.ipc_address, true, &client);
	assert_int_equal(try_alloc(&client).fault, SY_FAULT_NONE);
	assert_int_equal(sy_dir_client_set_state(directory, 2, info.incarnation, SY_UNIT_DRAINING,
	                                         soon(), NULL), SY_OK);
	await_alloc(&client, SY_FAULT_BUSY);
	assert_int_equal(sy_dir_client_set_state(directory, 2, info.incarnation, SY_UNIT_ACTIVE,
	                                         soon(), NULL), SY_OK);
	await_alloc(&client, SY_FAULT_NONE);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
	assert_int_equal(slot(directory, 2).state, SY_UNIT_DEAD);
	sy_dir_client_close(directory);
	close_place(&place);
}

/* Its slot is held by another unit that lives: it does not start. */
static void test_a_held_slot(void **state)
{
	struct rig *rig = *state;
	struct place place;
	struct rig *other = NULL;
	open_place(&place);
	rig->config.directory = place.address;
	start(rig);
	assert_int_equal(open_rig((void **)&other), 0); /* another run directory, the same id */
	other->config.directory = place.address;
	expect_refusal(other, "held by a unit that is not dead");
	assert_int_equal(close_rig((void **)&other), 0);
	assert_int_equal(stop(rig, SIGTERM), 0);
	close_place(&place);
}

/* An incarnation that was declared dead never answers again. */
static void test_declared_dead(void **state)
{
	struct rig *rig = *state;
	struct place place;
	struct sy_dir_client *directory = NULL;
	char text[512];
	int status = 0;
	open_place(&place);
	rig->config.directory = place.address;
	rig->config.heartbeat_ns = 20000000;
	start(rig);
	assert_int_equal(sy_dir_client_open(place.address, &directory, NULL), SY_OK);
	assert_int_equal(sy_dir_client_exited(directory, 2, rig->info.incarnation, soon(), NULL),
	                 SY_OK);
	assert_int_equal(waitpid(rig->unit, &status, 0), rig->unit);
	rig->unit = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	read_log(rig, text, sizeof text);
	assert_non_null(strstr(text, "declared this unit dead"));
	sy_dir_client_close(directory);
	close_place(&place);
}

/* A directory that is gone stops nothing. */
static void test_the_directory_goes(void **state)
{
	struct rig *rig = *state;
	struct place place;
	struct client client;
	open_place(&place);
	rig->config.directory = place.address;
	rig->config.heartbeat_ns = 20000000;
	start(rig);
	close_place(&place);
	connect_client(rig, rig->info.ipc_address, true, &client);
	for (uint64_t row = 1; row < 200; row++)
		put_row(&client, row);
	assert_int_not_equal(find_row(&client, 150), UINT64_MAX);
	release_row(&client, 150);
	assert_int_equal(find_row(&client, 150), UINT64_MAX);
	assert_int_equal(stats_of(&client).sessions, 1);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_registers_drains_and_says_that_it_stops),
		WITH_RIG(test_a_held_slot),
		WITH_RIG(test_declared_dead),
		WITH_RIG(test_the_directory_goes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
