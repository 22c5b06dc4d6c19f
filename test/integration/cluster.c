#include "cluster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slabyard/client.h>

#include "clock.h"
#include "daemon.h"
#include "dir_client.h"
#include "dir_server.h"
#include "number_of.h"
#include "runfiles.h"
#include "whole.h"

enum { WAIT_MS = 60000, LOOK_MS = 20 };

static const uint64_t SECOND_NS = 1000000000u;

/* True: something is there, or the other end is closed. A signal does not end the wait. */
static bool wait_readable(const struct cluster *cluster, int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	uint64_t end_ns = sy_clock_now_ns() + (uint64_t)WAIT_MS * 1000000u;
	int ready = 0;

	while (ready <= 0 && sy_clock_now_ns() < end_ns) {
		int wait_ms = sy_clock_poll_ms(sy_clock_now_ns(), end_ns);

		if (cluster->look != NULL) {
			cluster->look();
			wait_ms = wait_ms < LOOK_MS ? wait_ms : LOOK_MS;
		}
		ready = poll(&wanted, 1, wait_ms);
	}
	return ready > 0;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "cluster: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct exit_report {
	uint32_t unit_id;
	uint32_t pid;
};

/* argv: program, "cluster-directory", run directory, its address, N, socket */
enum { DIRECTORY_ARGC = 6 };

/* The directory's process: serves until the socket closes. A report on it is an exit. */
static _Noreturn void serve_directory(char **argv)
{
	const struct sy_dir_times usual = {5 * SECOND_NS, 45 * SECOND_NS, 60 * SECOND_NS};
	int reports = (int)strtol(argv[5], NULL, 10);
	const char *endpoints[] = {argv[3]};
	struct sy_dir_server *server;
	char state[128];
	sy_error err = {0};

	snprintf(state, sizeof state, "%s/directory.state", argv[2]);
	sy_status status = sy_dir_server_open(state, (uint32_t)strtoul(argv[4], NULL, 10),
	                                      getenv("TEST_LEASES") != NULL ? &usual : NULL, endpoints,
	                                      1, NULL, &server, &err);
	if (status != SY_OK) {
		fprintf(stderr, "cluster: %s\n", err.message);
		exit(status == SY_E_SYS ? 1 : 2); /* 1: of what the system gives it had too little */
	}
	for (;;) {
		struct pollfd fds[] = {{.fd = sy_dir_server_fd(server), .events = POLLIN},
		                       {.fd = reports, .events = POLLIN}};
		struct exit_report report;

		while (sy_dir_server_step(server))
			;
		if (poll(fds, 2, 1000) <= 0 || fds[1].revents == 0)
			continue;
		if (!sy_read_stream(reports, &report, sizeof report))
			break;
		sy_dir_server_process_exited(server, report.unit_id, report.pid);
	}
	sy_dir_server_close(server);
	exit(0);
}

/* This program again, with these words and of our descriptors this one. It ends when we do, by
 * this signal. */
static pid_t run_again(char *const *argv, int fd, int end_signal)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, end_signal);
		if (getppid() != parent)
			_exit(1);
		fcntl(fd, F_SETFD, 0);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	return pid;
}

/* The words of a list are dealt out in turn. False: there is no such variable. */
static bool word_of(const char *variable, uint32_t number, char *out, size_t bytes)
{
	const char *list = getenv(variable), *word = list;

	if (list == NULL)
		return false;
	for (uint32_t i = 0; i < number; i++) {
		word += strcspn(word, ",");
		word = *word == ',' ? word + 1 : list;
	}
	snprintf(out, bytes, "%.*s", (int)strcspn(word, ","), word);
	return true;
}

bool cluster_move_to(const char *variable, uint32_t number)
{
	char path[64], pid[16] = "";
	bool named = word_of(variable, number, pid, sizeof pid), moved = true;

	for (int i = 0; named && i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, i == 0 ? "net" : "mnt");
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		moved = moved && fd >= 0 && setns(fd, i == 0 ? CLONE_NEWNET : CLONE_NEWNS) == 0;
		close(fd);
	}
	return moved;
}

static int ready_fd;

static void say_ready(void *context, const struct sy_unit_info *info)
{
	char byte = 1;

	(void)context;
	(void)info;
	while (write(ready_fd, &byte, 1) < 0 && errno == EINTR)
		;
}

/* argv: program, "cluster-unit", run directory, directory, unit, N, slab bytes, short, pipe */
enum { UNIT_ARGC = 9 };

void cluster_choose_ucx(void)
{
	if (getenv("SLABYARD_TEST_UNIT_POLICY") == NULL) {
		setenv("SLABYARD_TEST_UNIT_POLICY", "allow-tcp", 1);
		setenv("SLABYARD_POLICY", "allow-tcp", 1);
		setenv("UCX_TLS", "tcp", 1);
		setenv("UCX_NET_DEVICES", "lo", 1);
	}
	setenv("SLABYARD_TRANSPORT", "ucx", 1);
}

void cluster_main(int argc, char **argv)
{
	const char *devices = getenv("SLABYARD_TEST_UNIT_DEVICES");
	static char listen[64];
	struct sy_unit_config config;

	if (argc == DIRECTORY_ARGC && strcmp(argv[1], "cluster-directory") == 0)
		serve_directory(argv);
	if (argc != UNIT_ARGC || strcmp(argv[1], "cluster-unit") != 0)
		return;
	if (devices != NULL)
		setenv("UCX_NET_DEVICES", devices, 1);
	sy_unit_config_init(&config);
	config.run_dir = argv[2];
	config.directory = argv[3];
	config.unit_id = (uint32_t)strtoul(argv[4], NULL, 10);
	if (!cluster_move_to("SLABYARD_TEST_UNIT_HOST", config.unit_id))
		die("setns");
	config.slot_count = (uint32_t)strtoul(argv[5], NULL, 10);
	config.slab_bytes = strtoull(argv[6], NULL, 10);
	if (strcmp(argv[7], "short") == 0) {
		config.heartbeat_ns = SECOND_NS / 20;
		config.session_expire_ns = config.read_pin_ns = config.retire_grace_ns = SECOND_NS;
	}
	const char *ssd_bytes = getenv("TEST_SSD_BYTES");
	config.ssd_dir = getenv("TEST_SSD_DIR");
	config.ssd_bytes = ssd_bytes != NULL ? strtoull(ssd_bytes, NULL, 10) : 0;
	config.zmq_only = getenv("SLABYARD_TEST_ZMQ") != NULL;
	config.policy_name = getenv("SLABYARD_TEST_UNIT_POLICY");
	if (word_of("SLABYARD_TEST_UNIT_LISTEN", config.unit_id, listen, sizeof listen)) {
		config.listen = listen;
		config.insecure = true; /* only the test is there */
	}
	if (getenv("SLABYARD_TEST_NO_EAGER") != NULL)
		config.eager_max_bytes = config.inline_max_bytes = 0;
	ready_fd = (int)strtol(argv[8], NULL, 10);
	config.ready = say_ready;
	exit(sy_unit_run(&config, 1));
}

int cluster_spawn(struct cluster *cluster, uint32_t unit_id)
{
	char id[16], count[16], bytes[24], fd[16];
	int ready[2];

	if (pipe2(ready, O_CLOEXEC) != 0)
		die("pipe");
	snprintf(id, sizeof id, "%u", unit_id);
	snprintf(count, sizeof count, "%u", cluster->unit_count);
	snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)cluster->slab_bytes);
	snprintf(fd, sizeof fd, "%d", ready[1]);
	char *argv[] = {"cluster-unit", "cluster-unit", cluster->run_dir, cluster->directory, id,
	                count, bytes, cluster->short_leases ? "short" : "long", fd, NULL};
	/* A unit removes its slab at this signal. */
	cluster->units[unit_id] = run_again(argv, ready[1], SIGTERM);
	close(ready[1]);
	return ready[0];
}

bool cluster_is_ready(const struct cluster *cluster, int asked_fd)
{
	char byte;

	return wait_readable(cluster, asked_fd) && sy_read_stream(asked_fd, &byte, 1);
}

static void start_directory(struct cluster *cluster)
{
	char count[16], fd[16];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		die("socketpair");
	snprintf(count, sizeof count, "%u", cluster->unit_count);
	snprintf(fd, sizeof fd, "%d", ends[1]);
	char *argv[] = {"cluster-directory", "cluster-directory", cluster->run_dir,
	                cluster->directory, count, fd, NULL};
	cluster->server = run_again(argv, ends[1], SIGKILL);
	cluster->server_socket = ends[0];
	close(ends[1]);
}

static void start_unit(struct cluster *cluster, uint32_t unit_id)
{
	int asked_fd = cluster_spawn(cluster, unit_id);

	if (!cluster_is_ready(cluster, asked_fd))
		die("a unit did not start");
	close(asked_fd);
}

void cluster_start(struct cluster *cluster, uint32_t unit_count, uint64_t slab_bytes,
                   bool short_leases)
{
	*cluster = (struct cluster){.unit_count = unit_count, .slab_bytes = slab_bytes,
	                            .short_leases = short_leases};
	const char *top = getenv("TEST_RUN_DIRS"); /* of one who removes what we may not live to */
	snprintf(cluster->run_dir, sizeof cluster->run_dir, "%s/slabyard-test-XXXXXX",
	         top != NULL ? top : "/tmp");
	if (mkdtemp(cluster->run_dir) == NULL)
		die("mkdtemp");
	snprintf(cluster->directory, sizeof cluster->directory, "ipc://%s/directory.ipc",
	         cluster->run_dir);
	start_directory(cluster);
	for (uint32_t u = 0; u < unit_count; u++)
		start_unit(cluster, u);
}

static int wait_for(const struct cluster *cluster, pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), status = 0;

	if (fd >= 0 && !wait_readable(cluster, fd)) {
		fprintf(stderr, "cluster: process %d does not end\n", (int)pid);
		kill(pid, SIGKILL);
	}
	close(fd);
	waitpid(pid, &status, 0);
	return status;
}

static bool look(void *context)
{
	const struct cluster *cluster = context;

	return cluster->look != NULL && cluster->look();
}

/* A directory that just ended does not hear it, and its successor is told. */
static void report_exit(const struct cluster *cluster, const struct exit_report *report)
{
	while (send(cluster->server_socket, report, sizeof *report, MSG_NOSIGNAL) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return;
		if (errno != EINTR)
			die("report");
	}
}

void cluster_kill(struct cluster *cluster, uint32_t unit_id, int signal)
{
	const struct exit_report report = {unit_id, (uint32_t)cluster->units[unit_id]};
	uint64_t end_ns = sy_clock_now_ns() + (uint64_t)WAIT_MS * 1000000u;
	struct sy_dir_client *client;
	struct sy_unit_list list = {0};
	pid_t told = 0;
	bool dead = false;

	kill(cluster->units[unit_id], signal);
	wait_for(cluster, cluster->units[unit_id]);
	cluster->units[unit_id] = 0;
	if (sy_dir_client_open(cluster->directory, &client, NULL) != SY_OK)
		die("directory");
	sy_dir_client_set_interrupt(client, look, cluster);
	while (!dead && sy_clock_now_ns() < end_ns) {
		if (told != cluster->server)
			report_exit(cluster, &report);
		told = cluster->server;
		if (sy_dir_client_units(client, 0, end_ns, &list, NULL) != SY_OK)
			die("directory");
		dead = list.units[unit_id].state == SY_UNIT_DEAD;
		sy_unit_list_done(&list);
	}
	sy_dir_client_close(client);
	if (!dead)
		die("the directory does not see the unit's end");
}

void cluster_restart_directory(struct cluster *cluster)
{
	wait_for(cluster, cluster->server);
	close(cluster->server_socket);
	start_directory(cluster);
}

void cluster_restart(struct cluster *cluster, uint32_t unit_id)
{
	start_unit(cluster, unit_id);
}

static void remove_dir(const char *path)
{
	DIR *dir = opendir(path);

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

/* A unit that was killed leaves its slab to its successor; here nobody comes. */
static void remove_slabs(const struct cluster *cluster)
{
	struct sy_run_dir dir;
	struct sy_run_unit unit;

	if (sy_run_dir_open(cluster->run_dir, false, &dir, NULL) != SY_OK)
		return;
	for (uint32_t u = 0; u < cluster->unit_count; u++) {
		if (cluster->units[u] == 0 && sy_run_unit_init(&dir, u, &unit, NULL) == SY_OK)
			sy_run_unit_done(&unit);
	}
}

/* Where clients were told to take UCX, the units counted no byte over shared memory, and over UCX
 * at least what the test moved, where nothing is small enough to travel with a message. */
static bool took_told_path(const struct cluster *cluster)
{
	const char *told = getenv("SLABYARD_TRANSPORT");
	const sy_client_options options = {.run_dir = cluster->run_dir, .timeout_ns = 60000000000u};
	sy_unit_report reports[CLUSTER_UNITS_MAX];
	uint64_t shm = 0, put = 0, got = 0;
	bool all = getenv("SLABYARD_TEST_NO_EAGER") != NULL;
	sy_client *client;

	if (told == NULL || strcmp(told, "ucx") != 0)
		return true;
	if (sy_client_open(&options, &client, NULL) != SY_OK ||
	    sy_client_reports(client, 0, reports, NULL) != SY_OK)
		return false;
	for (uint32_t u = 0; u < cluster->unit_count; u++) {
		if (!reports[u].answered)
			continue;
		shm += number_of(&reports[u], "shm_put_bytes") + number_of(&reports[u], "shm_get_bytes");
		put += number_of(&reports[u], "ucx_put_bytes");
		got += number_of(&reports[u], "ucx_get_bytes");
	}
	sy_client_close(client);
	printf("over shm %llu bytes, over ucx %llu put of %llu, %llu got of %llu\n",
	       (unsigned long long)shm, (unsigned long long)put,
	       (unsigned long long)cluster->put_bytes, (unsigned long long)got,
	       (unsigned long long)cluster->got_bytes);
	return shm == 0 && put > 0 &&
	       (!all || (put >= cluster->put_bytes && got >= cluster->got_bytes && got > 0));
}

void cluster_stop(struct cluster *cluster)
{
	bool clean = took_told_path(cluster);

	for (uint32_t u = 0; u < cluster->unit_count; u++) {
		if (cluster->units[u] > 0)
			kill(cluster->units[u], SIGTERM);
	}
	for (uint32_t u = 0; u < cluster->unit_count; u++) {
		if (cluster->units[u] > 0)
			clean = wait_for(cluster, cluster->units[u]) == 0 && clean;
	}
	close(cluster->server_socket);
	clean = wait_for(cluster, cluster->server) == 0 && clean;
	remove_slabs(cluster);
	remove_dir(cluster->run_dir);
	if (!clean) {
		fprintf(stderr, "cluster: a process did not end cleanly, or values took another way than "
		                "they were told\n");
		exit(1);
	}
}
