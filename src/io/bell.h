/* A page that wakes one sleeper: the thread of a client that waits for all its units.
 *
 * Each wake-up moves `word` on. Who wants to sleep reads the word, looks whether there is anything
 * to do, and sleeps only if the word is still the same; so no wake-up is missed. Units write it,
 * and so do the client's other threads. Nobody who rings ever blocks on it, whatever its owner
 * wrote there. */
#ifndef SY_BELL_H
#define SY_BELL_H

#include <slabyard/status.h>

enum { SY_BELL_UNITS_MAX = 1024, SY_BELL_BYTES = 4096 };

/* In shared memory. */
struct sy_bell {
	_Alignas(64) uint32_t word;
	uint32_t sleeping; /* written by the sleeper alone */
	uint32_t cpu;      /* of the unit that rang last */
	_Alignas(64) uint64_t units[SY_BELL_UNITS_MAX / 64]; /* a bit a unit that has written */
};

/* The sleeper's: its page and the descriptor to hand to the units; both the caller's. The page is
 * not inherited over fork. SY_E_SYS. */
sy_status sy_bell_make(struct sy_bell **ret_bell, int *ret_fd, sy_error *err);
/* A unit's: maps a page that came from elsewhere, if nobody can take it away. NULL: it is none. */
struct sy_bell *sy_bell_map(int fd);
void sy_bell_unmap(struct sy_bell *bell); /* NULL is a no-op */

/* By the owner's other threads: it wakes whatever units wrote there, for deadlines hang on it. */
void sy_bell_ring(struct sy_bell *bell);
/* By the unit of this number. */
void sy_bell_ring_for(struct sy_bell *bell, uint32_t unit_id);

uint32_t sy_bell_look(const struct sy_bell *bell);
/* Waits awake until the word is not `seen`, as long as spin.h lets it. False: it still is. */
bool sy_bell_spin(const struct sy_bell *bell, uint32_t seen);
/* Sleeps until the word is not `seen`, a signal, or the instant (UINT64_MAX: never). */
void sy_bell_wait(struct sy_bell *bell, uint32_t seen, uint64_t until_ns);
/* The units of this group of 64 that rang since it was asked last. */
uint64_t sy_bell_take(struct sy_bell *bell, uint32_t group);

/* Memory to be shared with who is not trusted: of one size for ever. -1 and errno. */
int sy_shared_make(const char *name, size_t bytes);
/* Whether a descriptor is of such memory, of at least so many bytes. */
bool sy_shared_check(int fd, size_t bytes);

#endif
