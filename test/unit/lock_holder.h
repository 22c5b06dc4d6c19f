/* A process that holds a run directory's lock, as a supervisor does. */
#ifndef SY_LOCK_HOLDER_H
#define SY_LOCK_HOLDER_H

#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include "run_lock.h"
#include "thread_state.h"

enum { LOCK_HOLDER_LOOKS = 20000 };

static inline void *lock_holder_last_thread(void *argument)
{
	const int *fds = argument;
	char end;
	(void)!read(fds[0], &end, 1);
	_exit(0);
}

/* A process that holds the lock until the pipe is closed, whose first thread may be gone. */
static inline pid_t lock_holder_start(const struct sy_run_dir *dir, bool ends, int fds[2])
{
	int ready[2];
	char byte = 0;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct sy_run_lock lock;
		pthread_t thread;

		close(fds[1]);
		close(ready[0]);
		if (sy_run_lock_take(dir, &lock, NULL) != SY_OK ||
		    pthread_create(&thread, NULL, lock_holder_last_thread, fds) != 0)
			_exit(1);
		(void)!write(ready[1], &byte, 1);
		if (ends)
			pthread_exit(NULL);
		pthread_join(thread, NULL);
	}
	close(fds[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* Until a thread is in that state, or has ended. */
static inline void lock_holder_await(pid_t pid, pid_t tid, char state, const bool *ended)
{
	for (int look = 0; look < LOCK_HOLDER_LOOKS && !thread_is(pid, tid, state); look++) {
		if (__atomic_load_n(ended, __ATOMIC_ACQUIRE))
			return;
		(void)poll(NULL, 0, 1);
	}
}

#endif
