#include "child.h"
#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READS_PER_CALL = 16 };

/* From here to exec only what is safe in a child of a process with threads. */
_Noreturn static void child_run(char *const *argv, const char *program, pid_t parent, int null_fd,
                                int said_fd)
{
	static const char no_exec[] = "cannot run this program anew: is /proc mounted?\n";
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* Had the parent ended before that line, nobody would tell us. */
	if (getppid() != parent)
		_exit(1);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(said_fd, STDOUT_FILENO) < 0 ||
	    dup2(said_fd, STDERR_FILENO) < 0)
		_exit(1);
	close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	execv(program, argv);
	execv("/proc/self/exe", argv);
	ssize_t unused = write(STDERR_FILENO, no_exec, sizeof no_exec - 1);
	(void)unused;
	_exit(1);
}

/* The program's own path, so that its processes are listed by name; where it was replaced by a
 * newer build it is /proc/self/exe that still is the same program. */
static void program_path(char out[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", out, PATH_MAX - 1);
	out[bytes > 0 ? bytes : 0] = '\0';
	static const char gone[] = " (deleted)";
	size_t tail = sizeof gone - 1;
	if (bytes > (ssize_t)tail && strcmp(out + bytes - tail, gone) == 0)
		out[0] = '\0';
}

sy_status sy_child_start(char *const *argv, struct sy_child *ret_child, sy_error *err)
{
	char program[PATH_MAX];
	int said[2] = {-1, -1};
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	program_path(program);
	if (null_fd < 0 || pipe2(said, O_CLOEXEC) != 0 ||
	    fcntl(said[0], F_SETFL, O_NONBLOCK) != 0) {
		sy_status status = sy_fail(err, SY_E_SYS, __func__, "cannot open a pipe: %s",
		                           strerror(errno));
		for (size_t i = 0; i < 2; i++) {
			if (said[i] >= 0)
				close(said[i]);
		}
		if (null_fd >= 0)
			close(null_fd);
		return status;
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		child_run(argv, program, parent, null_fd, said[1]);
	int why = errno;
	close(null_fd);
	close(said[1]);
	/* Not reaped yet, so the pid is its own even if it has ended. */
	int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	if (pidfd < 0) {
		if (pid > 0) {
			why = errno;
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		close(said[0]);
		return sy_fail(err, SY_E_SYS, __func__, "cannot start a process: %s", strerror(why));
	}
	*ret_child = (struct sy_child){.pid = pid, .pidfd = pidfd, .said_fd = said[0]};
	return SY_OK;
}

/* "slabyard unit 3: " says nothing here: who listens knows which unit it is. */
static const char *without_prefix(const char *line)
{
	static const char prefix[] = "slabyard unit";
	if (strncmp(line, prefix, sizeof prefix - 1) != 0)
		return line;
	const char *rest = line + sizeof prefix - 1;
	rest += rest[0] == ' ' ? 1 + strspn(rest + 1, "0123456789") : 0;
	return strncmp(rest, ": ", 2) == 0 ? rest + 2 : line;
}

static void line_end(struct sy_child *child, void (*tell)(void *, const char *), void *context)
{
	if (child->line_bytes == 0)
		return;
	child->line[child->line_bytes] = '\0';
	if (child->held[0] != '\0')
		tell(context, child->held);
	child->held[0] = '\0';
	const char *line = without_prefix(child->line);
	memmove(child->held, line, strlen(line) + 1);
	child->line_bytes = 0;
}

static void bytes_take(struct sy_child *child, const char *bytes, size_t count,
                       void (*tell)(void *, const char *), void *context)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n')
			line_end(child, tell, context);
		else if (child->line_bytes < sizeof child->line - 1 && bytes[i] != '\0')
			child->line[child->line_bytes++] = bytes[i]; /* what is over the bound is cut */
	}
}

void sy_child_read(struct sy_child *child, void (*tell)(void *context, const char *line),
                   void *context)
{
	char bytes[1024];
	for (uint32_t reads = 0; reads < READS_PER_CALL && child->said_fd >= 0; reads++) {
		ssize_t got = read(child->said_fd, bytes, sizeof bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got > 0) {
			bytes_take(child, bytes, (size_t)got, tell, context);
			continue;
		}
		line_end(child, tell, context);
		close(child->said_fd);
		child->said_fd = -1;
	}
}

bool sy_child_is_over(const struct sy_child *child)
{
	struct pollfd wait = {.fd = child->pidfd, .events = POLLIN};
	return !child->ended && child->pid > 0 && poll(&wait, 1, 0) > 0;
}

void sy_child_reap(struct sy_child *child)
{
	/* It is over, so this does not wait. */
	while (waitpid(child->pid, &child->wait_status, 0) < 0 && errno == EINTR)
		;
	child->ended = true;
}

void sy_child_end_text(const struct sy_child *child, char *out, size_t size)
{
	if (WIFSIGNALED(child->wait_status)) {
		int signal = WTERMSIG(child->wait_status);
		const char *hint = signal == SIGKILL ? ", perhaps for want of memory" : "";
		sy_format(out, size, "was killed by signal %d (%s%s)", signal, strsignal(signal), hint);
		return;
	}
	sy_format(out, size, "ended with status %d", WEXITSTATUS(child->wait_status));
}

void sy_child_signal(const struct sy_child *child, int signal)
{
	if (!child->ended && child->pid > 0)
		pidfd_send_signal(child->pidfd, signal, NULL, 0);
}

void sy_child_go_on(const struct sy_child *child)
{
	siginfo_t info = {0};
	if (!child->ended && child->pid > 0 &&
	    waitid(P_PIDFD, (id_t)child->pidfd, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid != 0)
		pidfd_send_signal(child->pidfd, SIGCONT, NULL, 0);
}

void sy_child_done(struct sy_child *child)
{
	if (child->pidfd >= 0)
		close(child->pidfd);
	if (child->said_fd >= 0)
		close(child->said_fd);
	child->pidfd = -1;
	child->said_fd = -1;
}
