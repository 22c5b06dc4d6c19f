/* A real unit and clients of its lanes that do not behave: they send nonsense, do not read, stop
 * half-way, hand over other things than memory. What one does, others never feel. */
#include "daemon_rig.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "bell.h"
#include "lane.h"
#include "local_parts.h"
#include "spin.h"

enum { MANY = 1000, FLOOD = 200000, LARGE_BYTES = 400000,
       STATS_A_BURST = 512, BURSTS = 20, SILENCE_S = 20,
       ANNOUNCED_MAX = 500, ANNOUNCED_LEAST = 20, WAITS_IN_VAIN = 10 };

/* One end of a lane, and what is behind it. */
struct mate {
	struct client client; /* its session is one of ZeroMQ's, its messages go through the lane */
	struct sy_ring_budget budget;
	struct sy_lane lane;
	struct sy_bell *bell;
	int bell_fd, door_fd, local_fd;
	uint64_t token;
	uint8_t copy[SY_RING_BYTES];
};

static void greet(const struct rig *rig, struct mate *mate)
{
	struct sy_local_welcome welcome;
	int slab_fd = -1;
	sy_error err = {0};
	memset(mate, 0, sizeof *mate);
	if (sy_local_connect(rig->info.local_path, sy_clock_now_ns() + 10000000000u, &welcome,
	                     &mate->local_fd, &slab_fd, &err) != SY_OK)
		fail_msg("%s", err.message);
	close(slab_fd);
	assert_int_equal(welcome.lanes, 1);
	mate->token = welcome.token;
	mate->budget.max_bytes = 64u << 20;
	mate->client.scratch.bytes = SY_SCRATCH_BYTES;
	mate->client.scratch.data = malloc(SY_SCRATCH_BYTES);
	assert_non_null(mate->client.scratch.data);
	assert_int_equal(sy_bell_make(&mate->bell, &mate->bell_fd, NULL), SY_OK);
	mate->door_fd = sy_local_door();
	assert_true(mate->door_fd >= 0);
}

static void join(struct mate *mate)
{
	int lane_fd = -1;
	assert_int_equal(sy_lane_make(&mate->budget, &mate->lane, &lane_fd, NULL), SY_OK);
	const struct sy_local_lane handed = {lane_fd, mate->bell_fd, mate->door_fd};
	assert_true(sy_local_join(mate->local_fd, &handed));
	close(lane_fd);
}

static void open_door(const struct mate *mate)
{
	const uint64_t one = 1;
	assert_int_equal(write(mate->door_fd, &one, sizeof one), sizeof one);
}

static void leave(struct mate *mate)
{
	sy_lane_done(&mate->lane);
	sy_bell_unmap(mate->bell);
	close(mate->bell_fd);
	sy_local_close(mate->door_fd);
	sy_local_close(mate->local_fd);
	sy_buf_free(&mate->client.out);
	free(mate->client.scratch.data);
}

static void say(struct mate *mate, struct sy_request *request)
{
	struct client *client = &mate->client;
	request->id = (struct sy_request_id){client->session, ++client->seq, 0};
	sy_buf_reset(&client->out);
	sy_request_encode(request, &client->out);
	assert_true(sy_lane_send(&mate->lane, client->out.data, client->out.bytes));
	open_door(mate);
}

/* The answer to the request said last; replies before it are passed over. */
static const struct sy_reply *hear(struct mate *mate, const struct sy_request *request)
{
	struct client *client = &mate->client;
	sy_error err = {0};
	for (int round = 0; round < FLOOD; round++) {
		const void *message;
		size_t bytes;
		struct sy_request_id id;
		uint32_t seen = sy_bell_look(mate->bell);
		if (!sy_lane_receive(&mate->lane, mate->copy, &message, &bytes)) {
			struct pollfd ended = {.fd = mate->local_fd, .events = POLLIN};
			assert_int_equal(poll(&ended, 1, 0), 0); /* the unit has gone, or cut us off */
			assert_true(sy_lane_flush(&mate->lane));
			open_door(mate); /* it may wait for us to have read */
			sy_bell_wait(mate->bell, seen, sy_clock_now_ns() + ROUND_MS * 1000000u);
			continue;
		}
		assert_int_equal(sy_reply_peek(message, bytes, &id, NULL), SY_OK);
		if (!sy_request_id_equal(id, request->id))
			continue;
		client->scratch.used = 0;
		if (sy_reply_decode(message, bytes, request->op, request->resolve.row_count,
		                    &client->scratch, &client->reply, &err) != SY_OK)
			fail_msg("%s", err.message);
		return &client->reply;
	}
	fail_msg("no reply");
	return NULL;
}

static void open_mate(const struct rig *rig, struct mate *mate)
{
	greet(rig, mate);
	join(mate);
	struct sy_request hello = {
		.op = SY_OP_HELLO,
		.hello = {.version = SY_PROTOCOL_VERSION, .slot_count = 3,
		          .ns = {(const uint8_t *)"run", 3}, .identity = {.random = sy_entropy_u64()},
		          .connection_count = 1, .token = mate->token}};
	say(mate, &hello);
	const struct sy_reply *reply = hear(mate, &hello);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	mate->client.session = reply->hello.session;
}

static void check_served(struct mate *mate)
{
	struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
	say(mate, &stats);
	assert_int_equal(hear(mate, &stats)->outcome.fault, SY_FAULT_NONE);
}

static void await_end(const struct mate *mate)
{
	struct pollfd ended = {.fd = mate->local_fd, .events = POLLIN};
	char byte;
	assert_int_equal(poll(&ended, 1, ROUNDS * ROUND_MS), 1);
	assert_int_equal(recv(mate->local_fd, &byte, 1, MSG_DONTWAIT), 0);
}

static void test_a_session_through_a_lane(void **state)
{
	struct rig *rig = *state;
	static struct mate mate;
	start(rig);
	open_mate(rig, &mate);
	check_served(&mate);
	/* A message longer than the ring comes in parts, there and back: 16,384 absent keys. */
	static uint64_t rows[SY_KEYS_PER_RESOLVE_MAX];
	const struct sy_span field = {(const uint8_t *)"a", 1};
	for (uint64_t i = 0; i < COUNT_OF(rows); i++)
		rows[i] = i * 3;
	struct sy_request resolve = {
		.op = SY_OP_RESOLVE_KEYS, .first_notice = 1,
		.resolve = {.rows = rows, .fields = &field, .row_count = COUNT_OF(rows),
		            .field_count = 1}};
	say(&mate, &resolve);
	assert_true(mate.client.out.bytes > SY_RING_BYTES);
	const struct sy_reply *reply = hear(&mate, &resolve);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->key_count, COUNT_OF(rows));
	check_served(&mate);
	leave(&mate);
}

/* As a client does it: once for all that was written or read, and only where it is needed. */
static void knock(struct mate *mate)
{
	bool due = mate->lane.due;
	mate->lane.due = false;
	if (due && !sy_ring_is_attended(&mate->lane.out))
		open_door(mate);
}

/* The next reply's number. Nothing wakes the unit meanwhile but what has to. */
static uint64_t listen_for(struct mate *mate)
{
	const void *message;
	size_t bytes;
	struct sy_request_id id;
	for (int round = 0; round < FLOOD; round++) {
		uint32_t seen = sy_bell_look(mate->bell);
		assert_true(sy_lane_flush(&mate->lane));
		bool got = sy_lane_receive(&mate->lane, mate->copy, &message, &bytes);
		knock(mate);
		if (got) {
			assert_int_equal(sy_reply_peek(message, bytes, &id, NULL), SY_OK);
			return id.seq;
		}
		uint64_t end_ns = sy_clock_now_ns() + SILENCE_S * UINT64_C(1000000000);
		sy_bell_wait(mate->bell, seen, end_ns);
		if (sy_clock_now_ns() >= end_ns)
			fail_msg("the unit sleeps, and nobody has woken it");
	}
	return 0;
}

/* Both ways more than a ring holds, so that each side waits for the other's room in turn. */
static void test_room_wakes_who_waits_for_it(void **state)
{
	struct rig *rig = *state;
	static struct mate mate;
	static uint64_t rows[SY_KEYS_PER_RESOLVE_MAX];
	const struct sy_span field = {(const uint8_t *)"a", 1};
	struct sy_request resolve = {
		.op = SY_OP_RESOLVE_KEYS, .first_notice = 1,
		.resolve = {.rows = rows, .fields = &field, .row_count = COUNT_OF(rows),
		            .field_count = 1}};
	struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
	start(rig);
	open_mate(rig, &mate);
	for (uint64_t i = 0; i < COUNT_OF(rows); i++)
		rows[i] = i * 3;
	const uint32_t *stalled = &mate.lane.shared->replies.stalled;
	for (int burst = 0; burst < BURSTS; burst++) {
		uint64_t first = mate.client.seq + 1;
		for (int i = 0; i < STATS_A_BURST; i++) {
			struct sy_request *request = i >= STATS_A_BURST - 8 ? &resolve : &stats;
			request->id = (struct sy_request_id){mate.client.session, ++mate.client.seq, 0};
			sy_buf_reset(&mate.client.out);
			sy_request_encode(request, &mate.client.out);
			assert_true(sy_lane_send(&mate.lane, mate.client.out.data, mate.client.out.bytes));
		}
		/* Read only when there is no room left, and then while the unit is still awake. */
		for (int i = 0; i < FLOOD && __atomic_load_n(stalled, __ATOMIC_SEQ_CST) == 0; i++) {
			assert_true(sy_lane_flush(&mate.lane));
			knock(&mate);
			sched_yield();
		}
		for (uint64_t seq = first; seq <= mate.client.seq; seq++)
			assert_int_equal(listen_for(&mate), seq);
	}
	leave(&mate);
}

static void test_nonsense_ends_its_sender_alone(void **state)
{
	struct rig *rig = *state;
	static struct mate good, bad;
	char text[1024];
	start(rig);
	open_mate(rig, &good);
	for (int i = 0; i < 3; i++) {
		open_mate(rig, &bad);
		struct sy_ring_shared *ring = &bad.lane.shared->requests;
		if (i == 0) /* more than there can be */
			__atomic_add_fetch(&ring->head, SY_RING_BYTES + 64, __ATOMIC_RELEASE);
		else if (i == 1) /* a part of no bytes */
			memset(ring->bytes + bad.lane.out.head % SY_RING_BYTES, 0, 16);
		else /* a position of replies that were never written */
			__atomic_add_fetch(&bad.lane.shared->replies.tail, 1024, __ATOMIC_RELEASE);
		if (i == 1)
			__atomic_add_fetch(&ring->head, 16, __ATOMIC_RELEASE);
		if (i == 2)
			say(&bad, &(struct sy_request){.op = SY_OP_STATS, .first_notice = 1});
		open_door(&bad);
		await_end(&bad);
		check_served(&good);
		leave(&bad);
	}
	/* A whole message that nobody can read is counted, and its sender stays. */
	assert_true(sy_lane_send(&good.lane, "nonsense", 8));
	open_door(&good);
	check_served(&good);
	read_log(rig, text, sizeof text);
	assert_non_null(strstr(text, "sent nonsense"));
	leave(&good);
}

/* Who does not read its replies is not read either, and costs no more than its ring. */
static void test_who_does_not_read_holds_up_nobody(void **state)
{
	struct rig *rig = *state;
	static struct mate lazy, good;
	struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
	uint64_t sent = 0;
	start(rig);
	open_mate(rig, &lazy);
	open_mate(rig, &good);
	/* Until its own queue fills: the unit takes no more. */
	while (sent < FLOOD && lazy.lane.queued_bytes < LARGE_BYTES) {
		say(&lazy, &stats);
		sent++;
		if (sent % 1000 == 0)
			check_served(&good);
	}
	assert_true(sent < FLOOD);
	check_served(&good);
	/* And goes on once it does read: its last request is answered. */
	assert_int_equal(hear(&lazy, &stats)->outcome.fault, SY_FAULT_NONE);
	leave(&lazy);
	leave(&good);
}

/* Writes its door once, and where it is attended not at all. */
static void exchange(struct mate *mate)
{
	struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
	stats.id = (struct sy_request_id){mate->client.session, ++mate->client.seq, 0};
	sy_buf_reset(&mate->client.out);
	sy_request_encode(&stats, &mate->client.out);
	assert_true(sy_lane_send(&mate->lane, mate->client.out.data, mate->client.out.bytes));
	knock(mate);
	assert_int_equal(listen_for(mate), mate->client.seq);
}

/* A client that writes its door with nothing in the ring has announced a message: the unit waits
 * for it awake, and its ring says so, also where waits for other messages have been in vain. Where
 * one CPU is all there is nobody waits so. */
static void test_an_announced_message_is_waited_for(void **state)
{
	struct rig *rig = *state;
	static struct mate mate;
	cpu_set_t allowed;
	int awaited = 0;
	assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	start(rig);
	open_mate(rig, &mate);
	for (int i = 0; i < ANNOUNCED_MAX && awaited < ANNOUNCED_LEAST; i++) {
		for (int vain = 0; vain < WAITS_IN_VAIN; vain++) {
			exchange(&mate);
			while (sy_ring_is_attended(&mate.lane.out))
				sched_yield();
		}
		open_door(&mate);
		uint64_t end_ns = sy_clock_now_ns() + 1000000;
		while (!sy_ring_is_attended(&mate.lane.out) && sy_clock_now_ns() < end_ns)
			;
		/* To attend and let go at once takes it less. */
		end_ns = sy_clock_now_ns() + SY_SPIN_NS / 2;
		while (sy_clock_now_ns() < end_ns)
			;
		awaited += sy_ring_is_attended(&mate.lane.out);
		exchange(&mate);
	}
	assert_int_equal(awaited, CPU_COUNT(&allowed) > 1 ? ANNOUNCED_LEAST : 0);
	leave(&mate);
}

/* Fills the ring of a unit that stands still, ends the socket, and writes on, faster than the unit
 * reads, what has a short answer, until the unit ends the socket as well. Returns the bytes
 * written. */
static uint64_t write_past_the_end(const struct rig *rig, struct mate *mate)
{
	static uint64_t rows[256];
	struct sy_request release = {
		.op = SY_OP_RELEASE_ROWS, .first_notice = 1,
		.release = {.rows = rows, .row_count = COUNT_OF(rows), .all_fields = true}};
	struct pollfd ended = {.fd = mate->local_fd, .events = POLLIN};
	uint64_t sent_bytes = 0;
	int status;
	assert_int_equal(kill(rig->unit, SIGSTOP), 0);
	assert_int_equal(waitpid(rig->unit, &status, WUNTRACED), rig->unit);
	for (uint64_t i = 0; i < COUNT_OF(rows); i++)
		rows[i] = i;
	say(mate, &release);
	for (int round = 0; round < FLOOD && (round % 64 != 0 || poll(&ended, 1, 0) == 0); round++) {
		const void *message;
		size_t bytes;
		for (int i = 0; i < 16 && mate->lane.first == NULL; i++) {
			assert_true(sy_lane_send(&mate->lane, mate->client.out.data, mate->client.out.bytes));
			sent_bytes += mate->client.out.bytes;
		}
		if (mate->lane.first != NULL && ended.events == POLLIN) { /* the ring is full */
			ended.events = POLLIN | POLLPRI;
			assert_int_equal(shutdown(mate->local_fd, SHUT_WR), 0);
			assert_int_equal(kill(rig->unit, SIGCONT), 0);
		}
		while (sy_lane_receive(&mate->lane, mate->copy, &message, &bytes))
			; /* its answers do not hold it up */
		assert_true(sy_lane_flush(&mate->lane));
	}
	return sent_bytes;
}

/* What a client writes after the end of its socket is not heard, however fast it writes. Several
 * times: where this writer is not awake at once the ring runs empty, and that ends it as well. */
static void test_nothing_is_heard_after_the_end(void **state)
{
	struct rig *rig = *state;
	static struct mate mate;
	start(rig);
	for (int i = 0; i < 24; i++) {
		open_mate(rig, &mate);
		/* What lay there, a turn of the unit that began before it could see the end, and what
		 * nobody reads. */
		assert_in_range(write_past_the_end(rig, &mate), SY_RING_BYTES / 2, 8 * SY_RING_BYTES);
		leave(&mate);
	}
}

/* In the middle of a message of several parts: what came of it is freed. */
static void test_a_client_that_dies_in_a_message(void **state)
{
	struct rig *rig = *state;
	static struct mate good;
	int ready[2];
	start(rig);
	open_mate(rig, &good);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			static struct mate mate;
			open_mate(rig, &mate);
			uint8_t *half = calloc(1, LARGE_BYTES);
			bool sent = half != NULL && sy_lane_send(&mate.lane, half, LARGE_BYTES);
			open_door(&mate);
			(void)!write(ready[1], &sent, 1);
			pause();
			_exit(0);
		}
		char byte = 0;
		close(ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		close(ready[0]);
		assert_int_equal(byte, 1);
		if (i % 2 == 1) { /* a stopped one is waited for, and holds up nobody */
			kill(child, SIGSTOP);
			check_served(&good);
		}
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		check_served(&good);
	}
	leave(&good);
}

static void test_what_is_no_lane_is_refused(void **state)
{
	struct rig *rig = *state;
	static struct mate good, bad;
	start(rig);
	open_mate(rig, &good);
	for (int i = 0; i < 5; i++) {
		int lane_fd = -1, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		greet(rig, &bad);
		assert_int_equal(sy_lane_make(&bad.budget, &bad.lane, &lane_fd, NULL), SY_OK);
		/* It is not answered: there may be no bell to ring. */
		say(&bad, &(struct sy_request){.op = SY_OP_STATS, .first_notice = 1});
		const struct sy_local_lane lanes[] = {
			{null_fd, bad.bell_fd, bad.door_fd},
			{lane_fd, null_fd, bad.door_fd},
			{lane_fd, bad.bell_fd, null_fd}, /* nothing to wait for */
			{bad.bell_fd, bad.bell_fd, bad.door_fd}, /* too small */
			{lane_fd, bad.bell_fd, bad.door_fd},
		};
		assert_true(sy_local_join(bad.local_fd, &lanes[i]));
		if (i == 4) /* twice */
			assert_true(sy_local_join(bad.local_fd, &lanes[i]));
		await_end(&bad);
		close(lane_fd);
		close(null_fd);
		leave(&bad);
		check_served(&good);
	}
	/* Fewer descriptors than a join has. */
	greet(rig, &bad);
	const struct sy_local_word word = {.magic = SY_LOCAL_JOIN_MAGIC};
	assert_true(sy_local_send(bad.local_fd, &word, sizeof word, &bad.bell_fd, 1));
	await_end(&bad);
	leave(&bad);
	check_served(&good);
	leave(&good);
}

/* Where the unit was told to use ZeroMQ alone. */
static void test_a_unit_without_lanes(void **state)
{
	struct rig *rig = *state;
	struct sy_local_welcome welcome;
	static struct mate mate;
	int fd = -1, slab_fd = -1;
	start(rig);
	assert_int_equal(stop(rig, SIGTERM), 0);
	rig->config.zmq_only = true;
	start(rig);
	assert_int_equal(sy_local_connect(rig->info.local_path, sy_clock_now_ns() + 10000000000u,
	                                  &welcome, &fd, &slab_fd, NULL), SY_OK);
	assert_int_equal(welcome.lanes, 0);
	memset(&mate, 0, sizeof mate);
	mate.local_fd = fd;
	assert_int_equal(sy_bell_make(&mate.bell, &mate.bell_fd, NULL), SY_OK);
	mate.door_fd = sy_local_door();
	join(&mate);
	await_end(&mate);
	close(slab_fd);
	leave(&mate);
}

/* Six of a mate and its peer are open in this one process, and fewer than the unit wants left. */
static int many_allowed(void)
{
	struct rlimit files;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	return files.rlim_cur > 10 * MANY ? MANY : (int)files.rlim_cur / 10;
}

/* As many clients as a unit has sessions for, or as may be, all served in turn. */
static void test_many_clients(void **state)
{
	struct rig *rig = *state;
	int many = many_allowed();
	struct mate *mates = calloc((size_t)many, sizeof *mates);
	assert_non_null(mates);
	start(rig);
	for (int i = 0; i < many; i++)
		open_mate(rig, &mates[i]);
	for (int turn = 0; turn < 3; turn++) {
		struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
		for (int i = 0; i < many; i++)
			say(&mates[i], &stats);
		for (int i = 0; i < many; i++) {
			stats.id = (struct sy_request_id){mates[i].client.session, mates[i].client.seq, 0};
			assert_int_equal(hear(&mates[i], &stats)->outcome.fault, SY_FAULT_NONE);
		}
	}
	for (int i = 0; i < many; i++)
		leave(&mates[i]);
	free(mates);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_a_session_through_a_lane),
		WITH_RIG(test_room_wakes_who_waits_for_it),
		WITH_RIG(test_nonsense_ends_its_sender_alone),
		WITH_RIG(test_who_does_not_read_holds_up_nobody),
		WITH_RIG(test_an_announced_message_is_waited_for),
		WITH_RIG(test_nothing_is_heard_after_the_end),
		WITH_RIG(test_a_client_that_dies_in_a_message),
		WITH_RIG(test_what_is_no_lane_is_refused),
		WITH_RIG(test_a_unit_without_lanes),
		WITH_RIG(test_many_clients),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
