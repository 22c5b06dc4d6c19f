/* Whether a sanitizer is in this build: it keeps shadow and freed memory, and is slow; and whether
 * it is that of threads, whose runtime lets no child of threads make threads, and stands still for
 * good where a signal comes while a thread that has ended is joined. */
#ifndef SY_TEST_SANITIZED_H
#define SY_TEST_SANITIZED_H

#if defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, THREAD_SANITIZED = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, THREAD_SANITIZED = 0 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SANITIZED = 1, THREAD_SANITIZED = 1 };
#elif __has_feature(address_sanitizer)
enum { SANITIZED = 1, THREAD_SANITIZED = 0 };
#else
enum { SANITIZED = 0, THREAD_SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0, THREAD_SANITIZED = 0 };
#endif

#endif
