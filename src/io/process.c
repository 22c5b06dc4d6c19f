#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "entropy.h"
#include "fail.h"
#include "units.h"
#include "whole.h"

/* PF_EXITING of the kernel's task flags, and SIGKILL among the signals that wait for a thread. */
enum { FLAG_EXITING = 4, KILL_WAITS = 1 << (SIGKILL - 1) };
/* ZeroMQ closes in a thread of its own what is of no more use. */
enum { LOOKS = 100, LOOK_PAUSE_NS = 2000000 };

static size_t read_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : sy_read_whole(fd, out, size - 1);

	if (fd >= 0)
		close(fd);
	out[got < 0 ? 0 : got] = 0;
	return got < 0 ? 0 : (size_t)got;
}

static unsigned hex_digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
}

/* "1b4e28ba-2fa1-..." to 16 bytes; zeros where the system does not tell. */
static void read_boot_id(uint8_t out[16])
{
	char text[64];
	size_t length = read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
	size_t digits = 0;

	memset(out, 0, 16);
	for (size_t i = 0; i < length && digits < 32; i++) {
		bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');

		if (!digit)
			continue;
		out[digits / 2] = (uint8_t)((unsigned)out[digits / 2] << 4 | hex_digit(text[i]));
		digits++;
	}
}

/* A field of /proc/<pid>/stat, from 4 on, where all are numbers; 0: there is no such process. The
 * name in field 2 may hold blanks, but ends at the last ')'. */
static uint64_t stat_field(uint32_t pid, unsigned wanted)
{
	char path[32], text[1024];
	sy_format(path, sizeof path, "/proc/%u/stat", pid);
	size_t length = read_file(path, text, sizeof text);
	size_t at = length;
	unsigned field = 2;
	uint64_t value = 0;

	while (at > 0 && text[at - 1] != ')')
		at--;
	for (; at < length && field < wanted; at++)
		field += text[at] == ' ';
	for (; at < length && text[at] >= '0' && text[at] <= '9'; at++)
		value = value * 10 + (uint64_t)(text[at] - '0');
	return value;
}

uint64_t sy_process_start_time(uint32_t pid)
{
	return stat_field(pid, 22);
}

bool sy_process_is_ending(pid_t pid)
{
	return (stat_field((uint32_t)pid, 31) & KILL_WAITS) != 0 ||
	       (stat_field((uint32_t)pid, 9) & FLAG_EXITING) != 0;
}

bool sy_process_await_end(pid_t pid, int timeout_ms)
{
	int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd poller = {.fd = pidfd, .events = POLLIN};

	if (pidfd < 0)
		return pid > 0 && errno == ESRCH;
	bool ended = poll(&poller, 1, sy_process_is_ending(pid) ? timeout_ms : 0) == 1;
	close(pidfd);
	return ended;
}

void sy_process_identity(struct sy_identity *ret_identity)
{
	read_boot_id(ret_identity->boot_id);
	ret_identity->pid = (uint32_t)getpid();
	ret_identity->start_time = sy_process_start_time(ret_identity->pid);
	ret_identity->random = sy_entropy_u64();
}

void sy_process_allow_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* How many of those that are allowed are open. False: the system does not tell. */
static bool count_descriptors(uint64_t limit, uint64_t *ret_count)
{
	DIR *open_ones = opendir("/proc/self/fd");
	uint64_t count = 0, number;

	if (open_ones == NULL) {
		*ret_count = limit;
		return errno == EMFILE;
	}
	for (const struct dirent *entry; (entry = readdir(open_ones)) != NULL;)
		count += sy_parse_u64(entry->d_name, strlen(entry->d_name), &number, NULL) == SY_OK &&
		         number < limit;
	closedir(open_ones);
	*ret_count = count - 1; /* without the folder's own */
	return true;
}

sy_status sy_process_need_descriptors(uint32_t count, sy_error *err)
{
	const struct timespec pause = {.tv_nsec = LOOK_PAUSE_NS};
	struct rlimit files;
	uint64_t used = 0;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return SY_OK;
	for (uint32_t look = 0; look < LOOKS; look++) {
		if (!count_descriptors(files.rlim_cur, &used) || used + count <= files.rlim_cur)
			return SY_OK;
		nanosleep(&pause, NULL);
	}
	return sy_fail(err, SY_E_SYS, __func__,
	               "%llu open files are allowed, and %llu are needed to let one client in: raise "
	               "them, as with `ulimit -n %llu`", (unsigned long long)files.rlim_cur,
	               (unsigned long long)(used + count), (unsigned long long)(used + count));
}

bool sy_process_has_descriptors(uint32_t count)
{
	int fds[64];
	uint32_t got = 0;
	count = count < 64 ? count : 64;

	while (got < count && (fds[got] = eventfd(0, EFD_CLOEXEC)) >= 0)
		got++;
	int why = errno;
	for (uint32_t i = 0; i < got; i++)
		close(fds[i]);
	errno = why;
	return got == count;
}
