/* Faults known from systems of this kind, which need a reader that is held in its course: between
 * it and its units stands a gate, and around its copies a lock of the test's own. */
#include "harness.h"

#include <semaphore.h>
#include <slabyard/slabyard.h>
#include <string.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"
#include "slow_get.h"
#include "store_blob.h"

enum { UNITS = 1, SLAB_BYTES = 4 << 20, ROWS = SLOW_GET_ROWS, LARGE = 40000, SMALL = 500 };
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static sy_client *writer, *reader; /* the reader's messages pass the gate */
static bool holding;               /* atomic: answers to resolves stay at the gate */
static sem_t at_gate;
static bool pins_end; /* values travel as between hosts: who is held may outlive its pins */

/* The linker leads the client's copies into and out of a mapped slab through here. */
static bool holding_copies; /* atomic: the first of them waits for let_go */
static sem_t let_go;

void __real_sy_copy(void *dst, const void *src, size_t n, size_t whole);
void __wrap_sy_copy(void *dst, const void *src, size_t n, size_t whole);

void __wrap_sy_copy(void *dst, const void *src, size_t n, size_t whole)
{
	if (__atomic_exchange_n(&holding_copies, false, __ATOMIC_ACQ_REL)) {
		sem_post(&at_gate);
		sem_wait(&let_go);
	}
	__real_sy_copy(dst, src, n, whole);
}

static enum gate_says on_reply(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
                               uint64_t age_ns)
{
	static bool told;

	(void)unit_id;
	(void)reply;
	(void)age_ns;
	if (op != SY_OP_RESOLVE_KEYS)
		return GATE_PASS;
	if (!__atomic_load_n(&holding, __ATOMIC_ACQUIRE)) {
		told = false;
		return GATE_PASS;
	}
	if (!told)
		sem_post(&at_gate);
	told = true;
	return GATE_HOLD;
}

static bool holding_commits; /* atomic */

static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	(void)unit_id;
	(void)age_ns;
	return request->op == SY_OP_COMMIT && __atomic_load_n(&holding_commits, __ATOMIC_ACQUIRE)
	           ? GATE_HOLD : GATE_PASS;
}

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err->message);
}

static int start(void **state)
{
	sy_client_options options = {.timeout_ns = 20 * SECOND_NS};
	sy_error err = {0};

	(void)state;
	sem_init(&at_gate, 0, 0);
	sem_init(&let_go, 0, 0);
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request, .reply = on_reply});
	options.run_dir = cluster.run_dir;
	must(sy_client_open(&options, &writer, &err), &err);
	options.run_dir = NULL;
	options.directory = gate_directory();
	options.control = SY_CONTROL_ZMQ;
	must(sy_client_open(&options, &reader, &err), &err);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(reader);
	sy_client_close(writer);
	gate_close();
	cluster_stop(&cluster);
	return 0;
}

static uint8_t byte_of(uint64_t row, size_t i)
{
	return (uint8_t)(row * 37 + i * 11 + i / 251);
}

static void put_rows(size_t nbytes)
{
	static uint8_t bytes[ROWS][LARGE];
	sy_key keys[ROWS];
	sy_value values[ROWS];
	sy_error err = {0};

	for (uint64_t r = 0; r < ROWS; r++) {
		for (size_t i = 0; i < nbytes; i++)
			bytes[r][i] = byte_of(r, i);
		keys[r] = (sy_key){r, "x", 1};
		values[r] = (sy_value){.data = bytes[r], .nbytes = nbytes, .kind = SY_KIND_BYTES};
	}
	must(sy_client_put(writer, keys, values, ROWS, 0, &err), &err);
	cluster.put_bytes += ROWS * nbytes;
}

/* Clears the rows and fills all there is with other bytes. */
static void clear_and_refill(void)
{
	static uint8_t junk[LARGE];
	uint64_t rows[ROWS], other = 100;
	sy_key key = {0, "junk", 4};
	sy_value value = {.data = junk, .nbytes = LARGE, .kind = SY_KIND_BYTES};
	sy_status status = SY_OK;
	sy_error err = {0};

	for (uint64_t r = 0; r < ROWS; r++)
		rows[r] = r;
	memset(junk, 0xee, sizeof junk);
	must(sy_client_clear(writer, rows, ROWS, NULL, 0, 0, NULL, &err), &err);
	while (status == SY_OK) {
		key.row = other++;
		status = sy_client_put(writer, &key, &value, 1, 0, &err);
	}
	assert_int_equal(status, SY_E_UNIT_FULL);
	assert_true(other > 100 + SLAB_BYTES / LARGE / 2);
}

static bool has_gone(const sy_unit_report *report)
{
	return report->answered && report->bytes[0].value == SLAB_BYTES; /* all free */
}

/* Everything goes back, what was pinned too. */
static void clear_all(void)
{
	uint64_t rows[512], end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_unit_report report = {0};
	sy_error err = {0};

	for (uint64_t r = 0; r < COUNT_OF(rows); r++)
		rows[r] = r;
	must(sy_client_clear(writer, rows, COUNT_OF(rows), NULL, 0, 0, NULL, &err), &err);
	while (!has_gone(&report) && sy_clock_now_ns() < end_ns)
		must(sy_client_reports(writer, 0, &report, &err), &err);
	assert_true(has_gone(&report));
}

static void check_bytes(const void *data, uint64_t row, size_t nbytes)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < nbytes; i++) {
		if (bytes[i] != byte_of(row, i))
			fail_msg("row %llu, byte %zu: another's", (unsigned long long)row, i);
	}
}

static void check_result(const struct slow_get *get, size_t nbytes)
{
	for (size_t r = 0; r < sy_result_count(get->result); r++) {
		sy_value value;

		if (!sy_result_value(get->result, r, &value)) {
			assert_true(pins_end); /* resolved anew, after the clear */
			continue;
		}
		assert_int_equal(value.nbytes, nbytes);
		check_bytes(value.data, r, nbytes);
		cluster.got_bytes += nbytes;
	}
}

/* What the reader gives back rides on its next message: after this the unit has it. */
static void say_more(void)
{
	sy_key key = {0, "none", 4};
	sy_result *result = NULL;
	sy_error err = {0};

	must(sy_client_get(reader, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
	sy_result_free(result);
}

/* Where a reader is slow: it waits for its answer, it copies, or it has a view in its hands. */
enum instant { ASKS, COPIES, LOOKS, INSTANTS };

static bool comes_by(enum path path, enum instant instant)
{
	bool views = path == VIEW || path == VIEW_OF_COLUMNS;

	if (instant == COPIES)
		return !views && path != INLINE && !pins_end;
	return instant == ASKS || views;
}

static void be_slow(enum path path, enum instant instant)
{
	struct slow_get get = {.client = reader, .path = path};
	size_t nbytes = path == INLINE ? SMALL : LARGE;

	put_rows(nbytes);
	__atomic_store_n(&holding, instant == ASKS, __ATOMIC_RELEASE);
	__atomic_store_n(&holding_copies, instant == COPIES, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&get.thread, NULL, get_slowly, &get), 0);
	if (instant == LOOKS)
		pthread_join(get.thread, NULL);
	else
		sem_wait(&at_gate);
	if (instant != ASKS)
		say_more();
	clear_and_refill();
	__atomic_store_n(&holding, false, __ATOMIC_RELEASE);
	if (instant == COPIES)
		sem_post(&let_go);
	if (instant != LOOKS)
		pthread_join(get.thread, NULL);
	must(get.status, &get.err);
	check_result(&get, nbytes);
	sy_result_free(get.result);
	clear_all();
}

/* Kind: slow reader while its rows are cleared and the region refilled, on every read path.
 * Kind: clear between resolve and read. */
static void test_slow_readers(void **state)
{
	(void)state;
	for (enum path path = SINGLE; path < PATHS; path++) {
		for (enum instant instant = ASKS; instant < INSTANTS; instant++) {
			if (comes_by(path, instant))
				be_slow(path, instant);
		}
	}
}

static bool count_junk(void *context, const sy_scan_info *info)
{
	assert_int_equal(info->field_bytes, 4); /* "junk" */
	(*(uint64_t *)context)++;
	return true;
}

/* Kind: stale commit after the region went to another. */
static void test_stale_commit(void **state)
{
	static uint8_t data[LARGE];
	sy_key key = {0, "x", 1};
	sy_value value = {.data = data, .nbytes = LARGE, .kind = SY_KIND_BYTES};
	sy_result *result;
	sy_unit_report report = {0};
	uint64_t before = 0, after = 0;
	sy_error err = {0};

	(void)state;
	__atomic_store_n(&holding_commits, true, __ATOMIC_RELEASE);
	sy_status status =
		sy_client_put(reader, &key, &value, 1, sy_deadline_after(SECOND_NS / 5), &err);
	assert_int_equal(status, SY_E_TIMEOUT);
	/* Its abort comes by a heartbeat, and all is others' then. */
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	while (!has_gone(&report) && sy_clock_now_ns() < end_ns)
		must(sy_client_reports(writer, 0, &report, &err), &err);
	assert_true(has_gone(&report));
	clear_and_refill();
	must(sy_client_scan(writer, 0, UINT64_MAX, count_junk, &before, 0, &err), &err);
	__atomic_store_n(&holding_commits, false, __ATOMIC_RELEASE);
	/* The second is asked when the gate has looked at what it holds since: the commit is by. */
	for (int i = 0; i < 2; i++) {
		must(sy_client_get(reader, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
		assert_false(sy_result_value(result, 0, &value));
		sy_result_free(result);
	}
	must(sy_client_scan(writer, 0, UINT64_MAX, count_junk, &after, 0, &err), &err);
	assert_int_equal(before, after);
	clear_all();
}

/* --- The store: its lock is called by the reading thread when it is about to copy. --- */

static sy_store *store;
static sy_resolved_keys *resolved;
static enum what { NOTHING, FREE_IT, CLOSE_IT } while_it_reads;
static pthread_t other;
static bool close_began, close_ended; /* atomic */

static void *free_it(void *unused)
{
	(void)unused;
	sy_resolved_keys_free(resolved);
	return NULL;
}

static void *close_it(void *unused)
{
	(void)unused;
	__atomic_store_n(&close_began, true, __ATOMIC_RELEASE);
	sy_store_close(store);
	__atomic_store_n(&close_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void on_lock(void *context)
{
	sy_key key = {0, "none", 4};
	sy_unit_keys keys = {0, &key, 1};
	sy_resolved_keys *more;
	enum what what = while_it_reads;

	(void)context;
	while_it_reads = NOTHING;
	if (what == FREE_IT) {
		assert_int_equal(pthread_create(&other, NULL, free_it, NULL), 0);
		pthread_join(other, NULL);
		/* A pin that goes back does so with the next message: the unit has it by now. */
		assert_int_equal(sy_store_resolve_keys(store, &keys, 1, 0, &more, NULL), SY_OK);
		sy_resolved_keys_free(more);
		clear_and_refill();
	} else if (what == CLOSE_IT) {
		assert_int_equal(pthread_create(&other, NULL, close_it, NULL), 0);
		/* Closed is it once it takes no more calls. */
		while (!__atomic_load_n(&close_began, __ATOMIC_ACQUIRE))
			;
		while (sy_store_resolve_keys(store, &keys, 1, 0, &more, NULL) == SY_OK)
			sy_resolved_keys_free(more);
		clear_and_refill();
		assert_false(__atomic_load_n(&close_ended, __ATOMIC_ACQUIRE)); /* before the read has */
	}
}

static void on_unlock(void *context)
{
	(void)context;
}

static void read_while(enum what what)
{
	static uint8_t got[LARGE];
	sy_store_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20 * SECOND_NS,
	                            .lock = on_lock, .unlock = on_unlock};
	sy_key key = {2, "x", 1};
	sy_unit_keys keys = {0, &key, 1};
	sy_located at;
	sy_error err = {0};

	put_rows(LARGE);
	must(sy_store_open(&options, &store, &err), &err);
	must(sy_store_resolve_keys(store, &keys, 1, 0, &resolved, &err), &err);
	assert_true(sy_resolved_at(resolved, 0, 0, &at) && at.found);
	sy_read read = {0, at.slab_offset, at.nbytes, got};
	while_it_reads = what;
	sy_status status = sy_store_read_entries(store, &read, 1, 0, &err);
	if (status != SY_E_STALE_READ || !pins_end) {
		must(status, &err);
		check_bytes(got, 2, LARGE);
	}
	if (what == CLOSE_IT)
		pthread_join(other, NULL);
	else
		sy_store_close(store);
	if (what == CLOSE_IT)
		sy_resolved_keys_free(resolved);
	clear_all();
}

/* Kind: release of a handle with a transfer outstanding. */
static void test_freed_while_it_is_read(void **state)
{
	(void)state;
	read_while(FREE_IT);
}

/* Kind: endpoint closed while a read runs. */
static void test_closed_while_it_reads(void **state)
{
	(void)state;
	read_while(CLOSE_IT);
}

int main(int argc, char **argv)
{
	const char *transport = getenv("SLABYARD_TRANSPORT");

	cluster_main(argc, argv);
	pins_end = transport != NULL && strcmp(transport, "ucx") == 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_readers),
		cmocka_unit_test(test_stale_commit),
		cmocka_unit_test(test_freed_while_it_is_read),
		cmocka_unit_test(test_closed_while_it_reads),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
