#include "block.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bytes.h"
#include "clock.h"

enum {
	LARGE_BYTES = 1 << 20,        /* from here on blocks are mapped and kept */
	STEP_BYTES = 2 << 20,         /* a huge page */
	LAZY_BYTES = 32 << 20,        /* from here on the kernel may take what has rested */
	KEPT_COUNT = 8,
};
static const size_t KEPT_BYTES = UINT64_C(2) << 30;
/* Where get follows get the kernel takes nothing: a page that it took is touched first again,
 * which costs more than to fill it. */
static const uint64_t REST_NS = UINT64_C(3) * 1000 * 1000 * 1000;
/* At once: of pages of 4 KiB that takes 20 ms, and deadlines wait. */
static const size_t REST_BYTES = UINT64_C(256) << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	void *data;
	size_t bytes;
	uint64_t since_ns;
	size_t lazy_bytes; /* the kernel was told that it may take these, the first of it */
} kept[KEPT_COUNT];
static size_t kept_bytes;
static int tenders; /* clients whose keeper calls sy_block_rest */

static size_t rounded(size_t bytes)
{
	return sy_align_up(bytes, STEP_BYTES);
}

static void *map_block(size_t bytes)
{
	/* Mapped with room to spare, so that what is kept starts at a huge page. */
	uint8_t *raw = mmap(NULL, bytes + STEP_BYTES, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (raw == MAP_FAILED)
		return NULL;
	uint8_t *data = (uint8_t *)sy_align_up((uintptr_t)raw, STEP_BYTES);
	size_t before = (size_t)(data - raw);
	if (before > 0)
		munmap(raw, before);
	munmap(data + bytes, STEP_BYTES - before);
	madvise(data, bytes, MADV_HUGEPAGE);
	return data;
}

/* A kept block of exactly this size: batches of a job repeat their sizes. The lock is never waited
 * for: in a fork child nobody may be left to give it up. */
static void *take_kept(size_t bytes)
{
	int best = -1;

	if (pthread_mutex_trylock(&lock) != 0)
		return NULL;
	for (int i = 0; i < KEPT_COUNT; i++) {
		if (kept[i].bytes == bytes)
			best = i;
	}
	void *data = NULL;
	if (best >= 0) {
		data = kept[best].data;
		kept_bytes -= bytes;
		kept[best].data = NULL;
		kept[best].bytes = 0;
	}
	pthread_mutex_unlock(&lock);
	return data;
}

/* Under the lock. True: there is more to tell than so many bytes. */
static bool rest(uint64_t now_ns, size_t most_bytes)
{
	for (int i = 0; i < KEPT_COUNT; i++) {
		size_t left = kept[i].bytes - kept[i].lazy_bytes;

		if (kept[i].data == NULL || left == 0 || now_ns < kept[i].since_ns + REST_NS)
			continue;
		if (most_bytes == 0)
			return true;
		size_t part = sy_min_u64(left, most_bytes);
		/* What was in it is nobody's. */
		if (madvise((uint8_t *)kept[i].data + kept[i].lazy_bytes, part, MADV_FREE) != 0)
			continue;
		kept[i].lazy_bytes += part;
		most_bytes -= part;
		if (part < left)
			return true;
	}
	return false;
}

static bool keep(void *data, size_t bytes)
{
	bool done = false;

	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	for (int i = 0; i < KEPT_COUNT && !done && kept_bytes + bytes <= KEPT_BYTES; i++) {
		if (kept[i].data != NULL)
			continue;
		kept[i].data = data;
		kept[i].bytes = bytes;
		kept[i].since_ns = sy_clock_now_ns();
		kept[i].lazy_bytes = bytes < LAZY_BYTES ? bytes : 0;
		kept_bytes += bytes;
		done = true;
	}
	if (__atomic_load_n(&tenders, __ATOMIC_SEQ_CST) == 0)
		rest(UINT64_MAX, SIZE_MAX);
	pthread_mutex_unlock(&lock);
	return done;
}

void *sy_block_new(size_t bytes)
{
	if (bytes > SIZE_MAX / 4)
		return NULL;
	if (bytes < LARGE_BYTES)
		return aligned_alloc(64, sy_align_up(bytes + 1, 64));
	void *data = take_kept(rounded(bytes));
	return data != NULL ? data : map_block(rounded(bytes));
}

void sy_block_free(void *block, size_t bytes)
{
	if (block == NULL)
		return;
	if (bytes < LARGE_BYTES)
		free(block);
	else if (!keep(block, rounded(bytes)))
		munmap(block, rounded(bytes));
}

static bool rest_some(uint64_t now_ns, size_t most_bytes)
{
	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	bool more = rest(now_ns, most_bytes);
	pthread_mutex_unlock(&lock);
	return more;
}

bool sy_block_rest(uint64_t now_ns)
{
	return rest_some(now_ns, REST_BYTES);
}

void sy_block_tend(bool begins)
{
	if (__atomic_add_fetch(&tenders, begins ? 1 : -1, __ATOMIC_SEQ_CST) == 0)
		rest_some(UINT64_MAX, SIZE_MAX);
}
