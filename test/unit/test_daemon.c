#include "daemon_rig.h"

static void test_put_in_one_process_get_in_another(void **state)
{
	struct rig *rig = *state;
	struct client client;
	int status = 0;
	start(rig);
	pid_t writer = fork();
	assert_true(writer >= 0);
	if (writer == 0) {
		connect_client(rig, rig->info.tcp_address, true, &client);
		put_row(&client, 7);
		close_client(&client, true);
		_exit(0);
	}
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_int_equal(status, 0);
	connect_client(rig, rig->info.ipc_address, true, &client);
	uint64_t at = find_row(&client, 7);
	assert_int_not_equal(at, UINT64_MAX);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(client.slab[at + i], 7);
	assert_int_equal(find_row(&client, 8), UINT64_MAX);
	assert_int_equal(stats_of(&client).sessions, 1); /* the writer said goodbye */
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
	char text[256];
	read_log(rig, text, sizeof text);
	assert_string_equal(text, "");
}

/* A client in a process of its own, made before this one has threads. It goes on when told. */
struct other {
	pid_t pid;
	int go, said; /* ends of pipes here */
};

static bool await_byte(int fd)
{
	char byte;
	return read(fd, &byte, 1) == 1;
}

static void give_byte(int fd)
{
	assert_int_equal(write(fd, "x", 1), 1);
}

/* Returns in both processes: in the other with pid 0 and its own ends. */
static struct other fork_other(void)
{
	int go[2], said[2];
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	close(go[pid == 0 ? 1 : 0]);
	close(said[pid == 0 ? 0 : 1]);
	return (struct other){.pid = pid, .go = go[pid == 0 ? 0 : 1], .said = said[pid == 0 ? 1 : 0]};
}

static int end_other(const struct other *other)
{
	int status = 0;
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	close(other->go);
	close(other->said);
	return status;
}

/* Killed between alloc and commit, and with a pin: all its memory comes back. */
static void test_a_killed_client(void **state)
{
	struct rig *rig = *state;
	struct client client;
	start(rig);
	struct other victim = fork_other();
	if (victim.pid == 0) {
		sy_blob_id id = {{9}};
		if (!await_byte(victim.go))
			_exit(1);
		connect_client(rig, rig->info.ipc_address, true, &client);
		(void)alloc_blob(&client, id, 100000);
		if (find_row(&client, 1) == UINT64_MAX)
			_exit(1);
		give_byte(victim.said);
		pause();
		_exit(0);
	}
	connect_client(rig, rig->info.ipc_address, true, &client);
	put_row(&client, 1);
	give_byte(victim.go);
	assert_true(await_byte(victim.said));
	release_row(&client, 1);
	struct sy_unit_stats stats = stats_of(&client);
	assert_int_equal(stats.sessions, 2);
	assert_true(stats.bytes.allocated >= 100000);
	assert_true(stats.bytes.released > 0); /* the victim's pin holds it */
	kill(victim.pid, SIGKILL);
	assert_int_equal(WTERMSIG(end_other(&victim)), SIGKILL);
	await_all_free(&client);
	assert_int_equal(stats_of(&client).sessions, 1);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGINT), 0);
}

/* A goodbye gives back at once, while the process lives on; without one the unit waits for the
 * process to be gone. */
static void test_goodbye(void **state)
{
	struct rig *rig = *state;
	struct client client, leaving;
	sy_blob_id ids[] = {{{1}}, {{2}}};
	start(rig);
	connect_client(rig, rig->info.ipc_address, true, &client);
	connect_client(rig, rig->info.ipc_address, true, &leaving);
	(void)alloc_blob(&leaving, ids[0], 100000);
	close_client(&leaving, true);
	await_all_free(&client);
	connect_client(rig, rig->info.ipc_address, true, &leaving);
	(void)alloc_blob(&leaving, ids[1], 100000);
	close_client(&leaving, false);
	for (int round = 0; round < ROUNDS && stats_of(&client).bytes.retired == 0; round++)
		poll(NULL, 0, 5);
	assert_true(stats_of(&client).bytes.retired >= 100000);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

/* However long a same-host reader is stopped, what it may still read is not reused. */
static void test_a_stopped_reader(void **state)
{
	struct rig *rig = *state;
	struct client client;
	int status = 0;
	rig->config.heartbeat_ns = 20000000;
	rig->config.session_expire_ns = 100000000;
	rig->config.read_pin_ns = 50000000;
	start(rig);
	struct other reader = fork_other();
	if (reader.pid == 0) {
		if (!await_byte(reader.go))
			_exit(1);
		connect_client(rig, rig->info.ipc_address, true, &client);
		uint64_t at = find_row(&client, 1);
		if (at == UINT64_MAX)
			_exit(2);
		give_byte(reader.said);
		if (!await_byte(reader.go)) /* stopped meanwhile */
			_exit(3);
		for (uint32_t i = 0; i < 1000; i++) {
			if (client.slab[at + i] != 1)
				_exit(4);
		}
		_exit(0);
	}
	connect_client(rig, rig->info.ipc_address, true, &client);
	put_row(&client, 1);
	give_byte(reader.go);
	assert_true(await_byte(reader.said));
	kill(reader.pid, SIGSTOP);
	assert_int_equal(waitpid(reader.pid, &status, WUNTRACED), reader.pid);
	release_row(&client, 1);
	poll(NULL, 0, 500); /* longer than every lease */
	for (uint64_t row = 2; row < 300; row++) {
		put_row(&client, row);
		release_row(&client, row);
	}
	assert_true(stats_of(&client).bytes.released > 0);
	kill(reader.pid, SIGCONT);
	give_byte(reader.go);
	assert_int_equal(end_other(&reader), 0);
	await_all_free(&client);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

/* Kind: process stalled, everyone else declared dead.
 * A unit that stood still gives remote leases the time back. */
static void test_a_stopped_unit(void **state)
{
	struct rig *rig = *state;
	struct client client, other;
	int status = 0;
	rig->config.heartbeat_ns = 500000000;
	rig->config.session_expire_ns = 2000000000;
	start(rig);
	connect_client(rig, rig->info.tcp_address, false, &client);
	connect_client(rig, rig->info.ipc_address, true, &other);
	kill(rig->unit, SIGSTOP);
	assert_int_equal(waitpid(rig->unit, &status, WUNTRACED), rig->unit);
	poll(NULL, 0, 2600);
	kill(rig->unit, SIGCONT);
	(void)stats_of(&other); /* by the time it hears more, it has looked at its leases */
	struct sy_request beat = {.op = SY_OP_HEARTBEAT, .first_notice = 1};
	assert_int_equal(ask(&client, &beat)->outcome.fault, SY_FAULT_NONE);
	close_client(&other, true);
	close_client(&client, false);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

static void test_refusals(void **state)
{
	struct rig *rig = *state;
	char listen[SY_UNIT_ADDRESS_BYTES];
	start(rig);
	struct sy_unit_info first = rig->info;
	expect_refusal(rig, "already runs");
	memcpy(listen, first.tcp_address, sizeof listen);
	rig->config.unit_id = 1;
	rig->config.listen = listen;
	expect_refusal(rig, "something else listens there");
	rig->config.listen = "tcp://192.0.2.1:1234";
	expect_refusal(rig, "--insecure");
	rig->config.listen = "tcp://*:1234";
	expect_refusal(rig, "clients cannot connect");
	rig->config.listen = "tcp://127.0.0.1:*";
	rig->config.slab_bytes = (uint64_t)1 << 46;
	expect_refusal(rig, "give a smaller --slab-bytes");
	rig->config.slab_bytes = 100;
	expect_refusal(rig, "too small");
	rig->config.slab_bytes = SLAB_BYTES + 1;
	expect_refusal(rig, "no multiple of 4096");
	rig->config.slab_bytes = SLAB_BYTES;
	rig->config.unit_id = 3;
	expect_refusal(rig, "numbered from 0");
	rig->config.unit_id = 1;
	rig->config.session_expire_ns = rig->config.heartbeat_ns;
	expect_refusal(rig, "--session-expire 2s is not over 3 times --heartbeat 2s");
	rig->config.session_expire_ns = 20000000000u;
	rig->config.directory = "nonsense";
	expect_refusal(rig, "directory");
	/* None of them disturbed the first. */
	struct client client;
	rig->info = first;
	connect_client(rig, first.ipc_address, true, &client);
	assert_int_equal(stats_of(&client).bytes.free, SLAB_BYTES);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

static bool slab_file_of(uint64_t incarnation, char path[SY_UNIT_ADDRESS_BYTES])
{
	struct stat info;
	snprintf(path, SY_UNIT_ADDRESS_BYTES, "/dev/shm/slabyard-%u-2-%016llx", (unsigned)geteuid(),
	         (unsigned long long)incarnation);
	return stat(path, &info) == 0;
}

static void test_a_killed_unit_is_tidied_up(void **state)
{
	struct rig *rig = *state;
	char path[SY_UNIT_ADDRESS_BYTES];
	start(rig);
	uint64_t first = rig->info.incarnation;
	assert_int_equal(WTERMSIG(stop(rig, SIGKILL)), SIGKILL);
	assert_true(slab_file_of(first, path));
	start(rig);
	assert_true(rig->info.incarnation != first);
	assert_false(slab_file_of(first, path));
	assert_true(slab_file_of(rig->info.incarnation, path));
	assert_int_equal(stop(rig, SIGTERM), 0);
	assert_false(slab_file_of(rig->info.incarnation, path));
}

/* A client cuts the slab's file off: the unit says so and stops in order, and no reply goes out
 * that was made of what it read there. */
static void test_a_cut_off_slab(void **state)
{
	struct rig *rig = *state;
	struct client client;
	char text[512], path[SY_UNIT_ADDRESS_BYTES];
	int status = 0;
	start(rig);
	connect_client(rig, rig->info.ipc_address, true, &client);
	sy_blob_id id = {{5}};
	struct sy_outcome region = alloc_blob(&client, id, 4096);
	assert_true(slab_file_of(rig->info.incarnation, path));
	assert_int_equal(truncate(path, 0), 0);
	struct sy_request request = {
		.op = SY_OP_COMMIT, .first_notice = 1, .id = {client.session, ++client.seq, 0},
		.commit = {.blob_id = id, .generation = region.generation, .until_ns = UINT64_MAX / 2}};
	sy_buf_reset(&client.out);
	sy_request_encode(&request, &client.out);
	assert_true(sy_control_client_send(client.control, client.out.data, client.out.bytes));
	assert_int_equal(waitpid(rig->unit, &status, 0), rig->unit);
	rig->unit = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	read_log(rig, text, sizeof text);
	assert_non_null(strstr(text, "cut off"));
	const void *message;
	size_t bytes;
	assert_false(sy_control_client_receive(client.control, &message, &bytes));
	assert_false(slab_file_of(rig->info.incarnation, path));
	close_client(&client, false);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_put_in_one_process_get_in_another),
		WITH_RIG(test_a_killed_client),
		WITH_RIG(test_goodbye),
		WITH_RIG(test_a_stopped_reader),
		WITH_RIG(test_a_stopped_unit),
		WITH_RIG(test_refusals),
		WITH_RIG(test_a_killed_unit_is_tidied_up),
		WITH_RIG(test_a_cut_off_slab),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
