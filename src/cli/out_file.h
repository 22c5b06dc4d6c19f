/* A file that is written whole or not at all. */
#ifndef SY_OUT_FILE_H
#define SY_OUT_FILE_H

#include <slabyard/status.h>

/* Writes beside `path` and renames; where that is a link, it is followed first, and where it is
 * a device or a pipe, it is written to as it is. "-" is stdout. SY_E_SYS with a line that names
 * the file; a file that was there is as before then. */
sy_status sy_out_file_write(const char *path, const void *data, uint64_t bytes, sy_error *err);

#endif
