/* Randomness of the system: incarnations, tokens, identities, seeds. */
#ifndef SY_ENTROPY_H
#define SY_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fills `bytes` with random bytes. Blocks only before the host has gathered any, early in its
 * start. Thread-safe. */
void sy_entropy_fill(void *out, size_t bytes);
/* A random number that is not 0. */
uint64_t sy_entropy_u64(void);

#endif
