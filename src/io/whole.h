/* What is read and written whole, however few bytes the system takes at a time. */
#ifndef SY_WHOLE_H
#define SY_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From the file's start. Returns how many bytes it has, `room` if as many or more; -1 and errno:
 * it cannot be read. */
ssize_t sy_read_whole(int fd, void *out, size_t room);
/* At the file's start. False and errno: not all of it went. */
bool sy_write_whole(int fd, const void *data, size_t bytes);

/* Room for so much of a file from `at` on, and what was written on its medium: a signal ends
 * either half-way, and they go on a bounded number of times. 0, or an errno. */
int sy_allocate_whole(int fd, uint64_t at, uint64_t bytes);
int sy_sync_whole(int fd);

/* From a pipe or a socket, which may give it in pieces. False: it ended or failed before that. */
bool sy_read_stream(int fd, void *out, size_t bytes);

#endif
