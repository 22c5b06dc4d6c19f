/* What a unit core is made with; fixed for its life. */
#ifndef SY_PARAMS_H
#define SY_PARAMS_H

#include "proto.h"

struct sy_core_params {
	uint64_t slab_bytes;      /* a multiple of 64 */
	uint64_t staging_bytes;   /* the slab's last part, for the tier; 0 without one; times 64 */
	uint64_t disk_bytes;      /* of the disk tier; 0: none; a multiple of 4,096 */
	uint64_t load_whole_bytes; /* a blob up to so many is read from disk whole */
	uint64_t incarnation;     /* never 0 */
	uint64_t seed;            /* of session numbers and hash secrets; of the system's randomness */
	uint32_t unit_id;
	uint32_t slot_count;      /* N, units of the cluster */
	uint32_t max_entries;     /* 1 .. 10 million; as many pin references, and blobs, copies of
	                           * what is on disk not counted */
	uint32_t max_sessions;    /* default 1,024 */
	uint32_t max_pins;        /* pins (requests that hold blobs) */
	uint32_t max_fields;      /* distinct names, default 4,096, at most 65,535 */
	uint32_t max_namespaces;  /* default 256, at most 65,535 */
	uint32_t max_shapes;      /* distinct trailing shapes, default 65,536 */
	uint32_t max_parked;      /* default 1,024 */
	uint32_t max_jobs;        /* releases under way, default 64 */
	uint32_t reap_budget;     /* entries of blobs that are gone, given back a step; 0: 1,024 */
	uint32_t unpin_budget;    /* blobs let go of by unpins a step, about; 0: 1,024 */
	uint32_t eager_max_bytes; /* blobs of put_inline */
	uint32_t inline_max_bytes;  /* one inline value of a resolve */
	uint32_t inline_total_bytes; /* all inline values of one reply */
	uint64_t grant_max_bytes; /* of a region given before its put; 0: none is */
	uint64_t grant_total_bytes; /* of all of them */
	bool remote_write;        /* a transport reaches the slab from other hosts */
	uint64_t read_pin_ns, heartbeat_ns, session_expire_ns, retire_grace_ns, park_max_ns;
};

/* Bytes of arena such a core needs; 0 if a parameter is out of its range. */
uint64_t sy_core_arena_bytes(const struct sy_core_params *params);

/* clamp(slab / 1 KiB, 65,536, 10 million) */
uint32_t sy_core_default_entries(uint64_t slab_bytes);

#endif
