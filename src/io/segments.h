/* The names of a disk tier's segment files (unit/disk.h), by which others remove those of a unit
 * that is dead: its successor, and whoever tidies up its run directory. */
#ifndef SY_SEGMENTS_H
#define SY_SEGMENTS_H

#include <stdint.h>

enum { SY_SEGMENT_NAME_BYTES = 80 };

void sy_segment_name(uint32_t unit_id, uint64_t incarnation, uint32_t segment,
                     char ret_name[SY_SEGMENT_NAME_BYTES]);
/* Removes those of a unit in a directory; incarnation 0: of all that it ever was. No other file is
 * touched. The caller knows that the unit is dead. */
void sy_segments_remove(int dir_fd, uint32_t unit_id, uint64_t incarnation);

#endif
