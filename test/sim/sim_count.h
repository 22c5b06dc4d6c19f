/* What a run met: counted, so that a state, fault or error that no seed ever reaches shows. */
#ifndef SIM_COUNT_H
#define SIM_COUNT_H

#include "sim_config.h"

enum {
	SIM_COUNT_OPS = 12,       /* enum sy_op */
	SIM_COUNT_ENDS = 12,      /* enum sy_op_end */
	SIM_COUNT_STATUSES = 16,
};

struct sim_counts {
	uint64_t arrows[SY_BLOB_STATE_COUNT][SY_BLOB_STATE_COUNT];
	uint64_t faults_made[SIM_FAULT_COUNT];
	uint64_t requests[SIM_COUNT_OPS]; /* as units got them */
	uint64_t faults[8], busy[8], resources[12], whys[20];
	uint64_t ends[SIM_COUNT_ENDS];    /* of operations */
	uint64_t verdicts[SIM_COUNT_STATUSES]; /* by the position in SY_STATUS_LIST */
	uint64_t granted_puts, grants_unused; /* puts in a grant; grants given back, or lost */
	uint64_t parked, long_releases;   /* requests that waited; releases of several steps */
	uint64_t keys_checked, keys_lost, bytes_checked, reads, stale_reads, events, audits;
};

const char *sim_end_name(uint32_t end); /* of an enum sy_op_end */

void sim_counts_add(struct sim_counts *sum, const struct sim_counts *counts);
void sim_counts_print(const struct sim_counts *counts);
/* Prints what should have been met and was not; the number of such. */
uint32_t sim_counts_missing(const struct sim_counts *counts);

#endif
