/* The client: rows, fields and columns of a cluster.
 *
 * Every call may be made from many threads at once, and any number of processes may open
 * clients of one cluster. Deadlines are CLOCK_MONOTONIC nanoseconds (sy_deadline_after makes
 * one); 0 means now plus the client's timeout, which caps each. Calls return by their deadline
 * plus 100 ms. On failure outputs are untouched unless said otherwise. After fork the child's
 * calls fail with SY_E_FATAL and its touch of a view is a fault (SIGSEGV); the parent goes on. */
#ifndef SLABYARD_CLIENT_H
#define SLABYARD_CLIENT_H

#include <slabyard/index.h>
#include <slabyard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sy_client sy_client;

/* What carries the control messages to units of this host (those of other hosts: ZeroMQ). */
typedef enum sy_control {
	SY_CONTROL_AUTO = 0, /* shared memory where the unit takes it, or else ZeroMQ */
	SY_CONTROL_ZMQ,
	SY_CONTROL_LOCAL, /* shared memory; a unit that does not take it is no unit */
} sy_control;

/* What carries the bytes of values between this process and slabs of units. Where AUTO leaves it
 * open, SLABYARD_TRANSPORT in the environment (shm, ucx) decides; SLABYARD_POLICY likewise. */
typedef enum sy_path {
	SY_PATH_AUTO = 0, /* shared memory with units of this host whose socket is seen, else UCX */
	SY_PATH_SHM,
	SY_PATH_UCX,
} sy_path;

/* What UCX may use. */
typedef enum sy_policy {
	SY_POLICY_DEFAULT = 0, /* of a client: rdma; of a unit: same-host */
	SY_POLICY_SAME_HOST,   /* nothing: it is not even started */
	SY_POLICY_RDMA,        /* bytes leave the host over RDMA or not at all; UCX_TLS must say so */
	SY_POLICY_ALLOW_TCP,   /* for development */
} sy_policy;

/* Zero means the default. Strings are copied. */
typedef struct sy_client_options {
	const char *run_dir;        /* of the cluster on this host; or directory */
	const char *directory;      /* ipc://... or tcp://host:port */
	const char *keys;           /* the folder of client.key, where tcp asks for keys; or NULL */
	const char *name_space;     /* NULL: "default" */
	uint64_t timeout_ns;        /* cap of an operation; 120 s */
	uint64_t control_timeout_ns; /* one wait for a reply; 30 s */
	sy_control control;
	sy_path path;
	sy_policy policy;
	uint64_t graveyard_max_bytes; /* of transfers that never ended; past it all calls fail with
	                               * SY_E_FATAL; 4 GiB */
	bool ssd;                   /* puts may wait for room on a unit's SSD tier */
	/* If given, a call that waits asks it ten times a second, from the calling thread and with no
	 * lock held; true ends the call at once as if its deadline had come: SY_E_TIMEOUT. So a
	 * program that gets a signal can leave a call. */
	bool (*interrupted)(void *context);
	void *interrupted_context;
} sy_client_options;

/* Connects to the directory and learns the units; a unit's slab is mapped at first use.
 * SY_E_INVALID, SY_E_TIMEOUT (no directory answers), SY_E_AUTH, SY_E_SYS (no cluster has this run
 * directory, and others). */
SY_API sy_status sy_client_open(const sy_client_options *options, sy_client **ret_client,
                                sy_error *err);
/* Refuses new calls, waits at most the timeout for running ones, never for views, which stay
 * valid until released. Call once; NULL is a no-op. */
SY_API void sy_client_close(sy_client *client);

/* The deadline that lies so many nanoseconds ahead, as calls take it; thread-safe. */
SY_API uint64_t sy_deadline_after(uint64_t ns);
SY_API uint32_t sy_client_unit_count(const sy_client *client); /* N */
/* The unit that a running call has waited for longest, and for how long; false: none waits. It
 * may be asked from `interrupted`, so that a program can say what it waits for. */
SY_API bool sy_client_awaits(sy_client *client, uint32_t *ret_unit_id, uint64_t *ret_wait_ns);

/* One value as it is put or was got. Of a tensor rank and dims hold its whole shape; of other
 * kinds rank is 0. Values to put are borrowed for the call. */
typedef struct sy_value {
	const void *data;
	uint64_t nbytes;
	sy_dtype dtype;
	sy_kind kind;
	uint32_t rank;
	uint64_t dims[SY_RANK_MAX];
} sy_value;

/* A key: row and field (UTF-8, 1..1024 bytes, no NUL inside). */
typedef struct sy_key {
	uint64_t row;
	const char *field;
	size_t field_bytes;
} sy_key;

/* "12@prompt" to a key whose field points into text. SY_E_INVALID. */
SY_API sy_status sy_key_from_text(const char *text, size_t text_bytes, sy_key *ret_key,
                                  sy_error *err);

/* Puts count values. A key twice is SY_E_INVALID. Rows go to unit row % N; what goes to one
 * unit is split into blobs by whole rows, each published whole; the put as a whole is not
 * atomic. On failure err->indexes name the keys not known to be published.
 * SY_E_UNIT_FULL, SY_E_TRANSFER_FAILED, SY_E_TIMEOUT, SY_E_FATAL. */
SY_API sy_status sy_client_put(sy_client *client, const sy_key *keys, const sy_value *values,
                               size_t count, uint64_t deadline_ns, sy_error *err);

/* What a get returned: owns its memory until sy_result_free; may outlive the client. */
typedef struct sy_result sy_result;

enum {
	SY_GET_COPY = 0,
	SY_GET_VIEW = 1, /* values point into the slab, mapped read-only and pinned until
	                  * sy_result_free; where one is on another host, which cannot be looked into,
	                  * all are copied */
};

/* Gets count keys; keys that the unit does not have are not an error: sy_result_value says so.
 * A key asked twice is answered twice. All fields of one row come from one state of that row.
 * SY_E_LOST (err->indexes: keys of dead units, and keys whose values the disk tier of a unit that
 * lives has lost, which stay so until they are put or cleared), SY_E_TRANSFER_FAILED,
 * SY_E_TIMEOUT. */
SY_API sy_status sy_client_get(sy_client *client, const sy_key *keys, size_t count, int flags,
                               uint64_t deadline_ns, sy_result **ret_result, sy_error *err);

/* As many as keys were asked, found or not. */
SY_API size_t sy_result_count(const sy_result *result);
/* The i-th key's value, borrowed until sy_result_free; false: absent (a found value may be
 * empty). */
SY_API bool sy_result_value(const sy_result *result, size_t i, sy_value *ret_value);
SY_API void sy_result_free(sy_result *result);

/* Removes whole rows, or only these fields of them (field_count 0: all). Idempotent; rows of a
 * dead unit are gone already. After it returns no get finds them unless put again.
 * SY_E_TRANSFER_FAILED, SY_E_TIMEOUT. */
SY_API sy_status sy_client_clear(sy_client *client, const uint64_t *rows, size_t row_count,
                                 const char *const *fields, size_t field_count,
                                 uint64_t deadline_ns, uint64_t *ret_entries, sy_error *err);

/* One column of a batch to put: n rows, in the order of the batch's rows.
 * dense:  offsets NULL; row k's bytes are data + k * stride_bytes, row_bytes long
 * jagged: offsets has n + 1 byte offsets into data; row k is offsets[k] .. offsets[k + 1]
 * listed: values has n values, each with a dtype, kind and shape of its own; all that follows
 *         the field's name is not read then
 * The shape's tail is that of one row: a dense column of row shape (d0, t...) has rank 1 + tail
 * rank and row_bytes = d0 * unit; scalars have rank 0. */
typedef struct sy_put_column {
	const char *field;
	size_t field_bytes;
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
	const void *data;
	uint64_t row_bytes, stride_bytes;
	const uint64_t *offsets;
	const sy_value *values;
} sy_put_column;

/* Puts columns x rows (rows distinct, any order). Failure as sy_client_put; err->indexes are
 * positions in rows. */
SY_API sy_status sy_client_put_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                                       const sy_put_column *columns, size_t column_count,
                                       uint64_t deadline_ns, sy_error *err);

/* One column of a batch that was got, jagged in general: row k's bytes are data + offsets[k] ..
 * data + offsets[k + 1], side by side without gaps; found[k] is 0 for an absent one (empty
 * range). dtype, kind and shape are those of all found rows; if rows differ in them `mixed` is
 * true and each row's are in values (sy_result_value with index column * row_count + k). dense:
 * all rows found, of equal length. Arrays are borrowed until sy_result_free. */
typedef struct sy_got_column {
	const void *data;
	const uint64_t *offsets; /* row_count + 1 */
	const uint8_t *found;    /* row_count */
	const uint64_t *dim0;    /* row_count */
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
	size_t found_count;
	bool dense, mixed;
} sy_got_column;

/* Gets columns x rows into memory of the result. Errors as sy_client_get; err->indexes are
 * positions in rows. */
SY_API sy_status sy_client_get_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                                       const char *const *fields, size_t field_count, int flags,
                                       uint64_t deadline_ns, sy_result **ret_result,
                                       sy_error *err);
SY_API bool sy_result_column(const sy_result *result, size_t column, sy_got_column *ret_column);

/* Walks the entries of all units: for ls and dump. Entries come unit by unit, in no order;
 * each entry that stands during the whole walk comes once. */
typedef struct sy_scan_info {
	uint64_t row, nbytes, dim0;
	const char *field; /* borrowed during the callback */
	size_t field_bytes;
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
} sy_scan_info;

/* Calls visit for every entry with first_row <= row <= last_row; a false from it stops. */
SY_API sy_status sy_client_scan(sy_client *client, uint64_t first_row, uint64_t last_row,
                                bool (*visit)(void *context, const sy_scan_info *info),
                                void *context, uint64_t deadline_ns, sy_error *err);

/* Numbers of one unit, as name and value pairs; state as text. Static strings. */
typedef struct sy_stat {
	const char *name;
	uint64_t value;
} sy_stat;

enum { SY_STATS_MAX = 64 };

typedef struct sy_unit_report {
	uint32_t unit_id;
	uint32_t starts; /* incarnations that the slot has had: one less, and it was restarted */
	uint64_t incarnation;
	uint64_t pid;
	uint64_t capacity_bytes;
	char state[16];  /* of the directory: active, suspect, draining, dead, none */
	bool answered;   /* false: the stats below are empty, message says why */
	char message[128];
	sy_stat bytes[SY_STATS_MAX]; /* by state, they sum to capacity_bytes */
	sy_stat counts[SY_STATS_MAX];
	size_t byte_count, count_count;
} sy_unit_report;

/* Asks every unit at once; units that do not answer in time (2 s where no deadline is given) are
 * reported as such, which is no failure. reports holds sy_client_unit_count items. */
SY_API sy_status sy_client_reports(sy_client *client, uint64_t deadline_ns,
                                   sy_unit_report *reports, sy_error *err);

#ifdef __cplusplus
}
#endif
#endif
