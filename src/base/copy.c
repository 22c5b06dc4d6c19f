#include "copy.h"

#include <stdint.h>
#include <string.h>

#include "bytes.h"

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
#include <immintrin.h>

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
 * streaming spares reading the destination first. */
static const size_t large_from_bytes = 256u << 10;
/* A part that is shorter has too few whole lines. */
static const size_t streamed_from_bytes = 256;

enum { LINE_BYTES = 64, AHEAD_BYTES = 256 };

/* Line after line, each whole: one streamed in two parts costs two writes. Not several pages side
 * by side: where dst is a few lines ahead of src within a page, one page's reads hit another's
 * unfinished lines, which are then written in parts, at a fifth of the speed. Fetching early what
 * is read gains as much as that gained (it may lie past the end: a prefetch of any address is
 * harmless). SSE2 is on every x86-64. */
static void stream_lines(uint8_t *dst, const uint8_t *src, size_t n)
{
	for (size_t at = 0; at < n; at += LINE_BYTES) {
		const __m128i *from = (const void *)(src + at);
		__m128i *to = (void *)(dst + at);
		__builtin_prefetch(src + at + AHEAD_BYTES);
		__m128i a = _mm_loadu_si128(from);
		__m128i b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2);
		__m128i d = _mm_loadu_si128(from + 3);
		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
}

/* Half as many stores: 4 % faster. */
__attribute__((target("avx")))
static void stream_lines_avx(uint8_t *dst, const uint8_t *src, size_t n)
{
	for (size_t at = 0; at < n; at += LINE_BYTES) {
		const __m256i *from = (const void *)(src + at);
		__m256i *to = (void *)(dst + at);
		__builtin_prefetch(src + at + AHEAD_BYTES);
		__m256i a = _mm256_loadu_si256(from);
		__m256i b = _mm256_loadu_si256(from + 1);
		_mm256_stream_si256(to, a);
		_mm256_stream_si256(to + 1, b);
	}
}

static void stream(uint8_t *to, const uint8_t *from, size_t n)
{
	size_t first = sy_min_u64(-(uintptr_t)to % LINE_BYTES, n);
	size_t lines = (n - first) / LINE_BYTES * LINE_BYTES;
	memcpy(to, from, first);
	if (__builtin_cpu_supports("avx"))
		stream_lines_avx(to + first, from + first, lines);
	else
		stream_lines(to + first, from + first, lines);
	memcpy(to + first + lines, from + first + lines, n - first - lines);
}

void sy_copy(void *dst, const void *src, size_t n, size_t whole)
{
	if (whole >= large_from_bytes && n >= streamed_from_bytes)
		stream(dst, src, n);
	else if (n > 0) /* memcpy wants true pointers even then */
		memcpy(dst, src, n);
}

#else

void sy_copy(void *dst, const void *src, size_t n, size_t whole)
{
	(void)whole;
	if (n > 0)
		memcpy(dst, src, n);
}

#endif
