/* Mounts that only this process and those it makes see, and that go with them. */
#ifndef SY_TEST_OWN_MOUNTS_H
#define SY_TEST_OWN_MOUNTS_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return written;
}

/* One who is not root mounts as the root of a user namespace of his own. */
static bool enter_mount_namespace(void)
{
	char users[32], groups[32];
	if (unshare(CLONE_NEWNS) == 0)
		return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
	snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/uid_map", users) &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/gid_map", groups);
}

#endif
