/* The lines of a file or of stdin, one at a time, in bounded memory. */
#ifndef SY_LINES_H
#define SY_LINES_H

#include <slabyard/status.h>

enum { SY_LINE_MAX_BYTES = 1 << 30 };

struct sy_lines {
	int fd;
	char *buffer;
	size_t capacity, begin, end; /* what is read and not given out: buffer[begin..end) */
	uint64_t line_number;        /* of the line given out last, from 1 */
	uint64_t taken_bytes;        /* given out so far, line ends included */
	uint64_t file_bytes;         /* 0: not known, it is no regular file */
	bool is_over;                /* nothing more can be read */
};

/* "-" is stdin. SY_E_SYS with a line that names the file. */
sy_status sy_lines_open(const char *path, struct sy_lines *ret_lines, sy_error *err);
void sy_lines_close(struct sy_lines *lines);

/* The next line without its end; *ret_line is NULL after the last. line[bytes] is a NUL, and
 * the line is valid until the next call. SY_E_SYS: cannot be read; SY_E_INVALID: too long. */
sy_status sy_lines_next(struct sy_lines *lines, char **ret_line, size_t *ret_bytes,
                        sy_error *err);

#endif
