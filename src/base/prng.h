/* A small seeded generator (xoshiro256**): session numbers in the core, tests, the simulator. */
#ifndef SY_PRNG_H
#define SY_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct sy_prng {
	uint64_t s[4];
};

void sy_prng_seed(struct sy_prng *prng, uint64_t seed);
uint64_t sy_prng_next(struct sy_prng *prng);
/* Uniform in 0..bound-1; bound is at least 1. */
uint64_t sy_prng_below(struct sy_prng *prng, uint64_t bound);
/* True in `percent` of 100 calls. */
bool sy_prng_chance(struct sy_prng *prng, uint32_t percent);

#endif
