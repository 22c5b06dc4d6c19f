/* The supervisor's lock on a run directory: one cluster at a time, and whom to ask to stop it.
 *
 * A lock of the process (F_SETLK), which the system takes back at its end, however it ends, and
 * of which the system itself tells who holds it: no number written in a file is believed. */
#ifndef SY_RUN_LOCK_H
#define SY_RUN_LOCK_H

#include "runfiles.h"

struct sy_run_lock {
	int fd;
	char path[SY_RUN_PATH_BYTES];
	bool was_bare; /* sy_run_lock_open found no cluster, nor what one had left */
};

/* Holds the lock for this process until sy_run_lock_done; not inherited by fork. This process
 * must not open the file otherwise. SY_E_BUSY: a cluster runs there; SY_E_SYS. */
sy_status sy_run_lock_take(const struct sy_run_dir *dir, struct sy_run_lock *ret_lock,
                           sy_error *err);
/* Removes the file and lets go. */
void sy_run_lock_done(struct sy_run_lock *lock);

/* Opens the run directory, made if it is absent, with the lock held: only then is VERSION made, so
 * that no other may be removing it, and who cannot take the lock has left nothing. */
sy_status sy_run_lock_open(const char *path, struct sy_run_dir *ret_dir,
                           struct sy_run_lock *ret_lock, sy_error *err);

/* Removes the lock file that a killed one left, where no cluster is. True if there was one. */
bool sy_run_lock_tidy(const struct sy_run_dir *dir);

struct sy_run_lock_holder {
	pid_t pid;
	int pidfd;      /* the caller's to close */
	bool is_ending; /* killed, but not taken down yet: no cluster runs any more */
};

/* False: nobody holds the lock. Call it from a process that holds no such lock. */
bool sy_run_lock_holder(const struct sy_run_dir *dir, struct sy_run_lock_holder *ret_holder);

#endif
