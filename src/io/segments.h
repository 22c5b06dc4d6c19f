/* The names of a disk tier's files (unit/disk.h), by which others remove those of a unit that is
 * dead: its successor, and whoever tidies up its run directory. */
#ifndef SY_SEGMENTS_H
#define SY_SEGMENTS_H

#include <stdint.h>

enum { SY_SEGMENT_NAME_BYTES = 80 };

void sy_segment_name(uint32_t unit_id, uint64_t incarnation, uint32_t segment,
                     char ret_name[SY_SEGMENT_NAME_BYTES]);
void sy_segments_lock_name(uint32_t unit_id, char ret_name[SY_SEGMENT_NAME_BYTES]);
/* Locks a directory for a unit of this number. 0, or an errno: EWOULDBLOCK if another has it. */
int sy_segments_lock(int dir_fd, uint32_t unit_id, int *ret_lock_fd);
/* Under the lock: removes the segments of this number; incarnation 0: of all that it ever was. No
 * other file is touched. */
void sy_segments_remove(int dir_fd, uint32_t unit_id, uint64_t incarnation);
/* Removes the lock file, too. */
void sy_segments_unlock(int dir_fd, uint32_t unit_id, int lock_fd);

#endif
