/* Sessions that attach to a slab over UCX, move something and detach, one after the other: neither
 * side is left with a descriptor, a mapping or memory that it had not before. */
#include "ucx_rig.h"

#include <dirent.h>

#include "sanitized.h"

enum { SESSIONS = SANITIZED ? 100 : 1000, FIRST_SESSION = 1000, PIECE = 64 << 10 };

struct holdings {
	size_t descriptors, mappings, resident_bytes;
};

static size_t lines_of(const char *path)
{
	FILE *file = fopen(path, "r");
	size_t count = 0;

	assert_non_null(file);
	for (int byte; (byte = fgetc(file)) != EOF;)
		count += byte == '\n';
	fclose(file);
	return count;
}

static struct holdings holdings_of(pid_t pid)
{
	struct holdings held = {0};
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir) != NULL)
		held.descriptors++;
	closedir(dir);
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	held.mappings = lines_of(path);
	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	FILE *file = fopen(path, "r");
	unsigned long all, resident;
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
	fclose(file);
	held.resident_bytes = resident * (size_t)sysconf(_SC_PAGESIZE);
	return held;
}

static void one_session(struct rig *rig, uint64_t number)
{
	static uint8_t piece[PIECE];
	bool in_flight;

	say(rig, WORD_ADMIT, number);
	expect(rig, WORD_ADMIT, number);
	struct sy_ucx_peer *peer =
		sy_ucx_peer_new(rig->mover, rig->address, number, INCARNATION, SLAB_BYTES);
	assert_non_null(peer);
	fill(piece, sizeof piece, (uint8_t)number);
	for (int write = 1; write >= 0; write--)
		assert_int_equal(move(peer, write != 0, 0, piece, sizeof piece, 20 * SECOND_NS, 0,
		                      &in_flight, NULL), SY_OK);
	assert_true(holds(piece, sizeof piece, (uint8_t)number));
	sy_ucx_peer_free(peer);
	say(rig, WORD_FENCE, number);
	expect(rig, WORD_FENCE, number);
}

static void expect_no_more(const char *whose, const struct holdings *before,
                           const struct holdings *after)
{
	print_message("%s: %zu descriptors, then %zu; %zu mappings, then %zu; %zu KiB, then %zu\n",
	              whose, before->descriptors, after->descriptors, before->mappings,
	              after->mappings, before->resident_bytes / 1024, after->resident_bytes / 1024);
	assert_true(after->descriptors <= before->descriptors);
	if (SANITIZED) /* it keeps shadow and freed memory */
		return;
	assert_true(after->mappings <= before->mappings + 4); /* malloc's own come and go */
	assert_true(after->resident_bytes < before->resident_bytes + (2 << 20));
}

/* TEST_SESSIONS asks for another number of them. */
static void test_many(void **state)
{
	const char *asked = getenv("TEST_SESSIONS");
	uint64_t count = asked != NULL ? strtoull(asked, NULL, 10) : SESSIONS;
	struct holdings before[2] = {{0}}, after[2];
	struct rig rig;

	(void)state;
	rig_start(&rig, 0);
	for (uint64_t i = 0; i < count + SESSIONS / 5; i++) {
		if (i == SESSIONS / 5) { /* what is made once and kept is there by now */
			before[0] = holdings_of(getpid());
			before[1] = holdings_of(rig.child);
		}
		one_session(&rig, FIRST_SESSION + i);
	}
	after[0] = holdings_of(getpid());
	after[1] = holdings_of(rig.child);
	expect_no_more("client", &before[0], &after[0]);
	expect_no_more("target", &before[1], &after[1]);
	rig_stop(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};

	rig_choose();
	if (argc == 5 && strcmp(argv[1], "target") == 0)
		return run_target(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
