/* What the checkers know: every put with its bytes, and of each incarnation what may be seen
 * there now.
 *
 * A put takes effect when its commit is accepted, a release when it is; both are seen in the
 * step in which it happens, so that all later answers have one right value, except for keys
 * that a release under way is clearing: they may be there or gone. */
#ifndef SIM_SHADOW_H
#define SIM_SHADOW_H

#include "core.h"
#include "message.h"
#include "sim_config.h"

struct sim;
struct sim_life;

/* One key of a put. */
struct sim_value {
	uint32_t row, field; /* positions */
	uint64_t offset, nbytes, dim0; /* in the blob */
	uint8_t dtype, kind;
	sy_shape shape;
};

enum sim_told {
	SIM_TOLD_NOTHING = 0,
	SIM_TOLD_OK,
	SIM_TOLD_FAILED,  /* it is not published, and never will be */
	SIM_TOLD_UNKNOWN, /* it may be */
};

/* One blob: what a client means to store. It may be tried several times under one id. */
struct sim_put {
	uint64_t number;
	sy_blob_id id;
	uint32_t slot, space, client;
	uint64_t client_life;
	uint8_t *image;   /* the whole blob */
	uint64_t nbytes, asked_bytes; /* of the blob; of the region asked for, which may be larger */
	struct sim_value *values;
	uint32_t value_count;
	bool ssd;         /* it may wait for the disk */
	bool scribbled;   /* its client spoilt its bytes, or what it said of them */
	bool miscounted;  /* allocated for one entry more than come */
	enum sim_told told;
	bool maybe;       /* an earlier try came to no answer */
	uint64_t deadline_ns;  /* of the newest try, on the world's clock */
	uint64_t generation, incarnation; /* of the newest reservation its client knows */
	uint32_t tries;        /* times its client asked for it to be stored */
	/* what became of it */
	uint32_t accepted_count; /* by accepted_life */
	uint64_t accepted_order, accepted_life, accepted_generation;
	uint64_t published_life;       /* it was seen there */
	uint64_t lost_life;            /* its disk lost it there */
	uint64_t shown_order;          /* and when: if it was pending, later than its own place */
};

struct sim_puts {
	struct sim_put **items; /* by number - 1 */
	size_t capacity;
};

/* One grant of a region. */
struct sim_grant {
	struct sim_put *put; /* NULL: of nobody known */
	struct sy_request_id name; /* of its alloc; all zero: of a put_inline */
	uint64_t offset, nbytes;
	uint64_t at;         /* of a copy: where in the blob it begins */
	uint32_t blob;
	bool open;           /* not accepted and not gone */
};

struct sim_key {
	struct sim_put *value;       /* NULL: absent */
	struct sim_put *leaving;     /* being cleared: there or gone */
	struct sim_release *by;      /* by whom */
	uint64_t acked_order;        /* newest release that was acknowledged */
	uint64_t newest_order;       /* of the newest put that was ever seen here */
};

struct sim_release {
	struct sim_release *next;
	struct sy_request_id id;
	uint64_t order;
	uint32_t space, row_count;
	bool acked;
	uint64_t rows;               /* bit mask of positions */
	uint64_t fields;
};

/* One request as the unit got it, for what its reply must be. */
struct sim_request {
	struct sim_request *next;    /* chain of the hash */
	struct sy_request_id id;
	enum sy_op op;
	uint8_t *bytes;              /* resolve, release, scan: the message */
	size_t bytes_count;
	struct sim_put *put;
	uint64_t generation;         /* of the region it was given */
	uint64_t ran_ns;             /* a resolve: when */
	uint64_t first_order;        /* a scan: accepted when it ran first */
	bool ran, given_up;
	uint64_t key_count;
	struct sim_range_seen *seen; /* a resolve: what it was told, in order of keys */
	struct sim_release *release;
};

struct sim_range_seen {
	const struct sim_put *put;     /* NULL: absent */
	const struct sim_value *value;
	uint64_t generation;
	bool inlined;
	bool lost;                     /* there, but the disk has no bytes of it any more */
};

/* A session as its unit made it. */
struct sim_session {
	uint64_t number, client_life, notices_done;
	uint64_t gone_ns;            /* when its client was first seen gone; 0: not yet */
	uint64_t heard_ns;           /* when its last message came, late or not: its lease counts so */
	bool local;
	uint32_t client;             /* UINT32_MAX: the stranger */
	uint32_t space;
	bool fenced;                 /* its writer posts nothing any more */
	uint64_t highest_seq[SY_SLOT_COUNT]; /* that ran or was given up */
};

/* Something held that its client does not know of. */
struct sim_orphan {
	struct sy_request_id name;
	uint64_t since_ns, seen;
};

struct sim_shadow {
	uint64_t *line_generation; /* of each 64 bytes: its newest grant */
	uint64_t line_count;
	struct sim_grant *grants;  /* by generation */
	uint64_t grant_count, grant_capacity;
	uint64_t *open;            /* generations of grants that are open */
	size_t open_count, open_capacity;
	uint64_t pending[64];      /* generations of puts accepted and not yet seen */
	size_t pending_count;
	struct sim_key keys[SIM_SPACES][SIM_ROWS_MAX][SIM_FIELDS_MAX];
	uint32_t leaving_count;
	uint64_t order;            /* accepted commits and releases so far */
	uint64_t accept_seq_seen, generation_seen;
	struct sim_release *releases;
	struct sim_request *requests[512];
	struct sim_session *sessions;
	size_t session_count, session_capacity;
	struct sim_orphan orphans[64];
	size_t orphan_count;
	uint64_t looks;
	uint32_t parked_seen;      /* places for parked requests that were ever used */
	/* the message being given to the unit */
	struct sim_request *current; /* NULL: none, or a hello */
	struct sy_request wire;
	bool session_lived;          /* the session of the message was live before it */
	struct sy_request_id strange[SY_NOTICES_PER_MESSAGE]; /* others' that its notices name */
	size_t strange_count;
};

struct sim_shadow *sim_shadow_new(const struct sim_life *life);
void sim_shadow_free(struct sim_shadow *shadow);
struct sim_session *sim_shadow_session(struct sim_life *life, uint64_t number);
struct sim_request *sim_shadow_request(struct sim_shadow *shadow, struct sy_request_id id);
/* The value of a put under a key, or NULL. */
const struct sim_value *sim_put_value(const struct sim_put *put, uint32_t row, uint32_t field);

/* Before a message is given to the unit, after each of its steps, and for each of its replies. */
void sim_shadow_before(struct sim_life *life, uint64_t route, const void *bytes, size_t count);
void sim_shadow_step(struct sim_life *life);
void sim_shadow_reply(struct sim_life *life, uint64_t route, const void *bytes, size_t count);
void sim_shadow_after(struct sim_life *life);

/* sim_put.c */
struct sim_put *sim_put_new(struct sim *sim, uint32_t client, uint32_t slot, bool small);
struct sim_put *sim_put_find(struct sim *sim, const sy_blob_id *id); /* NULL: none of ours */
void sim_puts_free(struct sim_puts *puts, uint64_t count);
/* Names, and back; SIM_FIELDS_MAX for none. */
struct sy_span sim_field(uint32_t field);
uint32_t sim_field_at(struct sy_span name);
struct sy_span sim_space(uint32_t space);
uint64_t sim_row(const struct sim *sim, uint32_t slot, uint32_t row);
uint32_t sim_row_at(const struct sim *sim, uint32_t slot, uint64_t row); /* UINT32_MAX: none */

#endif
