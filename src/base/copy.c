#include "copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The sanitizers see memcpy and do not see streaming intrinsics. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SY_COPY_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define SY_COPY_SANITIZED 1
#endif
#endif

#if defined(__x86_64__)
#include <emmintrin.h>

void sy_copy_fence(void)
{
	_mm_sfence();
}
#else
void sy_copy_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

#if defined(__x86_64__) && !defined(SY_COPY_SANITIZED)

/* Below this a copy most likely stays in the cache, where plain stores win by far; above it
 * streaming spares reading the destination first, and what is not streamed is fetched early. */
static const size_t large_from_bytes = 256u << 10;

enum { LINE_BYTES = 64, PAGE_BYTES = 4096, STRIDE_PAGES = 4 };

/* dst is aligned to a line. Whole lines only: a line streamed in two parts costs two writes.
 * SSE2 is on every x86-64; wider stores gain 2 % here, since memory is what it waits for. */
static inline void copy_line(uint8_t *dst, const uint8_t *src, bool stream)
{
	const __m128i *from = (const void *)src;
	__m128i *to = (void *)dst;
	__m128i a = _mm_loadu_si128(from);
	__m128i b = _mm_loadu_si128(from + 1);
	__m128i c = _mm_loadu_si128(from + 2);
	__m128i d = _mm_loadu_si128(from + 3);
	if (stream) {
		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	} else {
		_mm_store_si128(to, a);
		_mm_store_si128(to + 1, b);
		_mm_store_si128(to + 2, c);
		_mm_store_si128(to + 3, d);
	}
}

/* Four pages side by side, since one page after the other leaves the memory's banks idle, and
 * the line that is four pages ahead is fetched early (it may lie past the end: a prefetch of
 * any address is harmless). Together a fifth faster than line by line. */
static inline void copy_pages(uint8_t *dst, const uint8_t *src, bool stream)
{
	for (size_t line = 0; line < PAGE_BYTES; line += LINE_BYTES) {
		for (size_t page = 0; page < STRIDE_PAGES; page++) {
			size_t at = page * PAGE_BYTES + line;
			__builtin_prefetch(src + at + STRIDE_PAGES * PAGE_BYTES);
			copy_line(dst + at, src + at, stream);
		}
	}
}

static inline void copy_large(void *dst, const void *src, size_t n, bool stream)
{
	uint8_t *to = dst;
	const uint8_t *from = src;
	size_t at = (size_t)(-(uintptr_t)dst % LINE_BYTES);
	if (at > n)
		at = n;
	memcpy(to, from, at);
	for (; n - at >= STRIDE_PAGES * PAGE_BYTES; at += STRIDE_PAGES * PAGE_BYTES)
		copy_pages(to + at, from + at, stream);
	for (; n - at >= LINE_BYTES; at += LINE_BYTES)
		copy_line(to + at, from + at, stream);
	memcpy(to + at, from + at, n - at);
}

void sy_copy(void *dst, const void *src, size_t n, size_t whole)
{
	if (whole >= large_from_bytes)
		copy_large(dst, src, n, true);
	else if (n > 0) /* memcpy wants true pointers even then */
		memcpy(dst, src, n);
}

void sy_copy_near(void *dst, const void *src, size_t n, size_t whole)
{
	if (whole >= large_from_bytes)
		copy_large(dst, src, n, false);
	else if (n > 0)
		memcpy(dst, src, n);
}

#else

void sy_copy(void *dst, const void *src, size_t n, size_t whole)
{
	(void)whole;
	if (n > 0)
		memcpy(dst, src, n);
}

void sy_copy_near(void *dst, const void *src, size_t n, size_t whole)
{
	sy_copy(dst, src, n, whole);
}

#endif
