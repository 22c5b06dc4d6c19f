/* Keeps a unit in touch with the directory without ever holding up its loop: a thread asks, the
 * loop is woken when there is something to know. */
#ifndef SY_DIR_WATCH_H
#define SY_DIR_WATCH_H

#include "dir_client.h"

struct sy_dir_watch;

/* Watches the slot of a registered unit; asks every interval_ns. The client stays the caller's
 * and outlives the watch. SY_E_SYS: no descriptor or thread is left. */
sy_status sy_dir_watch_open(struct sy_dir_client *client, uint32_t unit_id, uint64_t incarnation,
                            uint64_t interval_ns, struct sy_dir_watch **ret_watch, sy_error *err);
/* Waits for a question that is out, at most half a second. NULL is a no-op. */
void sy_dir_watch_close(struct sy_dir_watch *watch);

/* Readable when the state changed. */
int sy_dir_watch_fd(const struct sy_dir_watch *watch);
/* The state as last heard: ACTIVE or DRAINING, or DEAD if this incarnation was buried or another
 * one has its slot. A directory that does not answer changes nothing. */
enum sy_unit_state sy_dir_watch_state(struct sy_dir_watch *watch);

#endif
