/* The run directory: where the parts of a cluster on one host find each other.
 *
 *   VERSION          which layout these files have
 *   unit-<id>.lock   locked as long as unit <id> lives, stopped or not; says which slab is its,
 *                    and where its disk tier's segments are
 *   unit-<id>.ipc    control socket (ZeroMQ)
 *   unit-<id>.sock   local socket (local.h)
 *
 * Who may enter the directory is a client of the cluster: it is made with mode 0700, and with the
 * sticky bit, which means nothing where one user alone may write: it marks what we made, and may
 * remove, though who made it was killed. */
#ifndef SY_RUNFILES_H
#define SY_RUNFILES_H

#include <sys/types.h>

#include <slabyard/status.h>

#include "slab.h"

enum { SY_RUN_VERSION = 2, SY_RUN_PATH_BYTES = 108 };

struct sy_run_dir {
	char path[SY_RUN_PATH_BYTES]; /* absolute */
};

/* Opens the run directory, with `create` making it and its VERSION where they are absent. Fails
 * with SY_E_INVALID: empty, or too long for the sockets' names; SY_E_SYS: absent, no directory,
 * of another user; SY_E_PROTOCOL: made by another version. */
sy_status sy_run_dir_open(const char *path, bool create, struct sy_run_dir *ret_dir,
                          sy_error *err);

/* The same for who locks the directory before it makes VERSION there: none is needed yet, nor
 * made. */
sy_status sy_run_dir_open_first(const char *path, bool create, struct sy_run_dir *ret_dir,
                                sy_error *err);

/* No cluster is there, nor what is left of one: each makes VERSION before, and removes it after
 * all but the lock by which it is alone there. False where that cannot be seen. */
bool sy_run_dir_is_bare(const char *path);

/* Removes what sy_run_dir_open left where it was killed. True if there was any. */
bool sy_run_dir_tidy(const struct sy_run_dir *dir);

/* That, and the directory if sy_run_dir_open made it and nothing is in it any more. */
void sy_run_dir_remove(const struct sy_run_dir *dir);

/* The path of a file in it. SY_E_INVALID: longer than a unix socket's name may be. */
sy_status sy_run_dir_file(const struct sy_run_dir *dir, const char *name,
                          char ret_path[SY_RUN_PATH_BYTES], sy_error *err);

/* The three files of a unit. */
struct sy_run_unit {
	char lock_path[SY_RUN_PATH_BYTES], ipc_path[SY_RUN_PATH_BYTES], sock_path[SY_RUN_PATH_BYTES];
	uint32_t unit_id;
	int lock_fd;
	uint64_t former; /* the incarnation of a dead unit that left its lock file here; 0: none */
};

/* Locks the unit's id for as long as this process lives or until sy_run_unit_done, and removes
 * what a dead unit of this id left: sockets, slab and segments. The caller may start a unit then.
 * SY_E_BUSY: such a unit lives (err->message names its process); SY_E_SYS, SY_E_INVALID. */
sy_status sy_run_unit_init(const struct sy_run_dir *dir, uint32_t unit_id,
                           struct sy_run_unit *ret_unit, sy_error *err);
/* Writes down which slab this unit is about to make, and where its segments (NULL: none), so that
 * a successor can remove them. */
sy_status sy_run_unit_record(const struct sy_run_unit *unit, const char *slab_path,
                             const char *ssd_dir, sy_incarnation incarnation, sy_error *err);
/* Removes sockets and lock file and lets the lock go. The slab is the caller's. */
void sy_run_unit_done(struct sy_run_unit *unit);

/* True if a unit of this id lives now, with the pid it wrote down (0: not yet). Locks nothing. */
bool sy_run_unit_lives(const struct sy_run_dir *dir, uint32_t unit_id, pid_t *ret_pid);

#endif
