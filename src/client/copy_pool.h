/* Threads that help with large copies: one processor moves fewer bytes than the memory can.
 *
 * All slabs of a process share one pool. It has a thread for each further processor, at most
 * three, made by the first large copy and ended with the last slab that is let go; they block all
 * signals. A fork child starts with none. */
#ifndef SY_COPY_POOL_H
#define SY_COPY_POOL_H

struct sy_copy_pool;

/* The pool of this process, one more reference to it; NULL if there can be none now. */
struct sy_copy_pool *sy_copy_pool_get(void);
/* Gives a reference back, in the process that got it; the last one waits for the threads' end.
 * NULL is a no-op. */
void sy_copy_pool_put(struct sy_copy_pool *pool);

/* A job follows in some microseconds: the pool's threads wake up meanwhile and wait awake for it,
 * no longer than SY_SPIN_NS. One that has slept comes to a job 20 us late, a tenth of what a few
 * MiB take. pool may be NULL. */
void sy_copy_pool_expect(struct sy_copy_pool *pool);

/* Calls part(context) in this thread and, if the pool is not busy, in its threads as well; returns
 * when all these calls have. Parts share out the work among them, and one alone does all of it.
 * pool may be NULL. */
void sy_copy_pool_run(struct sy_copy_pool *pool, void (*part)(void *context), void *context);

#endif
