/* Whoever waits for the disk's descriptor and then asks for one end hears of all of them, however
 * they came: a unit asks for a bounded number a turn. */
#include "harness.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"

enum { JOBS = SY_DISK_JOBS_MAX, ROUNDS = 20, BLOB = 4096, PATIENCE_MS = 60000 };

static uint8_t slab[JOBS * BLOB];

static void say(void *context, const char *line)
{
	(void)context;
	print_message("%s\n", line);
}

static struct sy_disk_job job_of(uint32_t number, bool reads)
{
	struct sy_disk_job job = {
		.reads = reads, .blob = number + 1, .grant = 100 + number, .generation = 7 + number,
		.incarnation = 9, .offset = (uint64_t)number * BLOB, .nbytes = BLOB,
		.record_nbytes = BLOB, .ns_bytes = 5, .ns = "train",
	};
	job.disk_at = number * sy_record_bytes(BLOB);
	return job;
}

static bool is_readable(struct sy_disk *disk, int patience_ms)
{
	struct pollfd fd = {.fd = sy_disk_fd(disk), .events = POLLIN};

	return poll(&fd, 1, patience_ms) == 1;
}

/* All of them begin at once, and one end is asked for whenever the descriptor tells of any. */
static void run_all(struct sy_disk *disk, bool reads)
{
	bool ended[JOBS] = {false};

	for (uint32_t i = 0; i < JOBS; i++) {
		struct sy_disk_job job = job_of(i, reads);

		sy_disk_run(disk, &job);
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		struct sy_disk_end end;

		assert_true(is_readable(disk, PATIENCE_MS));
		assert_true(sy_disk_next(disk, &end));
		assert_int_equal(end.result, SY_DISK_OK);
		assert_in_range(end.blob, 1, JOBS);
		assert_int_equal(end.grant, 99 + end.blob);
		assert_false(ended[end.blob - 1]);
		ended[end.blob - 1] = true;
	}
	struct sy_disk_end end;
	assert_false(sy_disk_next(disk, &end));
	assert_false(is_readable(disk, 0));
}

static void test_every_end_is_told(void **state)
{
	char dir[] = "/tmp/slabyard-disk-XXXXXX";
	sy_error err = {0};
	struct sy_disk *disk = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	const struct sy_disk_config config = {.dir = dir, .bytes = JOBS * sy_record_bytes(BLOB),
	                                      .incarnation = 9, .slab = slab, .say = say};
	if (sy_disk_open(&config, &disk, &err) != SY_OK)
		fail_msg("%s", err.message);
	for (int i = 0; i < ROUNDS; i++) {
		memset(slab, i + 1, sizeof slab);
		run_all(disk, false);
		memset(slab, 0, sizeof slab);
		run_all(disk, true);
		for (size_t k = 0; k < sizeof slab; k += 97)
			assert_int_equal(slab[k], i + 1);
	}
	sy_disk_close(disk);
	assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_end_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
