/* What the kill loop (kill_loop.c) and the client it torments (kill_victim.c) share. */
#ifndef SY_TEST_KILL_H
#define SY_TEST_KILL_H

#include <slabyard/slabyard.h>
#include <sys/types.h>

#include "bytes.h"

enum {
	KILL_UNITS = 2,
	KILL_SLAB_BYTES = 4 << 20,
	KILL_TIER_SLAB_BYTES = 192 << 10, /* with a disk tier: less than the victim's rows want */
	KILL_ROWS = 12,         /* the victim's; row numbers below are others' */
	KILL_FIRST_ROW = 100,
	KILL_HAND_ROW = 61,     /* and the second next: blobs by hand, on unit 1 */
	KILL_MAYBE = 8,
	KILL_MANY_ROW = 1000000, /* every second one, on unit 0 */
	KILL_MANY = 12000,
	KILL_WIDE_ROW = 2000000,
	KILL_SMALL = 200,
	KILL_LARGE = 20000,
};

/* What a get of this row may find. Before a call that changes it, what it would change it to is
 * added; once the call has said OK, that alone is left. Written so that a kill between any two
 * instructions leaves a list that is true. Version 0: absent. */
struct kill_row {
	uint64_t maybe[KILL_MAYBE];
	uint32_t count;
};

/* One file in shared memory, written by the victim. */
struct kill_log {
	struct kill_row rows[KILL_ROWS];
	char doing[32];
	char fault[SY_ERROR_MESSAGE_BYTES + 128];
	char late[64]; /* the first call that came back late */
	uint64_t calls, errors;
	int64_t worst_late_ns; /* past a call's deadline, less what is excused */
};

struct kill_orders {
	char run_dir[64];
	uint64_t timeout_ns;
	uint64_t seed;
	bool strict;     /* no call may fail */
	bool may_lose;   /* a unit is killed */
	bool abandon;    /* ends without a word, holding pins */
	bool parks;      /* requests that must wait for room */
	bool tier;       /* units have a disk tier, and less memory than the rows want */
	pid_t units[KILL_UNITS];
};

/* Both fields of a row, "a" (KILL_SMALL bytes) and "b", follow from row and version. */
static inline void kill_fill(uint8_t *bytes, size_t nbytes, uint64_t row, char field,
                             uint64_t version)
{
	memcpy(bytes, &row, 8);
	memcpy(bytes + 8, &version, 8);
	for (size_t i = 16; i < nbytes; i += 8) {
		uint64_t word = sy_mix64(row * 31 ^ version << 8 ^ (uint64_t)field ^ (uint64_t)i << 40);

		memcpy(bytes + i, &word, nbytes - i < 8 ? nbytes - i : 8);
	}
}

/* The version that this value is, whole; UINT64_MAX: it is nobody's. */
static inline uint64_t kill_version(const sy_value *value, uint64_t row, char field)
{
	static _Thread_local uint8_t wanted[KILL_LARGE];
	uint64_t version;

	if (value->nbytes < 16 || value->nbytes > KILL_LARGE)
		return UINT64_MAX;
	memcpy(&version, (const uint8_t *)value->data + 8, 8);
	kill_fill(wanted, value->nbytes, row, field, version);
	return memcmp(wanted, value->data, value->nbytes) == 0 ? version : UINT64_MAX;
}

/* Of a result that was asked for "a" and "b" of rows, in that order: why what it says of the
 * i-th row cannot be; NULL if it can. */
const char *kill_judge_row(const sy_result *result, size_t i, uint64_t row,
                           const struct kill_row *known, bool may_be_absent);

/* The process that is tormented; returns its exit status. */
int kill_victim(const struct kill_orders *orders, struct kill_log *log);

#endif
