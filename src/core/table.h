/* The authoritative tables and what is derived from them: layouts only. Functions are in
 * region.h (holes), intern.h (names and shapes), entry.h (keys and rows), blob.h (blobs). */
#ifndef SY_TABLE_H
#define SY_TABLE_H

#include <stddef.h>

#include "pool.h"
#include "proto.h"
#include "states.h"

/* One blob: authoritative but for what is marked (derived) or (volatile). What a resolve reads and
 * writes of it lies in 32 bytes of one cache line. */
struct sy_blob {
	uint32_t id_next;      /* (derived) chain of the id hash, or free list */
	uint8_t state;         /* enum sy_blob_state; changed by single ordered stores */
	uint8_t by_id;         /* (derived) found by its id; a RETIRED or QUARANTINED one is not */
	uint16_t ns;           /* interned namespace */
	sy_blob_id id;
	uint64_t nbytes;       /* the bytes asked for */
	uint64_t offset;       /* its region's start */
	uint64_t grant;        /* generation of the region it has now, its alloc's or a later one */
	uint64_t last_read_ns; /* (volatile) */
	uint32_t pin_count;    /* (volatile) pin references */
	uint32_t pin_mark;     /* (volatile) the pin that took it last, so that none takes it twice */
	uint64_t client;       /* identity of the writer */
	uint64_t generation;   /* of its alloc: a blob keeps it */
	uint64_t disk_at;      /* its record's start on disk, while disk_region is not 0 */
	uint64_t accept_seq;   /* place in the order of commits and releases */
	uint32_t entry_count;  /* as allocated */
	uint32_t live_count;   /* (derived) entries still live */
	uint32_t entry_head;   /* first entry, linked by sy_entry.blob_next */
	uint32_t region;       /* (derived) its region, 0: none */
	uint32_t disk_region;  /* (derived) its run of the disk, 0: none */
	/* volatile: */
	struct sy_request_id name; /* of the alloc */
	uint32_t name_next;    /* chain of the hash of names */
	uint32_t io_count;     /* disk operations that touch its region or its record */
	struct sy_link session_link; /* reservations of a session, ALLOCATED and RETIRED */
	struct sy_link timer_link;   /* RETIRED in grace, or QUARANTINED: oldest first */
	uint64_t timer_ns;
	uint64_t quarantine_until_ns; /* a pin of it expired: not free before */
	uint64_t until_ns;     /* COMMITTING: not published later */
};

_Static_assert(offsetof(struct sy_blob, offset) % 32 == 0 &&
               offsetof(struct sy_blob, client) == offsetof(struct sy_blob, offset) + 32 &&
               sizeof(struct sy_blob) % 32 == 0, "what a resolve touches lies in one line");

enum sy_entry_flag {
	SY_ENTRY_LIVE = 1,    /* cleared before a release or overwrite is acknowledged */
	SY_ENTRY_PENDING = 2, /* of a COMMITTING blob: resolve skips it */
};

/* One key of one blob: the private copy of the index and the hash node in one. What a lookup
 * reads comes first. 52 bytes, so u64 are aligned to 4; with a key bucket and a row bucket an
 * entry, and what its blob takes, a key stays below 64. */
struct __attribute__((packed, aligned(4))) sy_entry {
	uint64_t row;
	uint32_t key_next;  /* (derived) chain of the key hash */
	uint16_t field;
	uint16_t ns;
	uint32_t blob;
	uint32_t offset64;  /* offset in the blob, in units of 64 bytes */
	uint64_t extent;    /* bytes, or dim0 where a lead unit has none (index.h) */
	uint32_t shape;     /* interned trailing shape; 0: none (scalar or no tensor) */
	uint8_t dtype;
	uint8_t kind;
	uint8_t flags;
	uint8_t pad;
	uint32_t blob_next; /* next entry of the blob */
	uint32_t row_next;  /* (derived) chain of the row hash: entries of a row side by side */
	uint32_t row_prev;  /* (derived) */
};

enum { SY_ENTRY_LOOKUP_BYTES = 40 }; /* of it a lookup by the hash reads no more */

_Static_assert(sizeof(struct sy_entry) == 52 &&
               offsetof(struct sy_entry, blob_next) == SY_ENTRY_LOOKUP_BYTES,
               "60 bytes an entry with its two buckets");

/* Spaces that are given out in runs. A slab without a disk tier is one space; with one its last
 * part is staging, which puts and reads go through when the rest has no room; the third space is
 * the disk. Offsets of the first two are in the slab. */
enum sy_space_id { SY_SPACE_SLAB = 0, SY_SPACE_STAGING, SY_SPACE_DISK, SY_SPACE_COUNT };

struct sy_space {
	uint64_t start, bytes; /* where it begins, and its size */
	uint64_t align;        /* of its runs */
	uint64_t free_bytes;
	uint32_t hole_root, hole_count; /* tree of holes */
	uint32_t first;        /* its lowest run */
	uint32_t region_count;
};

/* A run of a space: a hole or a blob's. In address order by links, holes also in a tree. */
struct sy_region {
	uint32_t free_next; /* free list of the pool */
	uint32_t prev, next; /* neighbours by address */
	uint32_t left, right; /* tree of holes by (bytes, offset) */
	uint32_t blob;        /* whose it is; 0: a hole */
	uint8_t height;
	uint8_t is_hole;
	uint8_t space;        /* enum sy_space_id */
	uint64_t offset, bytes; /* multiples of the space's align */
};

/* An interned name (field or namespace). */
struct sy_name {
	uint32_t next; /* hash chain, or free list */
	uint32_t refs;
	uint16_t bytes;
	char text[SY_FIELD_MAX_BYTES];
};

struct sy_shape_item {
	uint32_t next;
	uint32_t refs;
	sy_shape shape;
};

/* An intern table: a pool of items and their buckets. */
struct sy_intern {
	struct sy_pool pool;
	uint64_t buckets_at; /* u32 a bucket */
	uint32_t bucket_count;
};

struct sy_tables {
	struct sy_pool blobs, entries, regions;
	struct sy_intern fields, namespaces, shapes;
	uint64_t id_buckets_at, key_buckets_at, row_buckets_at; /* u32 a bucket */
	uint32_t id_bucket_count, entry_bucket_count; /* key and row buckets are as many */
	struct sy_space spaces[SY_SPACE_COUNT];
	uint32_t row_count;     /* distinct rows with a linked entry */
	/* (volatile) Entries of blobs that are gone, given back a bounded number a step: lists by
	 * blob_next, of each the first entry has no blob and its row_next names the next list. They
	 * keep their names and shapes till then. */
	uint32_t reap_head, reap_count;
	uint64_t next_generation, next_accept_seq;
	uint64_t bytes[SY_BLOB_STATE_COUNT]; /* sum of nbytes by state; of FREE: 0 */
	uint64_t rounding_bytes;
	uint64_t disk_bytes[SY_BLOB_STATE_COUNT]; /* of runs of the disk, by state of their blobs */
	uint64_t arrows[SY_BLOB_STATE_COUNT][SY_BLOB_STATE_COUNT]; /* moves made, for tests */
	uint64_t hash_secret;
};

#endif
