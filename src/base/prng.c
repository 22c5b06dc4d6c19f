#include "prng.h"
#include "bytes.h"
#include "guard.h"

static uint64_t rotate_left(uint64_t x, unsigned n)
{
	return (x << n) | (x >> (64 - n));
}

void sy_prng_seed(struct sy_prng *prng, uint64_t seed)
{
	/* splitmix64: neighbouring seeds give unrelated states, and no seed the state of zeros. */
	for (int i = 0; i < 4; i++) {
		seed += 0x9e3779b97f4a7c15u;
		prng->s[i] = sy_mix64(seed);
	}
}

uint64_t sy_prng_next(struct sy_prng *prng)
{
	uint64_t *s = prng->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/* The high half of next * bound is uniform once the low halves under 2^64 mod bound are drawn
 * again (Lemire). A draw is refused with a chance below 1/2, so 64 in a row do not happen. */
uint64_t sy_prng_below(struct sy_prng *prng, uint64_t bound)
{
	SY_ASSERT(bound > 0);
	uint64_t refused = (0 - bound) % bound;
	unsigned __int128 product = 0;
	for (int i = 0; i < 64; i++) {
		product = (unsigned __int128)sy_prng_next(prng) * bound;
		if ((uint64_t)product >= refused)
			break;
	}
	return (uint64_t)(product >> 64);
}

bool sy_prng_chance(struct sy_prng *prng, uint32_t percent)
{
	return sy_prng_below(prng, 100) < percent;
}
