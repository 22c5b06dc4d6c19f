/* What `doctor` says of a host, as a function of what it found there. Pure. */
#ifndef SY_DOCTOR_JUDGE_H
#define SY_DOCTOR_JUDGE_H

#include <slabyard/status.h>

#include <limits.h>

/* What was asked for: a cluster that is to run here. */
struct sy_doctor_wants {
	uint64_t slab_bytes; /* of a unit; 0: not said */
	uint64_t unit_count;
	bool rdma; /* bytes go to other hosts */
};

/* What is so. Texts are borrowed. UINT64_MAX of a limit: there is none. */
struct sy_doctor_facts {
	int shm_error;   /* errno of making a file in /dev/shm; 0: it can be made */
	bool shm_is_tmpfs;
	bool shm_is_huge; /* it gives huge pages */
	uint64_t shm_bytes, shm_free_bytes;
	uint64_t memory_bytes; /* available on the host */
	uint64_t memlock_soft_bytes, memlock_hard_bytes;
	uint64_t files_soft, files_hard;
	int pidfd_error; /* errno of watching a process; 0: it can be watched */
	uint32_t rdma_devices, rdma_active; /* those with a port that is up */
	const char *ucx_tls, *ucx_net_devices; /* NULL: unset */
	const char *ucx_fault; /* why there is no UCX to use; NULL: there is */
};

enum sy_doctor_state {
	SY_DOCTOR_OK = 1,
	SY_DOCTOR_NOTE,  /* could be better, or is not needed for what was asked */
	SY_DOCTOR_WRONG, /* what was asked for does not work so */
};

struct sy_doctor_finding {
	const char *name;
	enum sy_doctor_state state;
	char says[256];
	char mend[160]; /* the line that mends it; "" if there is none */
};

enum { SY_DOCTOR_FINDINGS = 8 };

/* One finding a subject, always all of them, in a fixed order. */
void sy_doctor_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                     struct sy_doctor_finding out[SY_DOCTOR_FINDINGS]);
const char *sy_doctor_state_name(enum sy_doctor_state state);

#endif
