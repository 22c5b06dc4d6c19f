/* The store: a hub, the puts it knows of, and the resolves that are held. */
#ifndef SY_STORE_INNER_H
#define SY_STORE_INNER_H

#include <pthread.h>
#include <slabyard/store.h>

#include "hub.h"
#include "lookup.h"

enum { SY_STORE_PUTS_MAX = 4096 };

/* A blob that was published, or whose commit came to no answer: what asking again needs. */
struct sy_store_known {
	sy_blob_id blob_id;
	uint32_t unit_id;
	bool published;
	uint64_t generation, incarnation;
};

struct sy_store {
	uint32_t refs; /* atomic: its owner's until the close, and each resolve's */
	uint32_t fork_count;
	struct sy_hub *hub; /* until the close */
	bool ssd;
	pthread_mutex_t lock; /* of what follows */
	struct sy_store_known known[SY_STORE_PUTS_MAX]; /* a ring: the oldest is forgotten */
	size_t known_count; /* that ever were */
	struct sy_resolved_keys *held; /* live resolves, newest first */
	/* the keeper's own */
	uint64_t ticked_ns;  /* when it called last */
	uint64_t stopped_ns; /* for which this process was stopped, not yet reckoned with */
};

/* One range of the slab that a live resolve lets be read. */
struct sy_held_range {
	uint64_t offset, end;
	size_t unit; /* index into units */
	const struct sy_call *call; /* of the lookup: the request that pinned it */
};

struct sy_held_unit {
	uint32_t unit_id;
	uint64_t incarnation;
	size_t first_key, key_count;
};

struct sy_resolved_keys {
	struct sy_store *store;  /* one reference */
	struct sy_lookup lookup; /* the answers */
	struct sy_held_unit *units;
	size_t unit_count;
	sy_located *keys; /* all units' keys, unit by unit */
	struct sy_held_range *ranges; /* ascending by (unit id, offset) */
	size_t range_count;
	uint32_t readers; /* reads under way: it is not unpinned under them */
	bool freed; /* by its owner, under its readers */
	bool held;  /* in the store's list: pinned, and covers reads */
	uint64_t since_ns;
	struct sy_resolved_keys *prev, *next;
};

/* NULL: none is given. */
struct sy_ucx_memories *sy_endpoint_memories(const sy_endpoint *endpoint);

void sy_store_unref(struct sy_store *store);
/* Gives back every held resolve and forgets it; its owner still frees it. */
void sy_store_let_all_go(struct sy_store *store);
/* Called by the hub's keeper. */
void sy_store_expire(void *store, uint64_t now_ns);
uint64_t sy_store_deadline(const struct sy_store *store, uint64_t deadline_ns);

#endif
