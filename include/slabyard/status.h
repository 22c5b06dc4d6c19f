/* Status codes and the error record every call of slabyard reports through. */
#ifndef SLABYARD_STATUS_H
#define SLABYARD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SY_API __attribute__((visibility("default")))

/* X(name, value, python class, what it means for the caller)
 * The one list of errors: the enum, the strings and the docs table are made from it.
 * The hundreds digit says what is damaged: 1 nothing (retry), 2 the call, 3 the data, 4 the
 * process or its peer. A value never changes once released. */
#define SY_STATUS_LIST(X) \
	X(SY_OK, 0, "-", "done") \
	X(SY_E_BUSY, 101, "DataPlaneBusy", \
	  "a unit is temporarily unable; retried inside the operation") \
	X(SY_E_TIMEOUT, 102, "DataPlaneTimeout", "the deadline is spent; retry") \
	X(SY_E_UNIT_FULL, 103, "UnitFull", "no room on the unit: resource, need, free, largest hole") \
	X(SY_E_TRANSFER, 104, "TransferError", "one transfer failed or timed out") \
	X(SY_E_TRANSFER_FAILED, 105, "DataPlaneTransferFailed", "the unit still has the data; retry") \
	X(SY_E_STALE_READ, 106, "StaleRead", "the read outlived its pin; resolve again") \
	X(SY_E_INVALID, 201, "ValueError", "a bug in the call") \
	X(SY_E_LOST, 301, "DataPlaneLostKeys", "gone; drop and regenerate") \
	X(SY_E_FATAL, 401, "DataPlaneFatal", "this process can move no more data") \
	X(SY_E_POLICY, 402, "TransportPolicyError", "bytes could leave the host over TCP") \
	X(SY_E_PROTOCOL, 403, "TransferError", \
	  "the peer broke the protocol, or speaks another version") \
	X(SY_E_AUTH, 404, "PermissionError", "the peer does not let this process in") \
	X(SY_E_SYS, 405, "OSError", "the system refused a call")

typedef enum sy_status {
#define SY_STATUS_ENUM(name, value, python, meaning) name = value,
	SY_STATUS_LIST(SY_STATUS_ENUM)
#undef SY_STATUS_ENUM
} sy_status;

enum { SY_ERROR_MESSAGE_BYTES = 256 };

/* What went wrong. Plain data: owns nothing, may be copied. A call writes it only on failure. Zero
 * before its first use: what it was lent (below) is read.
 *
 * indexes, index_capacity: lent by the caller (may be NULL, 0) before the call; a call on many
 * keys writes there the positions, in the arrays of that call, of the keys that were lost or
 * failed: the first index_capacity of them, while index_count holds their true number. */
typedef struct sy_error {
	sy_status status;
	bool in_flight;      /* a transfer may still land: its memory must not be used again */
	const char *where;   /* static: the function that failed */
	const char *reason;  /* static: a Busy reason, the full resource of UnitFull, "dead" where
	                      * the unit is, "disk" where its disk tier lost a value, or NULL */
	uint64_t need;         /* UnitFull: units of the resource; bytes for "bytes" */
	uint64_t free;         /* UnitFull: free units in all */
	uint64_t largest_hole; /* UnitFull "bytes": the longest contiguous free run */
	uint32_t *indexes;
	size_t index_capacity;
	size_t index_count;
	char message[SY_ERROR_MESSAGE_BYTES]; /* one line, NUL-terminated */
} sy_error;

/* The name without its prefix, as "Timeout" for SY_E_TIMEOUT; "Unknown" for no such value. */
SY_API const char *sy_status_name(sy_status status);
/* The Python class that stands for it. */
SY_API const char *sy_status_python(sy_status status);
/* What it means for the caller, one phrase. */
SY_API const char *sy_status_meaning(sy_status status);

/* 16 bytes that name a blob; shown as 32 hex digits. */
typedef struct sy_blob_id {
	uint8_t bytes[16];
} sy_blob_id;

/* One start of a unit; random, new at every start, never 0. */
typedef struct sy_incarnation {
	uint64_t value;
} sy_incarnation;

/* One grant of a region; counts up from 1 in an incarnation and is never used again by it. */
typedef struct sy_generation {
	uint64_t value;
} sy_generation;

#ifdef __cplusplus
}
#endif
#endif
