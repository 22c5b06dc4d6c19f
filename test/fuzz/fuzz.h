/* What the fuzz targets share: reading an input piece by piece, copies of exactly the right size,
 * checks that end the run, and the corpus that a target makes of its own encoders.
 *
 *   fuzz_x --make-corpus=DIR        writes the seeds
 *   fuzz_x -runs=100000 DIR         what libFuzzer does with them
 *
 * An input whose check fails ends the process, and libFuzzer keeps it as the reproducer. */
#ifndef SY_FUZZ_H
#define SY_FUZZ_H

#include "harness.h"

#include <string.h>

#include "bytes.h"

/* Every target has these two; the first returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
void fuzz_corpus(void); /* calls fuzz_seed once a seed */

/* Sets up assertions and takes --make-corpus out of the arguments. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Of libFuzzer, for targets that mutate in their own way. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

/* A file of the corpus that is being made. */
void fuzz_seed(const char *name, uint32_t number, const void *data, size_t bytes);

_Noreturn void fuzz_fail(const char *file, int line, const char *what);
#define FUZZ_CHECK(cond) ((cond) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #cond))

/* An input that is read from its front; past its end everything is 0. */
struct fuzz_input {
	const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *input)
{
	return (size_t)(input->end - input->at);
}

static inline uint64_t fuzz_number(struct fuzz_input *input, size_t bytes)
{
	uint64_t number = 0;
	for (size_t i = 0; i < bytes && fuzz_left(input) > 0; i++)
		number |= (uint64_t)*input->at++ << (8 * i);
	return number;
}

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
	return (uint8_t)fuzz_number(input, 1);
}

/* 0 .. bound - 1, of one byte; bound is at most 256. */
static inline uint32_t fuzz_below(struct fuzz_input *input, uint32_t bound)
{
	return fuzz_u8(input) % bound;
}

static inline struct sy_span fuzz_take(struct fuzz_input *input, size_t bytes)
{
	struct sy_span run = {input->at, sy_min_u64(bytes, fuzz_left(input))};
	input->at += run.bytes;
	return run;
}

/* A copy that ends where the memory ends, so that a read past it is seen. 16-aligned; the caller
 * frees it. */
uint8_t *fuzz_copy(const void *data, size_t bytes);
/* The same with a NUL after it. */
char *fuzz_text(const void *data, size_t bytes);

#endif
