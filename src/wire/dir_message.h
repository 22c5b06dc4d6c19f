/* Messages of the directory: msgpack bytes to and from typed structs. Pure; limits everywhere.
 *
 *   request  [op, request_id, args]
 *   reply    [request_id, true, result] or [request_id, false, [fault, message]]
 *   unit     [unit_id, state, draining, starts, incarnation, turn, epoch, boot_id bin16, pid,
 *             start_time, slab_bytes, ipc_address, tcp_address, local_path]
 *   times    [suspect_after_ns, fence_after_ns, dead_after_ns]
 *
 *   op         args                              result
 *   register   unit                              [epoch]
 *   renew      [unit_id, incarnation]            [epoch, state]
 *   exited     [unit_id, incarnation]            [epoch]
 *   set_state  [unit_id, incarnation, state]     [epoch]
 *   units      [min_epoch]                       [epoch, N, [unit...], times]
 *   epoch      []                                [epoch]
 *   stats      []                                [epoch, N, [number...]] */
#ifndef SY_DIR_MESSAGE_H
#define SY_DIR_MESSAGE_H

#include "buf.h"
#include "proto.h"

enum {
	SY_UNITS_MAX = 1024,          /* N at most */
	SY_UNIT_ADDRESS_BYTES = 128,  /* with the NUL */
	SY_DIR_FAULT_TEXT_BYTES = SY_ERROR_MESSAGE_BYTES,
	SY_DIR_REQUEST_MAX_BYTES = 4096,
	SY_DIR_REPLY_MAX_BYTES = 1 << 20,
};

/* A slot of the directory and the unit in it. Plain data. Text is NUL-terminated UTF-8 without
 * control characters, "" where there is none. */
struct sy_unit_info {
	uint32_t unit_id;         /* the slot */
	enum sy_unit_state state; /* NONE: nobody ever registered; the rest is then zero */
	uint32_t starts;          /* incarnations that this slot has had; a register's is not read */
	bool draining;            /* it was asked to drain: what it is when it is not SUSPECT */
	uint64_t incarnation;     /* of who registered last; never 0 then */
	uint64_t turn;            /* see registry.h; a register carries the one it read */
	uint64_t epoch;           /* of the slot's last change */
	uint8_t boot_id[16];      /* of its host */
	uint32_t pid;
	uint64_t start_time;      /* of the process, clock ticks since boot */
	uint64_t slab_bytes;
	char ipc_address[SY_UNIT_ADDRESS_BYTES]; /* "ipc://..." */
	char tcp_address[SY_UNIT_ADDRESS_BYTES]; /* "tcp://host:port" */
	char local_path[SY_UNIT_ADDRESS_BYTES];  /* of the local socket */
};

/* How long a unit may be silent; they rise. All zero: units hold no lease, whoever started them
 * says when one ends. Told by the directory, and fixed for the cluster's life. */
struct sy_dir_times {
	uint64_t suspect_after_ns; /* without a renewal it is SUSPECT */
	uint64_t fence_after_ns;   /* without an answered one it answers nobody, of itself */
	uint64_t dead_after_ns;    /* without a renewal it is DEAD */
};

/* NULL if they are all zero or rise, else a static phrase that says what is wrong. */
const char *sy_dir_times_fault(const struct sy_dir_times *times);
bool sy_dir_times_lease(const struct sy_dir_times *times); /* false: all zero */

/* X(name, value, text) */
#define SY_DIR_OP_LIST(X) \
	X(SY_DIR_OP_REGISTER, 1, "register") \
	X(SY_DIR_OP_RENEW, 2, "renew") \
	X(SY_DIR_OP_EXITED, 3, "exited") \
	X(SY_DIR_OP_SET_STATE, 4, "set_state") \
	X(SY_DIR_OP_UNITS, 5, "units") \
	X(SY_DIR_OP_EPOCH, 6, "epoch") \
	X(SY_DIR_OP_STATS, 7, "stats")

enum sy_dir_op {
#define SY_DIR_OP_ENUM(name, value, text) name = value,
	SY_DIR_OP_LIST(SY_DIR_OP_ENUM)
#undef SY_DIR_OP_ENUM
};

/* Why the directory refused. X(name, value, text) */
#define SY_DIR_FAULT_LIST(X) \
	X(SY_DIR_FAULT_NONE, 0, "done") \
	X(SY_DIR_FAULT_MALFORMED, 1, "the request cannot be read") \
	X(SY_DIR_FAULT_NO_SLOT, 2, "the cluster has no such unit id") \
	X(SY_DIR_FAULT_HELD, 3, "the slot is held by a unit that is not dead") \
	X(SY_DIR_FAULT_BURIED, 4, "this incarnation is dead") \
	X(SY_DIR_FAULT_TURN, 5, "the slot has changed since it was read") \
	X(SY_DIR_FAULT_STATE, 6, "no unit can be put into that state") \
	X(SY_DIR_FAULT_STORE, 7, "the directory cannot write its state") \
	X(SY_DIR_FAULT_EMPTY, 8, "no unit ever registered in the slot")

enum sy_dir_fault {
#define SY_DIR_FAULT_ENUM(name, value, text) name = value,
	SY_DIR_FAULT_LIST(SY_DIR_FAULT_ENUM)
#undef SY_DIR_FAULT_ENUM
};

struct sy_dir_request {
	enum sy_dir_op op;
	uint64_t request_id;
	struct sy_unit_info unit; /* register: all of it; renew, exited, set_state: unit_id,
	                           * incarnation and, of set_state, state */
	uint64_t min_epoch;       /* units: slots that changed at this epoch or later; 0: all */
};

/* X(field): what the directory counted since its start. */
#define SY_DIR_STATS_LIST(X) \
	X(requests) \
	X(refused) \
	X(malformed) \
	X(registrations) \
	X(suspects) \
	X(deaths) \
	X(stores) \
	X(store_failures)

struct sy_dir_stats {
#define SY_DIR_STATS_FIELD(field) uint64_t field;
	SY_DIR_STATS_LIST(SY_DIR_STATS_FIELD)
#undef SY_DIR_STATS_FIELD
};

struct sy_dir_reply {
	uint64_t request_id;
	enum sy_dir_fault fault; /* NONE: what follows text is valid */
	char text[SY_DIR_FAULT_TEXT_BYTES]; /* of a fault: more than its name says; may be "" */
	uint64_t epoch;
	enum sy_unit_state unit_state; /* of renew: the unit's own */
	uint32_t slot_count;          /* N: of units and stats */
	struct sy_dir_times times;    /* of units */
	struct sy_unit_info *units;   /* of units: unit_count of them, lent */
	uint32_t unit_count;
	struct sy_dir_stats stats;
};

/* Static text; "unknown fault" for no such value. */
const char *sy_dir_fault_text(uint8_t fault);
/* "register" and so on; "unknown" for no such value. */
const char *sy_dir_op_name(uint8_t op);

/* NULL if the text may be an address or a path of a unit, else a static phrase that says what is
 * wrong. The text is NUL-terminated within SY_UNIT_ADDRESS_BYTES or at fault. */
const char *sy_unit_address_fault(const char *text);

/* Appends the message to buf; buf->failed says whether memory sufficed. */
void sy_dir_request_encode(const struct sy_dir_request *request, struct sy_buf *buf);
void sy_dir_reply_encode(const struct sy_dir_reply *reply, enum sy_dir_op op, struct sy_buf *buf);

/* Copies everything out of the message. SY_E_PROTOCOL: not one of ours, or over a limit;
 * *ret_request_id is then set if it could be read, else 0. */
sy_status sy_dir_request_decode(const void *message, size_t bytes,
                                struct sy_dir_request *ret_request, uint64_t *ret_request_id,
                                sy_error *err);

/* Reads the id alone, so that a late reply to another request is told apart. */
sy_status sy_dir_reply_peek(const void *message, size_t bytes, uint64_t *ret_request_id,
                            sy_error *err);
/* units: lent for the list, unit_capacity of them (NULL and 0 where op is not UNITS);
 * ret_reply->units points there. SY_E_PROTOCOL; units is undefined then. */
sy_status sy_dir_reply_decode(const void *message, size_t bytes, enum sy_dir_op op,
                              struct sy_unit_info *units, uint32_t unit_capacity,
                              struct sy_dir_reply *ret_reply, sy_error *err);

#endif
