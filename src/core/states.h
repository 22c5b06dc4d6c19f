/* The states of a blob and every move between them, as data.
 *
 * The table below is the only place that says which move exists; sy_blob_move (blob.h) looks
 * each one up and asserts it. ARCHITECTURE.md draws it; tests and the model are made from it. */
#ifndef SY_STATES_H
#define SY_STATES_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, value, printed name, holds a region): RETIRED and QUARANTINED name
 * regions of blobs that are gone, ALLOCATED ones that are not there yet, LOADING copies of parts
 * of blobs that are ON_SSD. */
#define SY_BLOB_STATE_LIST(X) \
	X(SY_BLOB_FREE, 0, "free", 0) \
	X(SY_BLOB_ALLOCATED, 1, "allocated", 1) \
	X(SY_BLOB_COMMITTING, 2, "committing", 1) \
	X(SY_BLOB_PUBLISHED, 3, "published", 1) \
	X(SY_BLOB_DEMOTING, 4, "demoting", 1) \
	X(SY_BLOB_ON_SSD, 5, "on-ssd", 0) \
	X(SY_BLOB_RELEASED, 6, "released", 1) \
	X(SY_BLOB_RETIRED, 7, "retired", 1) \
	X(SY_BLOB_QUARANTINED, 8, "quarantined", 1) \
	X(SY_BLOB_LOADING, 9, "loading", 1)

enum sy_blob_state {
#define SY_BLOB_STATE_ENUM(name, value, text, region) name = value,
	SY_BLOB_STATE_LIST(SY_BLOB_STATE_ENUM)
#undef SY_BLOB_STATE_ENUM
	SY_BLOB_STATE_COUNT
};

/* X(from, to, needs the disk, what makes the move). A move that needs the disk tier is not
 * reachable without one. */
#define SY_BLOB_ARROW_LIST(X) \
	X(FREE, ALLOCATED, 0, "alloc") \
	X(ALLOCATED, PUBLISHED, 0, "commit") \
	X(ALLOCATED, COMMITTING, 1, "commit that must spill") \
	X(ALLOCATED, FREE, 0, "abort, not in flight; its process is gone") \
	X(ALLOCATED, RETIRED, 0, "abort in flight, or the session ended") \
	X(COMMITTING, ON_SSD, 1, "file written") \
	X(COMMITTING, FREE, 1, "abort, release of all, or disk failure, after its I/O") \
	X(PUBLISHED, RELEASED, 0, "last entry gone") \
	X(PUBLISHED, DEMOTING, 1, "cold") \
	X(DEMOTING, ON_SSD, 1, "file written") \
	X(DEMOTING, PUBLISHED, 1, "pinned, or the write failed") \
	X(DEMOTING, RELEASED, 1, "last entry gone") \
	X(ON_SSD, PUBLISHED, 1, "promoted") \
	X(ON_SSD, RELEASED, 1, "last entry gone") \
	X(RELEASED, FREE, 0, "no pin and no I/O left") \
	X(RELEASED, QUARANTINED, 0, "its last pin expired and was not given back") \
	X(QUARANTINED, FREE, 0, "read_pin_s later") \
	X(FREE, LOADING, 1, "a read of what is on disk begins") \
	X(LOADING, RELEASED, 1, "given back, or its read failed, or its blob is gone") \
	X(RETIRED, FREE, 0, "its writer is proved finished")

const char *sy_blob_state_name(uint8_t state);
/* True if a blob in this state names a region of the slab. One RELEASED from ON_SSD does not. */
bool sy_blob_state_has_region(uint8_t state);
/* True if the table has this move. */
bool sy_blob_arrow_exists(uint8_t from, uint8_t to);
bool sy_blob_arrow_needs_disk(uint8_t from, uint8_t to);

#endif
