#include "segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

enum { LOCK_ATTEMPTS = 100 };

void sy_segments_lock_name(uint32_t unit_id, char ret_name[SY_SEGMENT_NAME_BYTES])
{
	sy_format(ret_name, SY_SEGMENT_NAME_BYTES, "slabyard-%u.lock", unit_id);
}

/* Whoever had it may be removing the file at this moment: the lock counts only if the name still
 * is that of the file that was locked. */
int sy_segments_lock(int dir_fd, uint32_t unit_id, int *ret_lock_fd)
{
	char name[SY_SEGMENT_NAME_BYTES];
	struct stat locked, named;
	sy_segments_lock_name(unit_id, name);
	for (uint32_t attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
		int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return errno;
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			int why = errno;
			close(fd);
			return why;
		}
		if (fstat(fd, &locked) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		    locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
			*ret_lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return EWOULDBLOCK;
}

void sy_segments_unlock(int dir_fd, uint32_t unit_id, int lock_fd)
{
	char name[SY_SEGMENT_NAME_BYTES];
	sy_segments_lock_name(unit_id, name);
	(void)unlinkat(dir_fd, name, 0);
	close(lock_fd);
}

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
