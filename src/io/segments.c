#include "segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

void sy_segment_name(uint32_t unit_id, uint64_t incarnation, uint32_t segment,
                     char ret_name[SY_SEGMENT_NAME_BYTES])
{
	sy_format(ret_name, SY_SEGMENT_NAME_BYTES, "slabyard-%u-%016llx-%u.seg", unit_id,
	          (unsigned long long)incarnation, segment);
}

static bool is_segment(const char *name, uint32_t unit_id, uint64_t incarnation)
{
	char head[SY_SEGMENT_NAME_BYTES], tail[8] = "";
	size_t head_bytes = sy_format(head, sizeof head, "slabyard-%u-", unit_id);
	unsigned long long number = 0;
	unsigned segment = 0;
	int used = 0;
	if (strncmp(name, head, head_bytes) != 0 || strlen(name) >= SY_SEGMENT_NAME_BYTES)
		return false;
	return sscanf(name + head_bytes, "%16llx-%u%4s%n", &number, &segment, tail, &used) == 3 &&
	       strcmp(tail, ".seg") == 0 && name[head_bytes + (size_t)used] == 0 &&
	       (incarnation == 0 || number == incarnation);
}

void sy_segments_remove(int dir_fd, uint32_t unit_id, uint64_t incarnation)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
		if (is_segment(entry->d_name, unit_id, incarnation))
			(void)unlinkat(dir_fd, entry->d_name, 0);
	}
	closedir(dir);
}
