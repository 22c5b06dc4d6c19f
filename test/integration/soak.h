/* What the processes of a soak share: one anonymous mapping, made before they are forked. */
#ifndef SY_TEST_SOAK_H
#define SY_TEST_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SOAK_UNITS_MAX = 16,
	SOAK_CLIENTS_MAX = 256,
	SOAK_ROWS = 24,   /* of each client: it alone writes them, all read them */
	SOAK_FIELDS = 2,
	SOAK_GUESSES = 6,
	SOAK_LONGEST = 40000,
	SOAK_BUCKETS = 160,
};

enum soak_call { SOAK_PUT, SOAK_PUT_LARGE, SOAK_GET, SOAK_VIEW, SOAK_CLEAR, SOAK_CALLS };

/* What may stand under one key: the seed last acknowledged (0: absent), and those of calls whose
 * end nobody saw. With too many of those only the value's own wholeness can be told. */
struct soak_key {
	uint64_t acked;
	uint64_t guesses[SOAK_GUESSES];
	uint32_t guess_count;
	bool open;
	uint32_t epoch; /* of its unit when it was acknowledged: units that die lose rows */
};

struct soak_client {
	pid_t pid;
	struct soak_key keys[SOAK_ROWS][SOAK_FIELDS];
	uint64_t calls[SOAK_CALLS], errors, lost;
	uint64_t took[SOAK_CALLS][SOAK_BUCKETS]; /* calls by their time */
	uint64_t stopped_ns;                     /* atomic: by us, so far */
	int64_t worst_late_ns;                   /* after the call's deadline, less what it stood */
	enum soak_call worst_call;
	int worst_status;
	char fault[400];                         /* empty: all was as it must be */
};

struct soak {
	char run_dir[64];
	uint64_t seed;
	uint32_t unit_count, client_count;
	bool stopping;                        /* atomic */
	uint32_t epochs[SOAK_UNITS_MAX];      /* atomic: raised before a unit is killed */
	struct soak_client clients[SOAK_CLIENTS_MAX];
};

/* A client's process: works until soak->stopping, then clears its rows and ends. life: how many
 * came before it in this place. Ends with 0, also where it has a fault to tell. */
_Noreturn void soak_client_run(struct soak *soak, uint32_t number, uint32_t life);

/* The bucket of a time, eight to a doubling, and the time where a bucket ends. */
uint32_t soak_bucket_of(uint64_t ns);
uint64_t soak_bucket_end_ns(uint32_t bucket);

#endif
