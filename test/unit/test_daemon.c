#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "daemon.h"
#include "entropy.h"
#include "local.h"
#include "message.h"

/* Real units in processes of their own; clients here and in others. */

enum { SLAB_BYTES = 1 << 20, ROUNDS = 400, ROUND_MS = 50 };

struct rig {
	char dir[64], log[96];
	struct sy_unit_config config;
	pid_t unit;
	struct sy_unit_info info;
};

struct client {
	struct sy_control_context *context;
	struct sy_control_client *control;
	int local_fd;
	uint8_t *slab;
	uint64_t session, seq, incarnation;
	struct sy_buf out;
	struct sy_scratch scratch;
	struct sy_reply reply;
};

static int open_rig(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);
	assert_non_null(rig);
	snprintf(rig->dir, sizeof rig->dir, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	snprintf(rig->log, sizeof rig->log, "%s.log", rig->dir);
	sy_unit_config_init(&rig->config);
	rig->config.slab_bytes = SLAB_BYTES;
	rig->config.run_dir = rig->dir;
	rig->config.unit_id = 2;
	rig->config.slot_count = 3;
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;
	char path[96];
	if (rig->unit > 0) {
		kill(rig->unit, SIGCONT);
		kill(rig->unit, SIGTERM);
		waitpid(rig->unit, NULL, 0);
	}
	unlink(rig->log);
	snprintf(path, sizeof path, "%s/VERSION", rig->dir);
	unlink(path);
	int left = rmdir(rig->dir); /* nothing else of the unit may be there */
	free(rig);
	return left;
}

static void say_ready(void *context, const struct sy_unit_info *info)
{
	ssize_t unused = write(*(const int *)context, info, sizeof *info);
	(void)unused;
}

/* Starts a unit with its stderr in the log. True: it is ready, and rig->info is of it; false: it
 * ended, with *ret_status. */
static bool start_unit(struct rig *rig, pid_t *ret_pid, int *ret_status)
{
	int said[2];
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int log = open(rig->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (log < 0 || dup2(log, STDERR_FILENO) < 0)
			_exit(9);
		close(said[0]);
		rig->config.ready = say_ready;
		rig->config.ready_context = &said[1];
		_exit(sy_unit_run(&rig->config));
	}
	close(said[1]);
	struct sy_unit_info info;
	bool ready = read(said[0], &info, sizeof info) == (ssize_t)sizeof info;
	close(said[0]);
	if (ready) {
		rig->info = info;
		*ret_pid = child;
	} else {
		assert_int_equal(waitpid(child, ret_status, 0), child);
	}
	return ready;
}

static void start(struct rig *rig)
{
	int status = 0;
	assert_true(start_unit(rig, &rig->unit, &status));
}

static int stop(struct rig *rig, int signal_number)
{
	int status = 0;
	assert_int_equal(kill(rig->unit, signal_number), 0);
	assert_int_equal(waitpid(rig->unit, &status, 0), rig->unit);
	rig->unit = 0;
	return status;
}

static void read_log(const struct rig *rig, char *out, size_t size)
{
	int fd = open(rig->log, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, out, size - 1) : 0;
	out[got > 0 ? got : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

/* A start that fails: exit status 1 and one line on stderr that holds `says`. */
static void expect_refusal(struct rig *rig, const char *says)
{
	char text[1024];
	pid_t pid = 0;
	int status = 0;
	assert_false(start_unit(rig, &pid, &status));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	read_log(rig, text, sizeof text);
	if (strstr(text, says) == NULL)
		fail_msg("%s", text);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static const struct sy_reply *ask(struct client *client, struct sy_request *request)
{
	const void *message = NULL;
	size_t bytes = 0;
	sy_error err = {0};
	request->id = (struct sy_request_id){client->session, ++client->seq, 0};
	sy_buf_reset(&client->out);
	sy_request_encode(request, &client->out);
	assert_false(client->out.failed);
	assert_true(sy_control_client_send(client->control, client->out.data, client->out.bytes));
	for (int round = 0; round < ROUNDS; round++) {
		if (sy_control_client_receive(client->control, &message, &bytes)) {
			client->scratch.used = 0;
			if (sy_reply_decode(message, bytes, request->op, request->resolve.row_count,
			                    &client->scratch, &client->reply, &err) != SY_OK)
				fail_msg("%s", err.message);
			assert_true(sy_request_id_equal(client->reply.id, request->id));
			return &client->reply;
		}
		struct pollfd waited = {.fd = sy_control_client_fd(client->control), .events = POLLIN};
		(void)poll(&waited, 1, ROUND_MS);
	}
	fail_msg("no reply");
	return NULL;
}

/* local: through the local socket; else as from another host. */
static void connect_client(const struct rig *rig, const char *endpoint, bool local,
                           struct client *client)
{
	struct sy_local_welcome welcome = {0};
	int slab_fd = -1;
	sy_error err = {0};
	*client = (struct client){.local_fd = -1};
	client->scratch.bytes = SY_SCRATCH_BYTES;
	client->scratch.data = malloc(SY_SCRATCH_BYTES);
	assert_non_null(client->scratch.data);
	if (local) {
		if (sy_local_connect(rig->info.local_path, sy_clock_now_ns() + 10000000000u, &welcome,
		                     &client->local_fd, &slab_fd, &err) != SY_OK)
			fail_msg("%s", err.message);
		assert_int_equal(welcome.slab_bytes, SLAB_BYTES);
		assert_int_equal(welcome.incarnation, rig->info.incarnation);
		client->slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, slab_fd, 0);
		assert_true(client->slab != MAP_FAILED);
		close(slab_fd);
	}
	assert_int_equal(sy_control_context_open(&client->context, &err), SY_OK);
	assert_int_equal(sy_control_client_open(client->context, endpoint, &client->control, &err),
	                 SY_OK);
	struct sy_request hello = {
		.op = SY_OP_HELLO,
		.hello = {.version = SY_PROTOCOL_VERSION, .slot_count = 3,
		          .ns = {(const uint8_t *)"run", 3}, .identity = {.random = sy_entropy_u64()},
		          .connection_count = 1, .token = welcome.token}};
	const struct sy_reply *reply = ask(client, &hello);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->hello.unit_id, 2);
	assert_int_equal(reply->hello.transports, local ? SY_TRANSPORT_SHM : 0);
	client->session = reply->hello.session;
}

static void close_client(struct client *client, bool bye)
{
	if (bye)
		sy_local_bye(client->local_fd, 0);
	sy_local_close(client->local_fd);
	if (client->slab != NULL)
		munmap(client->slab, SLAB_BYTES);
	sy_control_client_close(client->control, 0);
	sy_control_context_close(client->context);
	sy_buf_free(&client->out);
	free(client->scratch.data);
}

/* A blob of one row with one value of 1,000 bytes. */
static uint64_t make_blob(sy_blob_id id, uint64_t row, uint8_t out[2048])
{
	sy_column column = {.field = "a", .field_bytes = 1, .kind = SY_KIND_BYTES, .row_count = 1,
	                    .extent = 1000};
	sy_index index = {.blob_id = id, .rows = &row, .row_count = 1, .columns = &column,
	                  .column_count = 1};
	assert_int_equal(sy_index_layout(&index, NULL), SY_OK);
	assert_true(index.blob_bytes <= 2048);
	assert_int_equal(sy_index_encode(&index, out, 2048, NULL), SY_OK);
	memset(out + column.base, (int)row, 1000);
	return index.blob_bytes;
}

static struct sy_outcome alloc_blob(struct client *client, sy_blob_id id, uint64_t nbytes)
{
	struct sy_request request = {
		.op = SY_OP_ALLOC, .first_notice = 1,
		.alloc = {.blob_id = id, .nbytes = nbytes, .until_ns = UINT64_MAX / 2, .entry_count = 1}};
	struct sy_outcome outcome = ask(client, &request)->outcome;
	assert_int_equal(outcome.fault, SY_FAULT_NONE);
	assert_int_equal(outcome.answer, SY_ANSWER_REGION);
	return outcome;
}

static void put_row(struct client *client, uint64_t row)
{
	uint8_t blob[2048];
	sy_blob_id id;
	sy_entropy_fill(&id, sizeof id);
	uint64_t bytes = make_blob(id, row, blob);
	struct sy_outcome region = alloc_blob(client, id, bytes);
	memcpy(client->slab + region.offset, blob, bytes);
	struct sy_request request = {
		.op = SY_OP_COMMIT, .first_notice = 1,
		.commit = {.blob_id = id, .generation = region.generation, .until_ns = UINT64_MAX / 2}};
	assert_int_equal(ask(client, &request)->outcome.answer, SY_ANSWER_PUBLISHED);
}

/* Returns where the row lies, pinned; UINT64_MAX: absent. */
static uint64_t find_row(struct client *client, uint64_t row)
{
	const struct sy_span field = {(const uint8_t *)"a", 1};
	struct sy_request request = {
		.op = SY_OP_RESOLVE_KEYS, .first_notice = 1,
		.resolve = {.rows = &row, .fields = &field, .row_count = 1, .field_count = 1}};
	const struct sy_reply *reply = ask(client, &request);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	return reply->resolved.found[0] == SY_FOUND_PINNED ? reply->resolved.offset[0] : UINT64_MAX;
}

static void release_row(struct client *client, uint64_t row)
{
	struct sy_request request = {
		.op = SY_OP_RELEASE_ROWS, .first_notice = 1,
		.release = {.rows = &row, .row_count = 1, .all_fields = true}};
	assert_int_equal(ask(client, &request)->outcome.fault, SY_FAULT_NONE);
}

static struct sy_unit_stats stats_of(struct client *client)
{
	struct sy_request request = {.op = SY_OP_STATS, .first_notice = 1};
	const struct sy_reply *reply = ask(client, &request);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	return reply->stats;
}

static void await_all_free(struct client *client)
{
	for (int round = 0; round < ROUNDS; round++) {
		if (stats_of(client).bytes.free == SLAB_BYTES)
			return;
		poll(NULL, 0, 5); /* between two questions: nothing announces it */
	}
	fail_msg("memory did not come back");
}

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

/* A unit that stood still gives remote leases the time back. */
static void test_a_stopped_unit(void **state)
{
	struct rig *rig = *state;
	struct client client;
	int status = 0;
	rig->config.heartbeat_ns = 500000000;
	rig->config.session_expire_ns = 2000000000;
	start(rig);
	connect_client(rig, rig->info.tcp_address, false, &client);
	kill(rig->unit, SIGSTOP);
	assert_int_equal(waitpid(rig->unit, &status, WUNTRACED), rig->unit);
	poll(NULL, 0, 2600);
	kill(rig->unit, SIGCONT);
	struct sy_request beat = {.op = SY_OP_HEARTBEAT, .first_notice = 1};
	assert_int_equal(ask(&client, &beat)->outcome.fault, SY_FAULT_NONE);
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
	expect_refusal(rig, "3 times heartbeat_s");
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
