/* Real units in processes of their own, and clients of them made of the shipped parts. */
#ifndef SY_DAEMON_RIG_H
#define SY_DAEMON_RIG_H

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "daemon.h"
#include "entropy.h"
#include "local.h"
#include "message.h"

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

static inline int open_rig(void **state)
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

static inline int close_rig(void **state)
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

static inline void say_ready(void *context, const struct sy_unit_info *info)
{
	ssize_t unused = write(*(const int *)context, info, sizeof *info);
	(void)unused;
}

/* Starts a unit with its stderr in the log. True: it is ready, and rig->info is of it; false: it
 * ended, with *ret_status. */
static inline bool start_unit(struct rig *rig, pid_t *ret_pid, int *ret_status)
{
	int said[2];
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that crashes leaves no unit behind */
		int log = open(rig->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (log < 0 || dup2(log, STDERR_FILENO) < 0)
			_exit(9);
		close(said[0]);
		rig->config.ready = say_ready;
		rig->config.ready_context = &said[1];
		_exit(sy_unit_run(&rig->config, 1));
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

static inline void start(struct rig *rig)
{
	int status = 0;
	assert_true(start_unit(rig, &rig->unit, &status));
}

static inline int stop(struct rig *rig, int signal_number)
{
	int status = 0;
	assert_int_equal(kill(rig->unit, signal_number), 0);
	assert_int_equal(waitpid(rig->unit, &status, 0), rig->unit);
	rig->unit = 0;
	return status;
}

static inline void read_log(const struct rig *rig, char *out, size_t size)
{
	int fd = open(rig->log, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, out, size - 1) : 0;
	out[got > 0 ? got : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

/* A start that fails: exit status 1 and one line on stderr that holds `says`. */
static inline void expect_refusal(struct rig *rig, const char *says)
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

static inline const struct sy_reply *ask(struct client *client, struct sy_request *request)
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
static inline void connect_client(const struct rig *rig, const char *endpoint, bool local,
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

static inline void close_client(struct client *client, bool bye)
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
static inline uint64_t make_blob(sy_blob_id id, uint64_t row, uint8_t out[2048])
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

static inline struct sy_outcome alloc_blob(struct client *client, sy_blob_id id, uint64_t nbytes)
{
	struct sy_request request = {
		.op = SY_OP_ALLOC, .first_notice = 1,
		.alloc = {.blob_id = id, .nbytes = nbytes, .until_ns = UINT64_MAX / 2, .entry_count = 1}};
	struct sy_outcome outcome = ask(client, &request)->outcome;
	assert_int_equal(outcome.fault, SY_FAULT_NONE);
	assert_int_equal(outcome.answer, SY_ANSWER_REGION);
	return outcome;
}

static inline void put_row(struct client *client, uint64_t row)
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
static inline uint64_t find_row(struct client *client, uint64_t row)
{
	const struct sy_span field = {(const uint8_t *)"a", 1};
	struct sy_request request = {
		.op = SY_OP_RESOLVE_KEYS, .first_notice = 1,
		.resolve = {.rows = &row, .fields = &field, .row_count = 1, .field_count = 1}};
	const struct sy_reply *reply = ask(client, &request);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	return reply->resolved.found[0] == SY_FOUND_PINNED ? reply->resolved.offset[0] : UINT64_MAX;
}

static inline void release_row(struct client *client, uint64_t row)
{
	struct sy_request request = {
		.op = SY_OP_RELEASE_ROWS, .first_notice = 1,
		.release = {.rows = &row, .row_count = 1, .all_fields = true}};
	assert_int_equal(ask(client, &request)->outcome.fault, SY_FAULT_NONE);
}

static inline struct sy_unit_stats stats_of(struct client *client)
{
	struct sy_request request = {.op = SY_OP_STATS, .first_notice = 1};
	const struct sy_reply *reply = ask(client, &request);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	return reply->stats;
}

static inline void await_all_free(struct client *client)
{
	for (int round = 0; round < ROUNDS; round++) {
		if (stats_of(client).bytes.free == SLAB_BYTES)
			return;
		poll(NULL, 0, 5); /* between two questions: nothing announces it */
	}
	fail_msg("memory did not come back");
}

#endif
