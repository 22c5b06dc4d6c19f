#include "lines.h"
#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 1 << 18 };

sy_status sy_lines_open(const char *path, struct sy_lines *ret_lines, sy_error *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat about;
	struct sy_lines lines = {.fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
	if (lines.fd < 0 || fstat(lines.fd, &about) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot open %s: %s", path, strerror(errno));
	if (S_ISREG(about.st_mode) && !is_stdin)
		lines.file_bytes = (uint64_t)about.st_size;
	lines.buffer = malloc(FIRST_BYTES + 1);
	lines.capacity = FIRST_BYTES;
	if (lines.buffer == NULL || S_ISDIR(about.st_mode)) {
		bool is_directory = lines.buffer != NULL;
		sy_lines_close(&lines);
		return sy_fail(err, SY_E_SYS, __func__,
		               is_directory ? "%s is a directory" : "no memory to read %s", path);
	}
	*ret_lines = lines;
	return SY_OK;
}

void sy_lines_close(struct sy_lines *lines)
{
	if (lines->fd > STDIN_FILENO)
		close(lines->fd);
	free(lines->buffer);
	*lines = (struct sy_lines){.fd = -1};
}

/* Makes room behind what is there: first by moving it, then by growing. */
static sy_status room_make(struct sy_lines *lines, sy_error *err)
{
	if (lines->begin > 0) {
		memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
		lines->end -= lines->begin;
		lines->begin = 0;
	}
	if (lines->end < lines->capacity)
		return SY_OK;
	if (lines->capacity >= SY_LINE_MAX_BYTES)
		return sy_fail(err, SY_E_INVALID, __func__, "the line is longer than 1 GiB");
	char *grown = realloc(lines->buffer, lines->capacity * 2 + 1);
	if (grown == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory for a long line");
	lines->buffer = grown;
	lines->capacity *= 2;
	return SY_OK;
}

static sy_status more_read(struct sy_lines *lines, sy_error *err)
{
	sy_status status = room_make(lines, err);
	ssize_t got = -1;
	while (status == SY_OK && got < 0) {
		got = read(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end);
		if (got < 0 && errno != EINTR)
			status = sy_fail(err, SY_E_SYS, __func__, "cannot read: %s", strerror(errno));
	}
	if (status != SY_OK)
		return status;
	lines->is_over = got == 0;
	lines->end += (size_t)got;
	return SY_OK;
}

sy_status sy_lines_next(struct sy_lines *lines, char **ret_line, size_t *ret_bytes, sy_error *err)
{
	char *mark = NULL;
	size_t searched = 0; /* of what is there, without a line end in it */
	while (mark == NULL) {
		size_t there = lines->end - lines->begin;
		mark = memchr(lines->buffer + lines->begin + searched, '\n', there - searched);
		searched = there;
		if (mark != NULL || lines->is_over)
			break;
		sy_status status = more_read(lines, err);
		if (status != SY_OK) {
			lines->line_number++;
			return status;
		}
	}
	if (mark == NULL && lines->begin == lines->end) {
		*ret_line = NULL;
		return SY_OK;
	}
	char *line = lines->buffer + lines->begin;
	size_t bytes = mark != NULL ? (size_t)(mark - line) : lines->end - lines->begin;
	line[bytes] = '\0'; /* over the line end, or over the byte kept for it */
	size_t step = bytes + (mark != NULL ? 1 : 0);
	lines->begin += step;
	lines->taken_bytes += step;
	lines->line_number++;
	*ret_line = line;
	*ret_bytes = bytes;
	return SY_OK;
}
