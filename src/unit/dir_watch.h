/* Keeps a unit in touch with the directory without ever holding up its loop: a thread renews its
 * lease, the loop is woken when there is something to know. */
#ifndef SY_DIR_WATCH_H
#define SY_DIR_WATCH_H

#include "dir_client.h"
#include "lease.h"

struct sy_dir_watch;

/* Renews the lease of a registered unit every interval_ns. The client stays the caller's, for this
 * alone until the close, and outlives the watch, as the lease does. SY_E_SYS: no descriptor or
 * thread is left. */
sy_status sy_dir_watch_open(struct sy_dir_client *client, struct sy_lease *lease,
                            uint32_t unit_id, uint64_t incarnation, uint64_t interval_ns,
                            struct sy_dir_watch **ret_watch, sy_error *err);
/* Gives up a question that is out. NULL is a no-op. */
void sy_dir_watch_close(struct sy_dir_watch *watch);

/* Readable when the state changed. */
int sy_dir_watch_fd(const struct sy_dir_watch *watch);
/* The state as last heard: ACTIVE or DRAINING, or DEAD if this incarnation was buried. A directory
 * that does not answer, or that knows of no unit in the slot, changes nothing. */
enum sy_unit_state sy_dir_watch_state(struct sy_dir_watch *watch);

#endif
