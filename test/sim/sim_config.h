/* What one run is: sizes, capacities, rates of faults. All of it is drawn from the seed, so that
 * each seed tries another mix (few large tables, many small ones, no faults, all of them). */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include "buffers.h"
#include "core.h"
#include "dir_message.h"
#include "prng.h"

enum {
	SIM_UNITS_MAX = 4,
	SIM_CLIENTS_MAX = 8,
	SIM_TASKS_MAX = 6,     /* operations a client has under way at once */
	SIM_ROWS_MAX = 64,     /* rows of one unit */
	SIM_FIELDS_MAX = 48,
	SIM_SPACES = 2,        /* namespaces */
	SIM_INVARIANTS = 10,
};

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S UINT64_C(1000000000)

/* What goes wrong. X(name, printed name) */
#define SIM_FAULT_LIST(X) \
	X(DROP, "message-lost") \
	X(DOUBLE, "message-doubled") \
	X(LATE, "message-late") \
	X(REORDER, "message-reordered") \
	X(CUT, "link-cut") \
	X(RECONNECT, "connection-broken") \
	X(OLD_CONNECTION, "old-connection-heard") \
	X(OLD_QUEUE, "dead-queue-delivered") \
	X(LATE_WRITE, "write-late") \
	X(LATE_READ, "read-late") \
	X(FENCE_LATE, "fence-late") \
	X(CLIENT_KILL, "client-killed") \
	X(CLIENT_STOP, "client-stopped") \
	X(CLIENT_CLOSE, "client-closed") \
	X(CLIENT_START, "client-restarted") \
	X(UNIT_KILL, "unit-killed") \
	X(UNIT_STOP, "unit-stopped") \
	X(UNIT_START, "unit-restarted") \
	X(UNIT_DRAIN, "unit-drained") \
	X(OLD_SLAB, "dead-slab-written") \
	X(DIRECTORY, "directory-silent") \
	X(CLOCK_HELD, "clock-held") \
	X(CLOCK_JUMP, "clock-jumped") \
	X(STRANGER, "stranger") \
	X(GARBAGE, "garbage-message") \
	X(STALE, "stale-commit") \
	X(SCRIBBLE, "index-scribbled") \
	X(CANCEL, "operation-cancelled") \
	X(ARENA_MOVE, "arena-moved") \
	X(ARENA_REBUILD, "arena-rebuilt") \
	X(CAPACITY, "small-tables") \
	X(DISK_SLOW, "disk-slow") \
	X(DISK_READ, "disk-read-failed") \
	X(DISK_WRITE, "disk-write-failed") \
	X(DISK_FULL, "disk-full") \
	X(DISK_TORN, "disk-write-torn") \
	X(DISK_FLIP, "disk-bit-flipped") \
	X(DISK_LOST, "disk-file-lost") \
	X(RENEWAL_LOST, "renewal-lost") \
	X(RENEWAL_LATE, "renewal-late") \
	X(RENEWAL_CUT, "unit-cut-from-directory") \
	X(DIRECTORY_RESTART, "directory-restarted") \
	X(UNREPORTED, "exit-unreported") \
	X(SUSPECT, "unit-suspected") \
	X(LEASE_DEATH, "dead-by-lease") \
	X(FORCED_CLOSE, "endpoint-closed-by-force") \
	X(NEVER_DONE, "transfer-never-done") \
	X(READ_LEFT, "read-left-in-flight") \
	X(READ_WAITS, "resolved-and-not-read") \
	X(NO_BUFFER, "no-buffer-free") \
	X(POISONED, "client-poisoned") \
	X(MEMORY_HELD, "memory-held-by-a-transfer") \
	X(MEMORY_IN_DOUBT, "memory-in-doubt") \
	X(REPLACED, "unit-replaced-before-a-read")

enum sim_fault {
#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
	SIM_FAULT_LIST(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
	SIM_FAULT_COUNT
};

const char *sim_fault_name(uint32_t fault);
/* The fault of this printed name, or SIM_FAULT_COUNT. */
uint32_t sim_fault_named(const char *name);

/* Weights of the kinds of operation. */
struct sim_mix {
	uint32_t put, put_inline, resolve, release, scan, query, again;
};

struct sim_config {
	uint64_t seed;
	uint32_t steps;   /* events; then the run winds down and everything must come back */
	uint32_t clients, units, tasks, rows, fields;
	uint32_t only;    /* the one invariant whose checker may fire; 0: all */
	uint64_t off;     /* bit mask of faults that do not happen */
	uint32_t rate[SIM_FAULT_COUNT]; /* in 10,000: a message, or a turn of the world */
	struct sim_mix mix;
	uint32_t values_max_bytes, entries_max; /* of one put */
	uint64_t think_ns;              /* a pause between two operations of a task */
	uint64_t latency_ns;            /* of a message */
	uint64_t copy_ns;               /* between two pieces of a copy */
	uint64_t work_ns;               /* until a unit goes on with the work it has left */
	uint64_t control_timeout_ns;
	uint64_t disk_ns;               /* of a disk operation, where there is a disk */
	uint64_t turn_ns;               /* between two turns of the world */
	uint32_t remote_percent;        /* clients on other hosts */
	uint32_t wide_percent;          /* operations on all keys there are */
	uint32_t audit_every;           /* steps between two audits of a unit */
	struct sy_dir_times times;      /* of leases; all zero: units hold none */
	uint64_t renew_ns;              /* between two renewals */
	bool transfers;                 /* endpoints that break, reads into buffers of a pool */
	uint64_t fence_late_ns;         /* a fence takes up to so long */
	struct sy_buffers_config buffers; /* of a client on another host */
	struct sy_core_params params;   /* incarnation, seed and unit_id are set a start */
};

/* What the command line fixes; 0: drawn. */
struct sim_wanted {
	uint32_t steps, clients, units, only;
	uint64_t off;
	const char *mutant; /* its name, for the replay; NULL: none */
};

/* Draws the mix of this seed. */
void sim_config_draw(struct sim_config *ret_config, uint64_t seed,
                     const struct sim_wanted *wanted);

#endif
