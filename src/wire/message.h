/* Control messages: msgpack bytes to and from typed structs. Pure; limits everywhere.
 *
 *   request  [op, request_id bin20, args, [first_notice, notices]]
 *   reply    [request_id bin20, ok, result | error, notices_done, unit_now_ns]
 *   notices  bin, 22 bytes each: kind u8, in_flight u8, name (a request id)
 *   error    {kind: "Busy" ..., msg, reason: of Busy, why: number, of Protocol,
 *             resource, need, free, hole: of UnitFull}
 *
 *   hello         [version, slot_count, ns, boot_id bin16, start_time, random, pid,
 *                  connection_count, token]
 *              -> [session, incarnation, slab_bytes, unit_id, slot_count, read_pin_ns,
 *                  heartbeat_ns, session_expire_ns, eager_max_bytes, inline_max_bytes,
 *                  max_keys, max_entries, max_message_bytes, transports, ucx_address,
 *                  grant_max_bytes]
 *   alloc         [blob_id bin16, nbytes, entry_count, until_ns, ssd]
 *              -> [answer, offset, generation] of a region, else [answer]
 *   commit        [blob_id, generation, until_ns, next_bytes, grant bin20 | nil, nbytes,
 *                  entry_count]
 *              -> [answer], or [answer, offset, generation] of a region granted for the next put
 *   put_inline    [blob bin, blob_id, until_ns, ssd] -> [answer]
 *   resolve_keys  [[field...], rows bin u64, field_of bin u16 | nil, inline_max]
 *              -> [found u8, dtype u8, kind u8, offset u64, nbytes u64, generation u64,
 *                  dim0 u64, tail u24, shapes, inline], each a bin
 *   release_rows  [rows bin u64, [field...] | nil: all] -> [count]
 *   pin_check     [names bin20 each] -> [held bin u8]
 *   heartbeat     [] -> [unit state]
 *   scan          [cursor, first_row, last_row, [field...], limit]
 *              -> [cursor, [[row, field, dtype, kind, nbytes, dim0, shape bin]...]]
 *   info          [] -> [unit state]
 *   stats         [] -> {"state", "capacity_bytes", "bytes.<state>", "<count>": number}
 *
 * A shape on the wire is its rank u8 and rank - 1 (none for rank 0) trailing dims, u64 each. Of
 * stats, names that are not known are skipped and those missing read as 0, so that it can grow;
 * everything else has exactly the parts above. A hello of another version is decoded as far as
 * its version.
 *
 * Arrays of numbers travel as little-endian bin. A decoder trusts nothing: depth, lengths and
 * counts are bounded, and memory comes from the scratch its caller lends. */
#ifndef SY_MESSAGE_H
#define SY_MESSAGE_H

#include "buf.h"
#include "proto.h"
#include "scratch.h"

enum { SY_MESSAGE_MAX_BYTES = 4 << 20, SY_MESSAGE_INLINE_TOTAL_BYTES = 1 << 20 };

struct sy_hello_args {
	uint32_t version, slot_count;
	struct sy_span ns;
	struct sy_identity identity;
	uint64_t connection_count;
	uint64_t token; /* of the local socket; 0: none */
};

struct sy_alloc_args {
	sy_blob_id blob_id;
	uint64_t nbytes, until_ns;
	uint32_t entry_count;
	bool ssd;
};

struct sy_commit_args {
	sy_blob_id blob_id;
	uint64_t generation, until_ns;
	uint64_t next_bytes; /* of a region wanted for the next put; 0: none */
	/* Of a put in a region that an earlier commit granted: that commit; session 0: of another. */
	struct sy_request_id grant;
	uint64_t nbytes;
	uint32_t entry_count;
};

struct sy_put_inline_args {
	sy_blob_id blob_id;
	struct sy_span blob; /* its whole bytes */
	uint64_t until_ns;
	bool ssd;
};

struct sy_resolve_args {
	const uint64_t *rows;
	const struct sy_span *fields;
	const uint16_t *field_of; /* a key: key k is (rows[k], fields[field_of[k]]), row_count keys;
	                           * NULL: rows x fields, row-major, row_count * field_count keys */
	uint32_t row_count, field_count;
	uint32_t inline_max_bytes;
};

struct sy_release_args {
	const uint64_t *rows;
	const struct sy_span *fields;
	uint32_t row_count, field_count;
	bool all_fields;
};

struct sy_pin_check_args {
	const struct sy_request_id *names;
	uint32_t count;
};

struct sy_scan_args {
	uint64_t cursor, first_row, last_row;
	const struct sy_span *fields; /* field_count 0: every field */
	uint32_t field_count, limit;
};

struct sy_request {
	enum sy_op op;
	struct sy_request_id id;
	uint64_t first_notice;
	const struct sy_notice *notices;
	uint32_t notice_count;
	union {
		struct sy_hello_args hello;
		struct sy_alloc_args alloc;
		struct sy_commit_args commit;
		struct sy_put_inline_args put_inline;
		struct sy_resolve_args resolve;
		struct sy_release_args release;
		struct sy_pin_check_args pin_check;
		struct sy_scan_args scan;
	};
};

enum { SY_TRANSPORT_SHM = 1, SY_TRANSPORT_UCX = 2 };
enum { SY_HELLO_ADDRESS_BYTES = 64 };

struct sy_hello_result {
	uint64_t session, incarnation, slab_bytes;
	uint32_t unit_id, slot_count;
	uint64_t read_pin_ns, heartbeat_ns, session_expire_ns;
	uint32_t eager_max_bytes, inline_max_bytes;
	uint32_t max_keys, max_entries, max_message_bytes;
	uint32_t transports; /* SY_TRANSPORT_* this session may use */
	char ucx_address[SY_HELLO_ADDRESS_BYTES]; /* where UCX connects to: "10.0.0.1:4791"; or "" */
	uint64_t grant_max_bytes; /* of a region granted for the next put; 0: none is */
};

struct sy_scan_entry {
	uint64_t row, nbytes, dim0;
	struct sy_span field;
	sy_shape shape;
	uint8_t dtype, kind;
};

struct sy_reply {
	struct sy_request_id id;
	struct sy_outcome outcome; /* op is not on the wire: the receiver knows it by id */
	uint64_t notices_done, unit_now_ns;
	/* bulk results, by op; unused ones are zero */
	struct sy_hello_result hello;
	struct sy_resolved resolved; /* arrays in the scratch on decode */
	uint32_t key_count;
	uint32_t row_keys; /* of an answer to rows times fields: how many a row has; else 0 */
	struct sy_span inline_bytes; /* of resolved: all inline values, each at its offset */
	const uint8_t *held;         /* of pin_check: 1 or 0 each */
	uint32_t held_count;
	const struct sy_scan_entry *scan;
	uint32_t scan_count;
	uint64_t scan_cursor;
	enum sy_unit_state unit_state; /* of heartbeat, info, stats */
	struct sy_unit_stats stats;    /* of stats */
	char reason[64];               /* text of an error's msg, as received */
};

/* At most so many bytes does the encoded request take. One over SY_MESSAGE_MAX_BYTES is never
 * sent: a client splits the rows of a resolve or release, or the fields where those alone are
 * too long (names of 1,024 bytes: 4,000 a message), or sends a blob by alloc and commit. */
size_t sy_request_bytes(const struct sy_request *request);

/* Appends the message to buf; buf->failed says that memory was short or the message would be
 * over SY_MESSAGE_MAX_BYTES, and what buf holds is then of no use. A request fails by the second
 * exactly where sy_request_bytes is over it; a reply within the limits of proto.h with at most
 * SY_MESSAGE_INLINE_TOTAL_BYTES of inline bytes never does. */
void sy_request_encode(const struct sy_request *request, struct sy_buf *buf);
void sy_reply_encode(const struct sy_reply *reply, enum sy_op op, struct sy_buf *buf);

/* The result points into `message` and the scratch. SY_E_PROTOCOL: not one of ours, or over a
 * limit; *ret_id is then set if the request id could be read, else all zero. */
sy_status sy_request_decode(const void *message, size_t bytes, struct sy_scratch *scratch,
                            struct sy_request *ret_request, struct sy_request_id *ret_id,
                            sy_error *err);

/* Reads the id alone, so that the receiver finds the request and with it the op. */
sy_status sy_reply_peek(const void *message, size_t bytes, struct sy_request_id *ret_id,
                        sy_error *err);
/* The reply to an `op` about `key_count` keys: of resolve_keys its keys, of pin_check its names,
 * of scan its limit; else of no matter. Every array has exactly that many items (a scan at most),
 * every found, kind, dtype, shape and length fits the others, inline values lie within
 * inline_bytes. Every tail names a shape: a last one, of rank 0, is added for keys that are absent
 * or no tensor. Offsets against the slab are the caller's to check. Sets outcome.op, and
 * outcome.count to the session of a hello. Points into `message` and the scratch, at most
 * SY_SCRATCH_BYTES of it. Fails with SY_E_PROTOCOL. */
sy_status sy_reply_decode(const void *message, size_t bytes, enum sy_op op, uint32_t key_count,
                          struct sy_scratch *scratch, struct sy_reply *ret_reply, sy_error *err);

#endif
