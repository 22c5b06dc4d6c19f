#include "soak.h"

#include <fcntl.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "clock.h"
#include "prng.h"

static const uint64_t MILLISECOND_NS = 1000000;
static const char *const field_names[SOAK_FIELDS] = {"a", "b"};

/* One client's process. */
static struct soak *soak;
static struct soak_client *me;
static uint32_t number;
static struct sy_prng prng;
static sy_client *client;
static uint8_t bytes[SOAK_FIELDS][SOAK_LONGEST];

uint32_t soak_bucket_of(uint64_t ns)
{
	uint32_t bucket = 0;

	while (bucket + 1 < SOAK_BUCKETS && soak_bucket_end_ns(bucket) < ns)
		bucket++;
	return bucket;
}

uint64_t soak_bucket_end_ns(uint32_t bucket)
{
	uint64_t from = (uint64_t)1000 << bucket / 8;

	return from + from * (bucket % 8 + 1) / 8;
}

static uint64_t row_of(uint32_t owner, uint32_t index)
{
	return (uint64_t)index * soak->client_count + owner;
}

static void fault(const char *what, uint64_t row, const sy_error *err)
{
	if (me->fault[0] == 0)
		snprintf(me->fault, sizeof me->fault, "row %llu: %s%s%s", (unsigned long long)row, what,
		         err == NULL ? "" : ": ", err == NULL ? "" : err->message);
}

/* A value tells whose it is: row, seed, and bytes that follow from both and from the field. */
static void fill(uint8_t *to, size_t n, uint64_t row, uint32_t field, uint64_t seed)
{
	memcpy(to, &row, 8);
	memcpy(to + 8, &seed, 8);
	for (size_t i = 16; i < n; i += 8) {
		uint64_t word = sy_mix64(row ^ seed ^ (uint64_t)field << 60 ^ i);

		memcpy(to + i, &word, n - i < 8 ? n - i : 8);
	}
}

static bool is_whole(const sy_value *value, uint64_t row, uint32_t field, uint64_t *ret_seed)
{
	static uint8_t wanted[SOAK_LONGEST];

	if (value->nbytes < 16 || value->nbytes > SOAK_LONGEST)
		return false;
	memcpy(ret_seed, (const uint8_t *)value->data + 8, 8);
	fill(wanted, value->nbytes, row, field, *ret_seed);
	return memcmp(value->data, wanted, value->nbytes) == 0;
}

static uint32_t epoch_of(uint64_t row)
{
	return __atomic_load_n(&soak->epochs[row % soak->unit_count], __ATOMIC_ACQUIRE);
}

/* Before the call: should this process die in it, the next one knows. */
static void expect(struct soak_key *key, uint64_t seed)
{
	if (key->guess_count == SOAK_GUESSES)
		key->open = true;
	else
		key->guesses[key->guess_count++] = seed;
}

/* A call that was acknowledged came after all that this process tried before it; what a process
 * that died had sent may still have come after. */
static void acknowledge(struct soak_key *key, uint64_t seed, uint32_t epoch, uint32_t ghosts)
{
	key->acked = seed;
	key->guess_count = key->guess_count < ghosts ? key->guess_count : ghosts;
	key->open = key->open && ghosts == SOAK_GUESSES;
	key->epoch = epoch;
}

static bool may_hold(const struct soak_key *key, uint64_t seed, uint64_t row)
{
	if (seed == key->acked || key->open || (seed == 0 && epoch_of(row) != key->epoch))
		return true;
	for (uint32_t i = 0; i < key->guess_count; i++)
		if (key->guesses[i] == seed)
			return true;
	return false;
}

/* Of each of this client's keys: the guesses that its former processes left. */
static uint32_t ghosts[SOAK_ROWS][SOAK_FIELDS];

/* Time that this process could not use so far: stopped, or waiting for a processor, of which there
 * are few for so many. */
static int schedstat_fd = -1;

static uint64_t idle_ns(void)
{
	char text[80];
	unsigned long long ran, waited = 0;
	ssize_t length = pread(schedstat_fd, text, sizeof text - 1, 0);

	text[length > 0 ? length : 0] = 0;
	if (sscanf(text, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	return waited + __atomic_load_n(&me->stopped_ns, __ATOMIC_ACQUIRE);
}

struct watch {
	uint64_t start_ns, deadline_ns, idle_ns;
};

static struct watch begin(void)
{
	uint64_t given_ns = (5000 + sy_prng_below(&prng, 5000)) * MILLISECOND_NS;

	return (struct watch){sy_clock_now_ns(), sy_deadline_after(given_ns), idle_ns()};
}

static void count(enum soak_call call, const struct watch *watch, sy_status status)
{
	uint64_t now_ns = sy_clock_now_ns();
	int64_t late_ns = (int64_t)(now_ns - watch->deadline_ns - (idle_ns() - watch->idle_ns));

	me->calls[call]++;
	me->errors += status != SY_OK && status != SY_E_LOST;
	me->lost += status == SY_E_LOST;
	me->took[call][soak_bucket_of(now_ns - watch->start_ns)]++;
	if (late_ns > me->worst_late_ns) {
		me->worst_late_ns = late_ns;
		me->worst_call = call;
		me->worst_status = (int)status;
	}
}

/* Is this what may come of units that stop, die and are replaced? */
static void judge(const char *what, uint64_t row, sy_status status, const sy_error *err)
{
	if (status != SY_OK && status != SY_E_TIMEOUT && status != SY_E_TRANSFER_FAILED &&
	    status != SY_E_UNIT_FULL && (status != SY_E_LOST || epoch_of(row) == 0))
		fault(what, row, err);
}

/* One row: both fields or one of them. */
static void put_row(enum soak_call call)
{
	uint32_t index = (uint32_t)sy_prng_below(&prng, SOAK_ROWS), first = 0, last = SOAK_FIELDS;
	uint64_t row = row_of(number, index), seed = sy_prng_next(&prng) | 1;
	uint32_t epoch = epoch_of(row);
	sy_key keys[SOAK_FIELDS];
	sy_value values[SOAK_FIELDS];
	size_t n = 0;
	sy_error err = {0};

	if (sy_prng_below(&prng, 3) == 0) {
		first = (uint32_t)sy_prng_below(&prng, SOAK_FIELDS);
		last = first + 1;
	}
	for (uint32_t field = first; field < last; field++, n++) {
		uint64_t span = call == SOAK_PUT ? 1000 : SOAK_LONGEST - 16;
		size_t nbytes = 16 + (size_t)sy_prng_below(&prng, span);

		fill(bytes[n], nbytes, row, field, seed);
		keys[n] = (sy_key){row, field_names[field], 1};
		values[n] = (sy_value){.data = bytes[n], .nbytes = nbytes, .kind = SY_KIND_BYTES};
		expect(&me->keys[index][field], seed);
	}
	struct watch watch = begin();
	sy_status status = sy_client_put(client, keys, values, n, watch.deadline_ns, &err);

	count(call, &watch, status);
	judge("put", row, status, &err);
	for (uint32_t field = first; status == SY_OK && field < last; field++)
		acknowledge(&me->keys[index][field], seed, epoch, ghosts[index][field]);
}

/* Rows of anybody; those of this client must hold what it knows. */
static void get_rows(enum soak_call call)
{
	enum { ROWS = 6 };
	sy_key keys[ROWS * SOAK_FIELDS];
	uint32_t owners[ROWS], indexes[ROWS], epochs[ROWS];
	sy_result *result = NULL;
	sy_error err = {0};

	for (uint32_t i = 0; i < ROWS; i++) {
		owners[i] = i % 2 == 0 ? number : (uint32_t)sy_prng_below(&prng, soak->client_count);
		indexes[i] = (uint32_t)sy_prng_below(&prng, SOAK_ROWS);
		for (uint32_t field = 0; field < SOAK_FIELDS; field++)
			keys[i * SOAK_FIELDS + field] =
				(sy_key){row_of(owners[i], indexes[i]), field_names[field], 1};
		epochs[i] = epoch_of(keys[i * SOAK_FIELDS].row);
	}
	struct watch watch = begin();
	int flags = call == SOAK_VIEW ? SY_GET_VIEW : SY_GET_COPY;
	sy_status status = sy_client_get(client, keys, ROWS * SOAK_FIELDS, flags, watch.deadline_ns,
	                                 &result, &err);

	count(call, &watch, status);
	judge("get", keys[0].row, status == SY_E_LOST ? SY_OK : status, &err);
	for (uint32_t i = 0; status == SY_OK && i < ROWS * SOAK_FIELDS; i++) {
		uint32_t field = i % SOAK_FIELDS;
		uint64_t row = keys[i].row, seed = 0;
		sy_value value;

		if (sy_result_value(result, i, &value) && !is_whole(&value, row, field, &seed))
			fault("bytes that nobody put so", row, NULL);
		else if (owners[i / SOAK_FIELDS] == number &&
		         !may_hold(&me->keys[indexes[i / SOAK_FIELDS]][field], seed, row))
			fault(seed == 0 ? "absent, though it was acknowledged" : "an older put's bytes", row,
			      NULL);
	}
	if (status == SY_E_LOST) {
		bool some = false;

		for (uint32_t i = 0; i < ROWS; i++)
			some = some || epoch_of(keys[i * SOAK_FIELDS].row) != 0 || epochs[i] != 0;
		if (!some)
			fault("lost, though no unit was killed", keys[0].row, &err);
	}
	sy_result_free(result);
}

static void clear_row(uint32_t index)
{
	uint64_t row = row_of(number, index);
	uint32_t epoch = epoch_of(row);
	sy_error err = {0};

	for (uint32_t field = 0; field < SOAK_FIELDS; field++)
		expect(&me->keys[index][field], 0);
	struct watch watch = begin();
	sy_status status = sy_client_clear(client, &row, 1, NULL, 0, watch.deadline_ns, NULL, &err);

	count(SOAK_CLEAR, &watch, status);
	judge("clear", row, status, &err);
	for (uint32_t field = 0; status == SY_OK && field < SOAK_FIELDS; field++)
		acknowledge(&me->keys[index][field], 0, epoch, ghosts[index][field]);
}

static void work(void)
{
	uint64_t choice = sy_prng_below(&prng, 20);

	if (choice < 6)
		put_row(SOAK_PUT);
	else if (choice < 9)
		put_row(SOAK_PUT_LARGE);
	else if (choice < 15)
		get_rows(SOAK_GET);
	else if (choice < 19)
		get_rows(SOAK_VIEW);
	else
		clear_row((uint32_t)sy_prng_below(&prng, SOAK_ROWS));
}

_Noreturn void soak_client_run(struct soak *shared, uint32_t place, uint32_t life)
{
	soak = shared;
	number = place;
	me = &soak->clients[number];
	sy_client_options options = {.run_dir = soak->run_dir, .timeout_ns = 20000 * MILLISECOND_NS,
	                             .control_timeout_ns = 2000 * MILLISECOND_NS};
	sy_error err = {0};

	sy_prng_seed(&prng, soak->seed ^ sy_mix64((uint64_t)number << 32 | life));
	for (uint32_t i = 0; i < SOAK_ROWS; i++)
		for (uint32_t field = 0; field < SOAK_FIELDS; field++)
			ghosts[i][field] = me->keys[i][field].guess_count;
	schedstat_fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	if (sy_client_open(&options, &client, &err) != SY_OK) {
		fault("open", 0, &err);
		_exit(0);
	}
	while (!__atomic_load_n(&soak->stopping, __ATOMIC_ACQUIRE) && me->fault[0] == 0)
		work();
	for (uint32_t i = 0; i < SOAK_ROWS && me->fault[0] == 0; i++)
		clear_row(i);
	sy_client_close(client);
	_exit(0);
}
