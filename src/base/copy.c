#include "copy.h"

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
static const size_t stream_from_bytes = 256u << 10;

enum { LINE_BYTES = 64 };

/* dst is aligned to a line; both stream whole lines, so that no line is written in two parts. */
__attribute__((target("avx"))) static void stream_avx(uint8_t *dst, const uint8_t *src,
                                                      size_t lines)
{
	for (size_t i = 0; i < lines; i++) {
		const __m256i *from = (const void *)(src + i * LINE_BYTES);
		__m256i *to = (void *)(dst + i * LINE_BYTES);
		__m256i a = _mm256_loadu_si256(from);
		__m256i b = _mm256_loadu_si256(from + 1);
		_mm256_stream_si256(to, a);
		_mm256_stream_si256(to + 1, b);
	}
}

static void stream_sse2(uint8_t *dst, const uint8_t *src, size_t lines)
{
	for (size_t i = 0; i < lines; i++) {
		const __m128i *from = (const void *)(src + i * LINE_BYTES);
		__m128i *to = (void *)(dst + i * LINE_BYTES);
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

void sy_copy(void *dst, const void *src, size_t n)
{
	if (n == 0)
		return; /* memcpy wants true pointers even then */
	if (n < stream_from_bytes) {
		memcpy(dst, src, n);
		return;
	}
	size_t head = (size_t)(-(uintptr_t)dst % LINE_BYTES);
	memcpy(dst, src, head);
	uint8_t *to = (uint8_t *)dst + head;
	const uint8_t *from = (const uint8_t *)src + head;
	size_t lines = (n - head) / LINE_BYTES;
	if (__builtin_cpu_supports("avx"))
		stream_avx(to, from, lines);
	else
		stream_sse2(to, from, lines);
	size_t done = lines * LINE_BYTES;
	memcpy(to + done, from + done, n - head - done);
}

#else

void sy_copy(void *dst, const void *src, size_t n)
{
	if (n > 0)
		memcpy(dst, src, n);
}

#endif
