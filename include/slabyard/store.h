/* The store: blobs on units the caller names. The documented UnitSlabStore, in C.
 *
 * Most programs want client.h. This level is for frameworks that place blobs themselves, encode
 * indexes themselves (index.h) and read ranges of the slab into memory of theirs.
 * Thread-safe, deadlines and fork as in client.h. */
#ifndef SLABYARD_STORE_H
#define SLABYARD_STORE_H

#include <slabyard/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What moves bytes between this process and slabs: memory that is registered for it. One may serve
 * several stores. Thread-safe; a fork child needs one of its own. */
typedef struct sy_endpoint sy_endpoint;

/* Knows of no memory yet. Closed after the stores it is lent to; NULL is a no-op. */
SY_API sy_status sy_endpoint_open(sy_endpoint **ret_endpoint, sy_error *err);
SY_API void sy_endpoint_close(sy_endpoint *endpoint);
/* Memory that transfers to and from slabs of other hosts then use directly: each segment or read
 * of 64 KiB or more that lies wholly in one registration, of at most 8 registrations a transfer.
 * All else goes through buffers of the library, which cost a copy, as does what UCX cannot
 * register (ulimit -l). UCX registers it when it is first used so, and once. Within a host it
 * changes nothing: bytes are copied between the memory and the slab at once.
 *
 * The memory must stay mapped until it is deregistered. It may be registered before or after a
 * store is opened, more than once, and in parts that overlap.
 * SY_E_INVALID, SY_E_SYS, SY_E_FATAL (a fork child). */
SY_API sy_status sy_endpoint_register(sy_endpoint *endpoint, void *addr, size_t bytes,
                                      sy_error *err);
/* Undoes one register of the same memory, whose calls have returned.
 * SY_E_TRANSFER with err->in_flight: a transfer that was given up may still read or write it. It
 * stays registered and must stay mapped; ask again, for it mostly takes milliseconds. Until then
 * no transfer takes what a READ may still write: SY_E_TRANSFER.
 * SY_E_INVALID: it is not registered; SY_E_FATAL (a fork child). */
SY_API sy_status sy_endpoint_deregister(sy_endpoint *endpoint, void *addr, size_t bytes,
                                        sy_error *err);

typedef struct sy_store sy_store;

typedef struct sy_store_options {
	sy_endpoint *endpoint;      /* borrowed, outlives the store; NULL: one of its own */
	const char *run_dir;        /* or directory, as in sy_client_options */
	const char *directory;
	const char *keys;           /* as in sy_client_options */
	const char *name_space;
	uint64_t timeout_ns, control_timeout_ns;
	sy_control control;         /* as in sy_client_options, as are the three below */
	sy_path path;
	sy_policy policy;
	uint64_t graveyard_max_bytes;
	bool ssd;
	/* If given, held around every use of endpoint. */
	void (*lock)(void *context);
	void (*unlock)(void *context);
	void *lock_context;
	bool (*interrupted)(void *context); /* as in sy_client_options */
	void *interrupted_context;
} sy_store_options;

/* Fetches the unit list at once. */
SY_API sy_status sy_store_open(const sy_store_options *options, sy_store **ret_store,
                               sy_error *err);
SY_API void sy_store_close(sy_store *store);
SY_API uint32_t sy_store_unit_count(const sy_store *store);

typedef struct sy_segment {
	const void *addr;
	uint64_t blob_offset;
	uint64_t nbytes;
} sy_segment;

typedef struct sy_store_blob {
	const sy_segment *segments; /* together the blob: its index first (index.h) */
	size_t segment_count;
	uint64_t nbytes;
	uint32_t entry_count;
	uint32_t unit_id;
	sy_blob_id blob_id;
} sy_store_blob;

/* A random id. */
SY_API void sy_blob_id_new(sy_blob_id *ret_id);

/* alloc, one WRITE of all segments, flush, commit. SY_E_UNIT_FULL, SY_E_TRANSFER_FAILED,
 * SY_E_TIMEOUT (also while Busy). */
SY_API sy_status sy_store_put_segments(sy_store *store, const sy_store_blob *blob,
                                       uint64_t deadline_ns, sy_error *err);

/* Many blobs: all units at once, those of a unit one after the other, and no unit waits for
 * another one; then once more those that failed and may be tried again; a blob whose commit came
 * to no answer is never allocated again in the call. After trying all it fails with the first of
 * Fatal, UnitFull, Timeout, TransferFailed; err->indexes: every blob not known published. */
SY_API sy_status sy_store_put_many(sy_store *store, const sy_store_blob *blobs, size_t blob_count,
                                   uint64_t deadline_ns, sy_error *err);

/* Whether a blob of this store's newest 4,096 puts is published: asks again for a commit that
 * came to no answer (or "pending"). *ret_published is false if the unit no longer knows the blob,
 * which was aborted then, or if the incarnation that had it is gone. SY_E_INVALID (no such put is
 * known), SY_E_TRANSFER_FAILED, SY_E_TIMEOUT. */
SY_API sy_status sy_store_commit(sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                                 uint64_t deadline_ns, bool *ret_published, sy_error *err);

/* Keys of one unit to resolve. */
typedef struct sy_unit_keys {
	uint32_t unit_id;
	const sy_key *keys;
	size_t key_count;
} sy_unit_keys;

typedef struct sy_located {
	bool found;
	uint64_t slab_offset, nbytes;
	uint64_t dim0;
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
} sy_located;

/* Where keys of several units lie, pinned until sy_resolved_keys_free (which unpins, never
 * fails, NULL is a no-op) or, if it is not being read, read_pin_s after the resolve. */
typedef struct sy_resolved_keys sy_resolved_keys;

/* Sent to all units before any reply is read; a failure unpins those that resolved.
 * SY_E_LOST / SY_E_TRANSFER_FAILED (err->indexes: positions over all keys, unit by unit),
 * SY_E_TIMEOUT. */
SY_API sy_status sy_store_resolve_keys(sy_store *store, const sy_unit_keys *units,
                                       size_t unit_count, uint64_t deadline_ns,
                                       sy_resolved_keys **ret_resolved, sy_error *err);
SY_API void sy_resolved_keys_free(sy_resolved_keys *resolved);
SY_API uint64_t sy_resolved_incarnation(const sy_resolved_keys *resolved, size_t unit);
/* key counts within its unit's keys. */
SY_API bool sy_resolved_at(const sy_resolved_keys *resolved, size_t unit, size_t key,
                           sy_located *ret_located);

typedef struct sy_read {
	uint32_t unit_id;
	uint64_t slab_offset, nbytes;
	void *addr;
} sy_read;

/* One READ a unit, of reads that follow each other. Each range must lie inside an entry of a
 * resolve of this store that is still held. Where the connection to the unit has ended the
 * directory is asked what became of it, and nothing is read before it answered; else nobody is.
 * SY_E_STALE_READ (none covers it, the pin was outlived, or the unit has another incarnation that
 * lives), SY_E_LOST (the unit is dead and none came in its place), SY_E_TRANSFER_FAILED (also: the
 * directory cannot be asked), SY_E_TIMEOUT; err->indexes: positions in reads. */
SY_API sy_status sy_store_read_entries(sy_store *store, const sy_read *reads, size_t read_count,
                                       uint64_t deadline_ns, sy_error *err);

typedef struct sy_unit_rows {
	uint32_t unit_id;
	const uint64_t *rows;
	size_t row_count;
} sy_unit_rows;

/* Whole rows, all units at once, idempotent; rows of a dead unit are gone already. */
SY_API sy_status sy_store_release_rows(sy_store *store, const sy_unit_rows *units,
                                       size_t unit_count, uint64_t deadline_ns, sy_error *err);

/* True if the directory says that the incarnation this store used last is dead (false also if
 * the directory does not answer in time). */
SY_API bool sy_store_unit_dead(sy_store *store, uint32_t unit_id, uint64_t deadline_ns);
/* Connects to a unit and learns its slab, which the first operation on it does otherwise.
 * SY_E_LOST (no such unit, or it is dead by the directory's word), SY_E_TRANSFER_FAILED,
 * SY_E_TIMEOUT. */
SY_API sy_status sy_store_connect(sy_store *store, uint32_t unit_id, uint64_t deadline_ns,
                                  sy_error *err);
/* One transfer between memory of the caller's and the slab of a connected unit: blob_offset is
 * an offset in the slab here. Nothing looks whether the bytes are granted or pinned, as
 * put_segments and read_entries do, and the store's lock is not taken: it is for frameworks that
 * know both themselves. SY_E_TRANSFER (not connected, outside the slab, or the deadline;
 * err->in_flight). */
SY_API sy_status sy_store_transfer(sy_store *store, uint32_t unit_id, bool write,
                                   const sy_segment *local, size_t count, uint64_t deadline_ns,
                                   sy_error *err);
/* Fetches the unit list anew. */
SY_API sy_status sy_store_refresh_units(sy_store *store, uint64_t deadline_ns, sy_error *err);

#ifdef __cplusplus
}
#endif
#endif
