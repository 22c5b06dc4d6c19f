#include "copy_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "clock.h"
#include "local.h"
#include "spin.h"

enum { HELPERS_MAX = 3 };

struct sy_copy_pool {
	uint32_t refs, fork_count; /* under pools_lock */
	pthread_mutex_t lock;
	pthread_cond_t work, idle;
	pthread_t helpers[HELPERS_MAX];
	int helper_count;
	int active;                  /* helpers at work */
	uint64_t job;                /* number of the job that runs, or ran last; atomic */
	uint32_t calls;              /* to expect one */
	void (*part)(void *context); /* NULL: no job runs */
	void *context;
	uint32_t cpu; /* that its caller ran on */
	bool started, stops;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sy_copy_pool *current;

static struct sy_copy_pool *pool_new(void)
{
	struct sy_copy_pool *pool = calloc(1, sizeof *pool);

	if (pool == NULL)
		return NULL;
	pool->fork_count = sy_local_fork_count();
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->idle, NULL);
	return pool;
}

/* The lock is not waited for: in a fork child nobody may be left to give it up. The parent's pool
 * stays behind there, since the parent's slabs still name it. */
struct sy_copy_pool *sy_copy_pool_get(void)
{
	struct sy_copy_pool *pool;

	if (pthread_mutex_trylock(&pools_lock) != 0)
		return NULL;
	if (current == NULL || current->fork_count != sy_local_fork_count())
		current = pool_new();
	pool = current;
	if (pool != NULL)
		pool->refs++;
	pthread_mutex_unlock(&pools_lock);
	return pool;
}

void sy_copy_pool_put(struct sy_copy_pool *pool)
{
	if (pool == NULL)
		return;
	pthread_mutex_lock(&pools_lock);
	bool last = --pool->refs == 0;
	if (last && current == pool)
		current = NULL;
	pthread_mutex_unlock(&pools_lock);
	if (!last)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stops = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (int i = 0; i < pool->helper_count; i++)
		pthread_join(pool->helpers[i], NULL);
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->idle);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Under the lock, which is given up meanwhile. */
static void await_expected(struct sy_copy_pool *pool)
{
	uint64_t end_ns = sy_clock_now_ns() + SY_SPIN_NS, before = pool->job;
	uint32_t cpu = pool->cpu;

	pthread_mutex_unlock(&pool->lock);
	sy_spin_leave(cpu);
	while (__atomic_load_n(&pool->job, __ATOMIC_RELAXED) == before && sy_clock_now_ns() < end_ns)
		sy_spin_pause(UINT32_MAX);
	pthread_mutex_lock(&pool->lock);
}

static void *help(void *argument)
{
	struct sy_copy_pool *pool = argument;
	uint64_t seen = 0;
	uint32_t heard = 0;

	pthread_mutex_lock(&pool->lock);
	while (!pool->stops) {
		if (pool->part == NULL || pool->job == seen) {
			if (heard == pool->calls) {
				pthread_cond_wait(&pool->work, &pool->lock);
			} else {
				heard = pool->calls;
				await_expected(pool);
			}
			continue;
		}
		void (*part)(void *context) = pool->part;
		void *context = pool->context;

		seen = pool->job;
		__atomic_add_fetch(&pool->active, 1, __ATOMIC_RELAXED);
		uint32_t cpu = pool->cpu;
		pthread_mutex_unlock(&pool->lock);
		sy_spin_leave(cpu); /* beside the caller, not in turns with it */
		part(context);
		pthread_mutex_lock(&pool->lock);
		if (__atomic_sub_fetch(&pool->active, 1, __ATOMIC_RELEASE) == 0)
			pthread_cond_broadcast(&pool->idle);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* What threads cannot be made is done without. */
static void start(struct sy_copy_pool *pool)
{
	cpu_set_t allowed;
	sigset_t all, before;
	int count = 0;

	pool->started = true;
	if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
		count = CPU_COUNT(&allowed) - 1;
	sigfillset(&all);
	if (count <= 0 || pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
		return;
	while (pool->helper_count < count && pool->helper_count < HELPERS_MAX &&
	       pthread_create(&pool->helpers[pool->helper_count], NULL, help, pool) == 0)
		pool->helper_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Whoever still helps is at its last piece, and through with it sooner than this thread, asleep,
 * could be woken. */
static void wait_awake(const struct sy_copy_pool *pool)
{
	uint64_t end_ns = sy_clock_now_ns() + SY_SPIN_NS;

	while (__atomic_load_n(&pool->active, __ATOMIC_ACQUIRE) > 0 && sy_clock_now_ns() < end_ns)
		sy_spin_pause(UINT32_MAX);
}

/* Under the lock: there are helpers, and they have nothing to do. */
static bool is_free(struct sy_copy_pool *pool)
{
	if (!pool->started)
		start(pool);
	return pool->part == NULL && pool->active == 0 && pool->helper_count > 0;
}

void sy_copy_pool_expect(struct sy_copy_pool *pool)
{
	if (pool == NULL)
		return;
	pthread_mutex_lock(&pool->lock);
	if (is_free(pool)) {
		pool->calls++;
		pool->cpu = sy_spin_cpu();
		pthread_cond_broadcast(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
}

void sy_copy_pool_run(struct sy_copy_pool *pool, void (*part)(void *context), void *context)
{
	uint64_t job = 0; /* ours; 0: others have the helpers */

	if (pool != NULL) {
		pthread_mutex_lock(&pool->lock);
		if (is_free(pool)) {
			job = pool->job + 1;
			__atomic_store_n(&pool->job, job, __ATOMIC_RELAXED);
			pool->part = part;
			pool->context = context;
			pool->cpu = sy_spin_cpu();
			pthread_cond_broadcast(&pool->work);
		}
		pthread_mutex_unlock(&pool->lock);
	}
	part(context);
	if (job == 0)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->part = NULL; /* who has not begun with it does not begin any more */
	pthread_mutex_unlock(&pool->lock);
	wait_awake(pool);
	pthread_mutex_lock(&pool->lock);
	/* Another job began: ours had no helper left. */
	while (pool->active > 0 && pool->job == job)
		pthread_cond_wait(&pool->idle, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
