#include "slab_room.h"

#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bytes.h"
#include "fail.h"
#include "units.h"
#include "whole.h"

enum { FILE_TEXT_BYTES = 4096, NODES_MAX = 1024, MPOL_PREFERRED_MODE = 1 };

/* The text of a small file of the kernel's; empty if it cannot be read. */
static void read_text(const char *path, char out[FILE_TEXT_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? sy_read_whole(fd, out, FILE_TEXT_BYTES - 1) : 0;
	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = '\0';
}

/* The decimal number at `text` after blanks; false if there is none. *ret_end: what follows. */
static bool read_number(const char *text, uint64_t *ret_value, const char **ret_end)
{
	uint64_t value = 0;
	while (*text == ' ' || *text == '\t')
		text++;
	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9' && value < UINT64_MAX / 16; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	*ret_value = value;
	if (ret_end != NULL)
		*ret_end = text;
	return true;
}

static uint64_t meminfo(const char *text, const char *name)
{
	uint64_t kib = 0;
	const char *at = strstr(text, name);
	if (at == NULL || !read_number(at + strlen(name), &kib, NULL))
		return 0;
	return kib * 1024;
}

static uint64_t host_bytes(void)
{
	char text[FILE_TEXT_BYTES];
	read_text("/proc/meminfo", text);
	uint64_t available = meminfo(text, "MemAvailable:");
	return available != 0 ? available + meminfo(text, "SwapFree:") : UINT64_MAX;
}

/* What our container may use at all; what it uses now includes caches, which would give way. */
static uint64_t container_bytes(void)
{
	char text[FILE_TEXT_BYTES];
	uint64_t limit = 0;
	read_text("/sys/fs/cgroup/memory.max", text);
	return read_number(text, &limit, NULL) ? limit : UINT64_MAX;
}

static uint64_t mount_bytes(const char *dir)
{
	struct statvfs info;
	if (statvfs(dir, &info) != 0 || info.f_blocks == 0) /* no blocks: a mount without limit */
		return UINT64_MAX;
	return (uint64_t)info.f_bavail * info.f_frsize;
}

static sy_status fail_room(const char *what, uint64_t free_bytes, uint64_t bytes,
                           const char *advice, sy_error *err)
{
	char free_text[16], need_text[16];
	sy_format_bytes(free_bytes, free_text);
	sy_format_bytes(bytes, need_text);
	return sy_fail(err, SY_E_SYS, "sy_slab_create", "%s has %s free, the slab needs %s: %s", what,
	               free_text, need_text, advice);
}

static const char mount_advice[] =
	"give a smaller --slab-bytes, or more room (of a container: --shm-size; else "
	"mount -o remount,size=... )";

sy_status sy_slab_room_check(const char *dir, uint64_t bytes, sy_error *err)
{
	uint64_t mount = mount_bytes(dir), host = host_bytes(), container = container_bytes();
	if (bytes > mount)
		return fail_room(dir, mount, bytes, mount_advice, err);
	if (bytes > host)
		return fail_room("this host's memory", host, bytes, "give a smaller --slab-bytes", err);
	if (bytes > container)
		return fail_room("this container's memory", container, bytes,
		                 "give a smaller --slab-bytes", err);
	return SY_OK;
}

sy_status sy_slab_room_fail(const char *dir, uint64_t bytes, sy_error *err)
{
	return fail_room(dir, mount_bytes(dir), bytes, mount_advice, err);
}

/* Marks the nodes of a list such as "0-1,4"; returns how many. */
static uint32_t parse_nodes(const char *text, bool nodes[NODES_MAX])
{
	uint32_t count = 0;
	uint64_t first = 0, last = 0;
	while (read_number(text, &first, &text)) {
		last = first;
		if (*text == '-' && !read_number(text + 1, &last, &text))
			break;
		for (uint64_t node = first; node <= last && node < NODES_MAX; node++) {
			count += !nodes[node];
			nodes[node] = true;
		}
		if (*text != ',')
			break;
		text++;
	}
	return count;
}

void sy_slab_place(void *data, uint64_t bytes, uint32_t place)
{
	char text[FILE_TEXT_BYTES];
	bool nodes[NODES_MAX] = {false};
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
	read_text("/sys/devices/system/node/has_memory", text);
	uint32_t count = parse_nodes(text, nodes);
	if (count < 2)
		return;
	uint32_t left = place % count, node = 0;
	for (; node < NODES_MAX; node++) {
		if (nodes[node] && left-- == 0)
			break;
	}
	mask[node / (8 * sizeof mask[0])] |= 1ul << (node % (8 * sizeof mask[0]));
	/* By the raw call: libnuma is not worth a dependency. A refusal leaves the default. */
	(void)syscall(SYS_mbind, data, (unsigned long)bytes, MPOL_PREFERRED_MODE, mask,
	              (unsigned long)NODES_MAX, 0u);
}
