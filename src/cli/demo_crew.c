#include "demo_crew.h"
#include "fail.h"
#include "whole.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A phase ends long before: each call of a client has its deadline. */
enum { PHASE_MS = 1800000, END_MS = 60000 };
enum { WHAT_BYTES = 128 };

static const uint64_t CALL_NS = 60000000000u;

struct order {
	uint32_t phase, step;
};

static const char *role_name(bool is_producer)
{
	return is_producer ? "producer" : "trainer";
}

static void signals_restore(void)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN); /* the controller gets it, too, and ends us in order */
}

/* A client of its own, opened on the first order, so that a failure is an answer. */
static bool client_ready(struct sy_demo_hand *hand, const struct sy_demo_crew_config *config)
{
	sy_error err = {0};
	sy_client_options options = config->where;
	options.name_space = config->name_space;
	options.timeout_ns = CALL_NS;
	if (hand->client != NULL || sy_client_open(&options, &hand->client, &err) == SY_OK)
		return true;
	return sy_demo_hand_fail(hand, "%s", err.message);
}

/* False: the other end is closed. */
static bool write_stream(int fd, const void *from, size_t bytes)
{
	size_t put = 0;
	while (put < bytes) {
		ssize_t more = write(fd, (const char *)from + put, bytes - put);
		if (more < 0 && errno != EINTR)
			return false;
		put += more > 0 ? (size_t)more : 0;
	}
	return true;
}

bool sy_demo_crew_work(const struct sy_demo_crew_config *config, bool is_producer,
                       uint32_t number, int in_fd, int out_fd)
{
	struct sy_demo_hand hand = {
		.source = config->source, .role = role_name(is_producer), .number = number,
		.count = is_producer ? config->producer_count : config->trainer_count,
	};
	struct order order;
	bool heard = true;
	prctl(PR_SET_NAME, is_producer ? "demo-producer" : "demo-trainer");
	signal(SIGPIPE, SIG_IGN);
	while (heard && sy_read_stream(in_fd, &order, sizeof order)) {
		struct sy_demo_answer answer = {.ok = true};
		hand.answer = &answer;
		if (client_ready(&hand, config)) {
			if (is_producer)
				sy_demo_hand_produce(&hand, order.step);
			else
				sy_demo_hand_train(&hand, (enum sy_demo_phase)order.phase, order.step);
		}
		heard = write_stream(out_fd, &answer, sizeof answer);
	}
	sy_client_close(hand.client);
	sy_text_done(&hand.scratch);
	return heard;
}

/* This program again, by a command that takes it to another host: its stdin and stdout are the
 * socket. */
_Noreturn static void work_elsewhere(const struct sy_demo_crew_config *config,
                                     const struct sy_demo_worker *worker, int socket)
{
	bool is_producer = worker->role[0] == 'p';
	const char *by = config->by[is_producer ? SY_DEMO_PRODUCERS : SY_DEMO_TRAINERS];
	uint32_t count = is_producer ? config->producer_count : config->trainer_count;
	/* A shell that joins the words again (ssh) splits those that hold a space: paths must not. */
	static const char script[] = "by=$1; shift; eval \"exec $by \\\"\\$@\\\"\"";
	const char *argv[SY_DEMO_WORDS_MAX + 8] = {"sh", "-c", script, "sh", by};
	char what[WHAT_BYTES];
	size_t words = 5;
	sy_format(what, sizeof what, "%s:%u:%u:%s", worker->role, worker->number, count,
	          config->name_space);
	for (size_t i = 0; i < config->word_count; i++)
		argv[words++] = config->words[i];
	argv[words++] = "--worker";
	argv[words] = what;
	if (dup2(socket, STDIN_FILENO) >= 0 && dup2(socket, STDOUT_FILENO) >= 0)
		execv("/bin/sh", (char *const *)(uintptr_t)argv);
	_exit(127);
}

_Noreturn static void work(const struct sy_demo_crew_config *config,
                           const struct sy_demo_worker *worker, pid_t parent, int socket)
{
	bool is_producer = worker->role[0] == 'p';
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signals_restore();
	if (config->by[is_producer ? SY_DEMO_PRODUCERS : SY_DEMO_TRAINERS] != NULL)
		work_elsewhere(config, worker, socket);
	_exit(sy_demo_crew_work(config, is_producer, worker->number, socket, socket) ? 0 : 1);
}

static sy_status worker_start(const struct sy_demo_crew_config *config, struct sy_demo_crew *crew,
                              struct sy_demo_worker *worker, sy_error *err)
{
	int ends[2];
	pid_t parent = getpid();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot open a socket: %s", strerror(errno));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		/* Others' ends, too: they are to see it when the controller lets go. */
		for (uint32_t i = 0; i < crew->started_count; i++)
			close(crew->workers[i].socket);
		close(ends[0]);
		work(config, worker, parent, ends[1]);
	}
	int why = errno;
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return sy_fail(err, SY_E_SYS, __func__, "cannot start a process: %s", strerror(why));
	}
	worker->pid = pid;
	worker->socket = ends[0];
	crew->started_count++;
	return SY_OK;
}

sy_status sy_demo_crew_start(const struct sy_demo_crew_config *config,
                             struct sy_demo_crew *ret_crew, sy_error *err)
{
	uint32_t count = config->producer_count + config->trainer_count;
	struct sy_demo_crew *crew = ret_crew;
	*crew = (struct sy_demo_crew){
		.workers = calloc(count, sizeof *crew->workers),
		.producer_count = config->producer_count, .trainer_count = config->trainer_count,
		.stop_fd = config->stop_fd, .cluster_fd = config->cluster_fd,
	};
	if (crew->workers == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		bool is_producer = i < config->producer_count;
		struct sy_demo_worker *worker = &crew->workers[i];
		worker->role = role_name(is_producer);
		worker->number = is_producer ? i : i - config->producer_count;
		worker->socket = -1;
		sy_status status = worker_start(config, crew, worker, err);
		if (status != SY_OK)
			return status;
	}
	return SY_OK;
}

bool sy_demo_crew_is_over(const struct sy_demo_crew *crew)
{
	struct pollfd waits[] = {{.fd = crew->stop_fd, .events = POLLIN},
	                         {.fd = crew->cluster_fd, .events = POLLIN}};
	return poll(waits, 2, 0) > 0;
}

bool sy_demo_crew_stopped(const struct sy_demo_crew *crew, char *problem)
{
	struct signalfd_siginfo info;
	struct pollfd wait = {.fd = crew->stop_fd, .events = POLLIN};
	if (!sy_demo_crew_is_over(crew))
		return false;
	if (poll(&wait, 1, 0) <= 0) {
		snprintf(problem, SY_DEMO_MESSAGE_BYTES, "the demo's cluster has ended");
		return true;
	}
	int signal = SIGTERM;
	if (read(crew->stop_fd, &info, sizeof info) == (ssize_t)sizeof info)
		signal = (int)info.ssi_signo;
	snprintf(problem, SY_DEMO_MESSAGE_BYTES, "stopped by signal %d (%s); nothing of it is left",
	         signal, strsignal(signal));
	return true;
}

/* It is over or about to be: nobody else has its end of the socket. */
static void death_tell(struct sy_demo_worker *worker, char *problem)
{
	int wait_status = 0;
	while (waitpid(worker->pid, &wait_status, 0) < 0 && errno == EINTR)
		;
	worker->pid = 0;
	if (WIFSIGNALED(wait_status))
		snprintf(problem, SY_DEMO_MESSAGE_BYTES, "%s %" PRIu32 " was killed by signal %d (%s)",
		         worker->role, worker->number, WTERMSIG(wait_status),
		         strsignal(WTERMSIG(wait_status)));
	else
		snprintf(problem, SY_DEMO_MESSAGE_BYTES, "%s %" PRIu32 " ended with status %d",
		         worker->role, worker->number, WEXITSTATUS(wait_status));
}

static bool answer_take(struct sy_demo_worker *worker, struct sy_demo_tally *tally,
                        uint64_t *slowest_ns, char *problem)
{
	struct sy_demo_answer answer;
	ssize_t got = recv(worker->socket, &answer, sizeof answer, MSG_WAITALL);
	if (got != (ssize_t)sizeof answer) {
		death_tell(worker, problem);
		return false;
	}
	worker->is_working = false;
	if (!answer.ok) {
		memcpy(problem, answer.message, sizeof answer.message);
		return false;
	}
	tally->rows += answer.tally.rows;
	tally->values += answer.tally.values;
	tally->bytes += answer.tally.bytes;
	tally->checked_bytes += answer.tally.checked_bytes;
	if (answer.tally.call_ns > *slowest_ns)
		*slowest_ns = answer.tally.call_ns;
	return true;
}

static bool orders_send(struct sy_demo_worker *workers, uint32_t count, struct order order,
                        char *problem)
{
	for (uint32_t i = 0; i < count; i++) {
		ssize_t sent = send(workers[i].socket, &order, sizeof order, MSG_NOSIGNAL);
		if (sent != (ssize_t)sizeof order) {
			death_tell(&workers[i], problem);
			return false;
		}
		workers[i].is_working = true;
	}
	return true;
}

/* Any worker's end is noticed, also that of one that has nothing to do now. */
static bool answers_await(struct sy_demo_crew *crew, struct pollfd *waits,
                          struct sy_demo_tally *tally, uint64_t *slowest_ns, char *problem)
{
	uint32_t count = crew->started_count, working = 0;
	for (uint32_t i = 0; i < count; i++) {
		waits[i] = (struct pollfd){.fd = crew->workers[i].socket, .events = POLLIN};
		working += crew->workers[i].is_working;
	}
	waits[count] = (struct pollfd){.fd = crew->stop_fd, .events = POLLIN};
	waits[count + 1] = (struct pollfd){.fd = crew->cluster_fd, .events = POLLIN};
	while (working > 0) {
		int ready = poll(waits, count + 2, PHASE_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0) {
			snprintf(problem, SY_DEMO_MESSAGE_BYTES, "no worker has answered for half an hour");
			return false;
		}
		if (sy_demo_crew_stopped(crew, problem))
			return false;
		for (uint32_t i = 0; i < count; i++) {
			if (waits[i].revents == 0)
				continue;
			if (!answer_take(&crew->workers[i], tally, slowest_ns, problem))
				return false;
			working--;
		}
	}
	return true;
}

bool sy_demo_crew_run(struct sy_demo_crew *crew, enum sy_demo_phase phase, uint32_t step,
                      struct sy_demo_tally *tally, char *problem)
{
	const struct order order = {(uint32_t)phase, step};
	struct sy_demo_worker *workers = crew->workers;
	uint32_t count = crew->producer_count;
	uint64_t slowest_ns = 0;
	if (phase != SY_DEMO_PUT) {
		workers += crew->producer_count;
		count = crew->trainer_count;
	}
	struct pollfd *waits = calloc(crew->started_count + 2, sizeof *waits);
	if (waits == NULL) {
		snprintf(problem, SY_DEMO_MESSAGE_BYTES, "out of memory");
		return false;
	}
	bool ok = orders_send(workers, count, order, problem) &&
	          answers_await(crew, waits, tally, &slowest_ns, problem);
	tally->call_ns += slowest_ns;
	free(waits);
	return ok;
}

/* Lets go of the socket; the worker ends by itself then. One that does not is killed. */
static void worker_end(struct sy_demo_worker *worker, bool at_once)
{
	struct pollfd wait = {.fd = worker->socket, .events = POLLIN};
	if (worker->pid > 0 && !at_once) {
		shutdown(worker->socket, SHUT_WR);
		int ready;
		do
			ready = poll(&wait, 1, END_MS);
		while (ready < 0 && errno == EINTR);
		at_once = ready <= 0;
	}
	if (worker->pid > 0 && at_once)
		kill(worker->pid, SIGKILL);
}

bool sy_demo_crew_end(struct sy_demo_crew *crew, bool at_once, char *problem)
{
	bool ok = true;
	for (uint32_t i = 0; i < crew->started_count; i++)
		worker_end(&crew->workers[i], at_once);
	for (uint32_t i = 0; i < crew->started_count; i++) {
		struct sy_demo_worker *worker = &crew->workers[i];
		int wait_status = 0;
		close(worker->socket);
		if (worker->pid <= 0)
			continue;
		while (waitpid(worker->pid, &wait_status, 0) < 0 && errno == EINTR)
			;
		if (wait_status != 0 && ok && !at_once) {
			ok = false;
			snprintf(problem, SY_DEMO_MESSAGE_BYTES, "%s %" PRIu32 " did not end cleanly",
			         worker->role, worker->number);
		}
	}
	free(crew->workers);
	crew->workers = NULL;
	crew->started_count = 0;
	return ok;
}
