/* Work shared among the threads of the pool is done once each, and over when the run returns. */
#include "harness.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy_pool.h"
#include "sanitized.h"
#include "thread_state.h"

enum { PIECES = 500, RUNS = 200, CALLERS = 4, LOOKS = 20000 };

struct job {
	int next;
	int calls;
	uint8_t done[PIECES];
};

static void part(void *context)
{
	struct job *job = context;
	int piece;

	__atomic_add_fetch(&job->calls, 1, __ATOMIC_RELAXED);
	while ((piece = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < PIECES)
		job->done[piece]++;
}

static int thread_count(void)
{
	int count = 0;
	DIR *tasks = opendir("/proc/self/task");

	assert_non_null(tasks);
	for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
		count += task->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* A thread that was joined may stand in /proc for a moment longer. */
static int thread_count_from(int expected)
{
	int count = thread_count();

	for (int i = 0; i < 1000000 && count != expected; i++) {
		sched_yield();
		count = thread_count();
	}
	return count;
}

static bool run_all(struct sy_copy_pool *pool)
{
	struct job job = {0};

	sy_copy_pool_run(pool, part, &job);
	for (int i = 0; i < PIECES; i++) {
		if (job.done[i] != 1)
			return false;
	}
	return job.calls >= 1;
}

static void test_each_piece_once(void **state)
{
	(void)state;
	struct sy_copy_pool *pool = sy_copy_pool_get();

	assert_non_null(pool);
	for (int i = 0; i < RUNS; i++)
		assert_true(run_all(pool));
	sy_copy_pool_put(pool);
	assert_true(run_all(NULL));
	sy_copy_pool_put(NULL);
}

/* A job that was announced, one that was not, one that never comes, and the end of the pool while
 * its threads wait for one. */
static void test_jobs_that_are_expected(void **state)
{
	(void)state;
	struct sy_copy_pool *pool = sy_copy_pool_get();
	cpu_set_t allowed;

	assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
	int before = thread_count(), helpers = CPU_COUNT(&allowed) - 1;

	sy_copy_pool_expect(NULL);
	sy_copy_pool_expect(pool);
	assert_int_equal(thread_count(), before + (helpers < 3 ? helpers : 3));
	for (int i = 0; i < RUNS; i++) {
		if (i % 3 != 0)
			sy_copy_pool_expect(pool);
		if (i % 3 != 1)
			assert_true(run_all(pool));
	}
	sy_copy_pool_expect(pool);
	sy_copy_pool_put(pool);
	assert_int_equal(thread_count_from(before), before);
}

static void *call(void *context)
{
	bool ok = true;

	for (int i = 0; ok && i < RUNS; i++)
		ok = run_all(context);
	return ok ? context : NULL;
}

/* One of them has the help of the pool, the others do without. */
static void test_many_callers(void **state)
{
	(void)state;
	struct sy_copy_pool *pool = sy_copy_pool_get();
	pthread_t callers[CALLERS];
	void *said;

	for (int i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&callers[i], NULL, call, pool), 0);
	for (int i = 0; i < CALLERS; i++) {
		assert_int_equal(pthread_join(callers[i], &said), 0);
		assert_ptr_equal(said, pool);
	}
	sy_copy_pool_put(pool);
}

/* The caller is done as soon as a helper has begun, which takes a moment: runs wait for their
 * helpers while others take these. All meet before each turn: who is not woken has nobody to wake
 * him later. */
struct slow {
	pthread_t caller;
	bool begun;
};

static pthread_barrier_t turn;

static void slow_part(void *context)
{
	struct slow *slow = context;
	bool helps = !pthread_equal(slow->caller, pthread_self());

	if (helps)
		__atomic_store_n(&slow->begun, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 20 && (helps || !__atomic_load_n(&slow->begun, __ATOMIC_RELAXED)); i++)
		sched_yield();
}

static void *call_in_turns(void *context)
{
	for (int i = 0; i < 10 * RUNS; i++) {
		pthread_barrier_wait(&turn);
		for (int run = 0; run < 3; run++) {
			struct slow slow = {.caller = pthread_self()};

			sy_copy_pool_run(context, slow_part, &slow);
		}
	}
	return context;
}

static void test_each_run_ends(void **state)
{
	(void)state;
	struct sy_copy_pool *pool = sy_copy_pool_get();
	pthread_t callers[CALLERS];

	pthread_barrier_init(&turn, NULL, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&callers[i], NULL, call_in_turns, pool), 0);
	for (int i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_join(callers[i], NULL), 0);
	pthread_barrier_destroy(&turn);
	sy_copy_pool_put(pool);
}

/* A helper that is not through before the caller sleeps; it may ask for help itself until then. */
struct lagging {
	struct sy_copy_pool *pool;
	pthread_t caller;
	pid_t caller_tid;
	bool asks, begun, left, returned, done;
};

static void no_part(void *context)
{
	(void)context;
}

static void lagging_part(void *context)
{
	struct lagging *lagging = context;

	if (pthread_equal(lagging->caller, pthread_self())) {
		for (int i = 0; i < LOOKS && !__atomic_load_n(&lagging->begun, __ATOMIC_ACQUIRE); i++)
			(void)poll(NULL, 0, 1);
		__atomic_store_n(&lagging->left, true, __ATOMIC_RELEASE);
		return;
	}
	if (__atomic_exchange_n(&lagging->begun, true, __ATOMIC_ACQ_REL))
		return;
	for (int i = 0; i < 1000 * LOOKS; i++) {
		bool left = __atomic_load_n(&lagging->left, __ATOMIC_ACQUIRE);

		if ((left && thread_is(getpid(), lagging->caller_tid, 'S')) ||
		    __atomic_load_n(&lagging->returned, __ATOMIC_ACQUIRE))
			break;
		if (lagging->asks)
			sy_copy_pool_run(lagging->pool, no_part, NULL);
	}
	__atomic_store_n(&lagging->done, true, __ATOMIC_RELEASE);
}

/* What the caller shares with its helpers is its own again when the run returns; and the next run
 * has help, too. */
static void test_a_helper_is_waited_for(void **state)
{
	static struct lagging runs[20];
	struct sy_copy_pool *pool = sy_copy_pool_get();
	cpu_set_t cpus;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
	for (size_t i = 0; i < COUNT_OF(runs) && CPU_COUNT(&cpus) > 1; i++) {
		struct lagging *run = &runs[i];

		*run = (struct lagging){.pool = pool, .caller = pthread_self(), .caller_tid = gettid(),
		                        .asks = i % 2 == 1};
		sy_copy_pool_run(pool, lagging_part, run);
		bool done = __atomic_load_n(&run->done, __ATOMIC_ACQUIRE);
		__atomic_store_n(&run->returned, true, __ATOMIC_RELEASE);
		assert_true(run->begun);
		assert_true(done);
	}
	sy_copy_pool_put(pool);
}

/* All that ask share one, its threads come with the first run, and the last one ends them. */
static void test_threads_end(void **state)
{
	(void)state;
	int before = thread_count_from(1);
	struct sy_copy_pool *pool = sy_copy_pool_get(), *again = sy_copy_pool_get();

	assert_ptr_equal(pool, again);
	assert_int_equal(thread_count(), before);
	assert_true(run_all(pool));
	int with = thread_count();
	assert_true(with <= before + 3);
	assert_true(run_all(pool));
	assert_int_equal(thread_count(), with);
	sy_copy_pool_put(again);
	assert_int_equal(thread_count(), with);
	sy_copy_pool_put(pool);
	assert_int_equal(thread_count_from(before), before);
}

static void test_fork_child(void **state)
{
	(void)state;
	struct sy_copy_pool *pool = sy_copy_pool_get();
	int status;

	assert_true(run_all(pool));
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) { /* a pool of its own */
		struct sy_copy_pool *own = sy_copy_pool_get();
		bool ok = own != pool && (THREAD_SANITIZED || run_all(own));

		sy_copy_pool_put(own);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(run_all(pool));
	sy_copy_pool_put(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_piece_once),
		cmocka_unit_test(test_jobs_that_are_expected),
		cmocka_unit_test(test_many_callers),
		cmocka_unit_test(test_each_run_ends),
		cmocka_unit_test(test_a_helper_is_waited_for),
		cmocka_unit_test(test_threads_end),
		cmocka_unit_test(test_fork_child),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
