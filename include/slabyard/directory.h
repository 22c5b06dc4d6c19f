/* The directory of a cluster: which unit lives in which slot.
 *
 * A client and a store ask it themselves; this is for programs that watch a cluster, or that
 * place blobs by what they see. Thread-safe, deadlines and fork as in client.h. */
#ifndef SLABYARD_DIRECTORY_H
#define SLABYARD_DIRECTORY_H

#include <slabyard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sy_directory sy_directory;

/* Zero means the default. Strings are copied. */
typedef struct sy_directory_options {
	const char *run_dir; /* of the cluster on this host; or address */
	const char *address; /* ipc://... or tcp://host:port */
	const char *keys;    /* as in sy_client_options */
	uint64_t timeout_ns; /* cap of a call; 120 s */
	bool (*interrupted)(void *context); /* as in sy_client_options */
	void *interrupted_context;
} sy_directory_options;

enum { SY_DIRECTORY_TEXT_BYTES = 128, SY_DIRECTORY_UNITS_MAX = 1024 };

/* One slot and the unit that registered in it last. Text is NUL-terminated, "" where there is
 * none. */
typedef struct sy_unit_entry {
	uint32_t unit_id;     /* the slot */
	uint64_t incarnation; /* 0: nobody ever registered, and the rest is zero */
	uint64_t epoch;       /* of the slot's last change */
	uint64_t slab_bytes;
	uint32_t pid;
	char state[16];       /* active, suspect, draining, dead, none */
	char control_address[SY_DIRECTORY_TEXT_BYTES]; /* ipc://..., for clients of its host */
	char remote_address[SY_DIRECTORY_TEXT_BYTES];  /* tcp://..., for others */
	char local_path[SY_DIRECTORY_TEXT_BYTES];      /* of the socket that gives the slab out */
} sy_unit_entry;

/* Connects to nothing yet. The directory is the caller's: sy_directory_close. SY_E_INVALID,
 * SY_E_SYS (no such run directory). */
SY_API sy_status sy_directory_open(const sy_directory_options *options,
                                   sy_directory **ret_directory, sy_error *err);
/* No call may be running. NULL is a no-op. */
SY_API void sy_directory_close(sy_directory *directory);
/* Its address, borrowed until the close. */
SY_API const char *sy_directory_address(const sy_directory *directory);

/* Slots that changed at min_epoch or later, ascending; 0: all. units holds capacity of them
 * (SY_DIRECTORY_UNITS_MAX suffice); *ret_count of them are filled in. ret_slot_count (N) and
 * ret_epoch may be NULL. SY_E_INVALID (they do not fit), SY_E_TIMEOUT, SY_E_PROTOCOL. */
SY_API sy_status sy_directory_units(sy_directory *directory, uint64_t min_epoch,
                                    uint64_t deadline_ns, sy_unit_entry *units, size_t capacity,
                                    size_t *ret_count, uint32_t *ret_slot_count,
                                    uint64_t *ret_epoch, sy_error *err);

/* Whether the directory says that this incarnation is dead; *ret_dead is written only on SY_OK.
 * SY_E_INVALID (no such slot, incarnation 0), SY_E_TIMEOUT. */
SY_API sy_status sy_directory_is_dead(sy_directory *directory, uint32_t unit_id,
                                      uint64_t incarnation, uint64_t deadline_ns, bool *ret_dead,
                                      sy_error *err);

/* Says that the incarnation's process has ended: for ever, everyone is told that what it held is
 * gone. For supervisors of units that `slabyard directory` did not start itself, and only for who
 * saw the process end. Saying it twice is saying it once. SY_E_INVALID (no such slot, incarnation
 * 0), SY_E_SYS (the directory cannot write its state), SY_E_TIMEOUT. */
SY_API sy_status sy_directory_exited(sy_directory *directory, uint32_t unit_id,
                                     uint64_t incarnation, uint64_t deadline_ns, sy_error *err);

/* Whether a unit shall drain: refuse puts and go on serving what it has. The unit hears of it
 * within its heartbeat. SY_E_INVALID (no such slot, or nobody ever registered there), SY_E_LOST
 * (its unit is dead), SY_E_TIMEOUT. */
SY_API sy_status sy_directory_drain(sy_directory *directory, uint32_t unit_id, bool drain,
                                    uint64_t deadline_ns, sy_error *err);

#ifdef __cplusplus
}
#endif
#endif
