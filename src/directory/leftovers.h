/* What a cluster may have left in its run directory: unit processes that outlived their
 * supervisor, and files. Called by who holds the supervisor's lock. */
#ifndef SY_LEFTOVERS_H
#define SY_LEFTOVERS_H

#include "runfiles.h"

/* Waits until no unit of a former cluster lives: one whose supervisor was killed ends by itself
 * in a moment, a stopped one does not. SY_E_BUSY: the first that still does at deadline_ns;
 * SY_E_SYS: the directory cannot be read. */
sy_status sy_leftovers_await(const struct sy_run_dir *dir, uint64_t deadline_ns, sy_error *err);

/* Ends those that live: SIGTERM, after grace_ns SIGKILL, after grace_ns once more SY_E_BUSY. */
sy_status sy_leftovers_end(const struct sy_run_dir *dir, uint64_t grace_ns, sy_error *err);

/* Removes slabs, sockets and locks of dead units, the directory's files and, if that is all that
 * was there, VERSION, by which what is left is found again; the log only if asked to or empty.
 * What is not ours stays. True if anything was there. */
bool sy_leftovers_remove(const struct sy_run_dir *dir, bool log_too);

/* Removes the files of a cluster that never had a unit, the log if it is empty. Takes no
 * descriptor: it may be for want of one that the cluster cannot begin. */
void sy_leftovers_unmake(const struct sy_run_dir *dir);

/* The first file of a cluster, or unit process, that is still there, or that nobody can see what
 * is; false: none is. */
bool sy_leftovers_find(const struct sy_run_dir *dir, char ret_name[SY_RUN_PATH_BYTES]);

#endif
