/* Drives one set of rows through every contender given: the compiled part of scripts/bench.
 *
 *   driver --rows N (--bytes N | --grpo) [--rounds N] [--processes N] [--threads N]
 *          --peer KIND,NAME,ADDRESS,TUNED[,PID]...  --case NAME=OP:ROWS:OPS...
 *
 * KIND is slabyard, memcpy, redis or memcached, whose servers run already; outside, a program that
 * does its part by itself when told to; or wake, whose ADDRESS is how many processes it starts. OP
 * is put, get, overwrite, clear, attach, each also with a way before it: c (columns) or v (view);
 * cycle is put and get. Prints a line of JSON a case and contender; exits 1 if a contender failed
 * that is not outside. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

enum { POPULATE_ROWS = 1024 };
static const uint64_t populate_bytes = 1u << 20;

_Noreturn static void die(const char *what, const char *which)
{
	fprintf(stderr, "bench: %s: %s\n", what, which);
	exit(2);
}

bool peer_fail(struct peer *peer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(peer->error, sizeof peer->error, format, args);
	va_end(args);
	return false;
}

static uint32_t number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value == 0 || value > UINT32_MAX)
		die("no number from 1 to 2^32 - 1", text);
	return (uint32_t)value;
}

/* Cuts the text before the next `mark`, or all that is left. */
static char *cut(char **text, char mark)
{
	char *start = *text, *end = strchr(start, mark);

	if (end != NULL)
		*end = '\0';
	*text = end != NULL ? end + 1 : start + strlen(start);
	return start;
}

static void peer_add(struct run *run, char *text)
{
	static const struct peer_kind *const kinds[] = {&peer_slabyard, &peer_memcpy, &peer_redis,
	                                                &peer_memcached, &peer_wake,
	                                                &peer_outside};
	struct peer *peer = &run->peers[run->peer_count];
	const char *kind = cut(&text, ',');

	if (run->peer_count++ == RUN_PEERS_MAX)
		die("too many peers", kind);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i]->name, kind) == 0)
			peer->kind = kinds[i];
	}
	if (peer->kind == NULL)
		die("no such kind of peer", kind);
	snprintf(peer->name, sizeof peer->name, "%s", cut(&text, ','));
	snprintf(peer->address, sizeof peer->address, "%s", cut(&text, ','));
	peer->tuned = strcmp(cut(&text, ','), "1") == 0;
	if (*text == '\0')
		return;
	peer->servers = calloc(1, sizeof *peer->servers);
	if (peer->servers == NULL)
		die("memory", peer->name);
	peer->servers[0] = (pid_t)number(text);
	peer->server_count = 1;
}

static void case_add(struct run *run, char *text)
{
	static const struct {
		const char *name;
		enum run_op op;
		enum peer_way way;
	} ops[] = {
		{"put", RUN_PUT, PEER_KEYS},        {"cput", RUN_PUT, PEER_COLUMNS},
		{"get", RUN_GET, PEER_KEYS},        {"cget", RUN_GET, PEER_COLUMNS},
		{"vget", RUN_GET, PEER_VIEW},       {"overwrite", RUN_OVERWRITE, PEER_KEYS},
		{"clear", RUN_CLEAR, PEER_COLUMNS}, {"attach", RUN_ATTACH, PEER_KEYS},
		{"cycle", RUN_CYCLE, PEER_COLUMNS},
	};
	struct run_case *of = &run->cases[run->case_count];
	bool known = false;

	if (run->case_count++ == RUN_CASES_MAX)
		die("too many cases", text);
	snprintf(of->name, sizeof of->name, "%s", cut(&text, '='));
	const char *op = cut(&text, ':');
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		if (strcmp(ops[i].name, op) != 0)
			continue;
		of->op = ops[i].op;
		of->way = ops[i].way;
		known = true;
	}
	if (!known)
		die("no such operation", op);
	of->rows = number(cut(&text, ':'));
	of->ops = number(text);
}

struct options {
	uint32_t rows, bytes;
	bool grpo;
};

static struct options parse(struct run *run, int argc, char **argv)
{
	static const struct option longs[] = {
		{"rows", required_argument, NULL, 'n'},      {"bytes", required_argument, NULL, 'b'},
		{"grpo", no_argument, NULL, 'g'},            {"rounds", required_argument, NULL, 'r'},
		{"processes", required_argument, NULL, 'p'}, {"threads", required_argument, NULL, 't'},
		{"peer", required_argument, NULL, 'P'},      {"case", required_argument, NULL, 'c'},
		{0},
	};
	struct options options = {0};

	run->rounds = 5;
	run->processes = run->threads = 1;
	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		switch (c) {
		case 'n': options.rows = number(optarg); break;
		case 'b': options.bytes = number(optarg); break;
		case 'g': options.grpo = true; break;
		case 'r': run->rounds = number(optarg); break;
		case 'p': run->processes = number(optarg); break;
		case 't': run->threads = number(optarg); break;
		case 'P': peer_add(run, optarg); break;
		case 'c': case_add(run, optarg); break;
		default: exit(2);
		}
	}
	if (options.rows == 0 || (options.bytes == 0 && !options.grpo) || run->peer_count == 0 ||
	    run->case_count == 0)
		die("give --rows, --bytes or --grpo, peers and cases", argv[0]);
	if (run->threads > PEER_THREADS_MAX || run_workers(run) > RUN_WORKERS_MAX)
		die("too many threads or processes", argv[0]);
	return options;
}

/* Batches of the cases decide how rows are put at first: what is replaced as a whole lies as a
 * whole. */
static void sizes_set(struct run *run)
{
	const struct payload *payload = &run->payload;
	uint64_t row_bytes = payload_bytes(payload, 0, payload->row_count) / payload->row_count;
	uint64_t rows = populate_bytes / (row_bytes + 1) + 1;

	run->populate_rows = rows < POPULATE_ROWS ? (uint32_t)rows : POPULATE_ROWS;
	for (size_t i = run->case_count; i > 0; i--) {
		const struct run_case *of = &run->cases[i - 1];

		if (of->rows > payload->row_count / run_workers(run))
			die("more rows an operation than there are", of->name);
		if (of->rows > 1 && of->op != RUN_CLEAR)
			run->populate_rows = of->rows;
		run->batch_max = of->rows > run->batch_max ? of->rows : run->batch_max;
		run->ops_max = of->ops > run->ops_max ? of->ops : run->ops_max;
	}
	if (run->populate_rows > payload->row_count)
		run->populate_rows = payload->row_count;
	if (run->populate_rows > run->batch_max)
		run->batch_max = run->populate_rows;
}

static void *share(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		die("memory", strerror(errno));
	return memory;
}

static void share_all(struct run *run)
{
	size_t samples = run->peer_count * (run->rounds + 1) * run_workers(run) * run->ops_max;
	pthread_barrierattr_t attributes;

	run->latency_ns = share(samples * sizeof *run->latency_ns);
	run->tallies = share(run->peer_count * sizeof *run->tallies);
	run->barrier = share(sizeof *run->barrier);
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(run->barrier, &attributes, run->processes);
	for (size_t p = 0; p < run->peer_count; p++) {
		struct peer *peer = &run->peers[p];

		peer->payload = &run->payload;
		peer->held = share(run->payload.row_count * sizeof *peer->held);
		memset(peer->held, 0xff, run->payload.row_count * sizeof *peer->held);
	}
}

/* A process of the crew that ends early takes the leader with it, which would wait for it at the
 * barrier for ever. */
static void crew_ended(int signal)
{
	static const char words[] = "bench: a process of the crew failed\n";
	int status;

	(void)signal;
	while (waitpid(-1, &status, WNOHANG) > 0) {
		if (status != 0) {
			(void)!write(STDERR_FILENO, words, sizeof words - 1);
			_exit(2);
		}
	}
}

/* The other processes of the crew; none of them has a client or a thread yet. */
static void crew_start(struct run *run)
{
	pid_t leader = getpid();

	signal(SIGCHLD, crew_ended);
	for (uint32_t i = 1; i < run->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork", strerror(errno));
		if (pid > 0)
			continue;
		signal(SIGCHLD, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != leader)
			_exit(1);
		run->process = i;
		return;
	}
}

static void peers_start(struct run *run)
{
	for (size_t p = 0; p < run->peer_count; p++) {
		if (run_join(run, p) && run->process == 0)
			run_populate(run, p);
	}
	run_meet(run);
}

int main(int argc, char **argv)
{
	static struct run run;
	struct options options = parse(&run, argc, argv);
	bool failed = false;

	if (options.grpo)
		payload_make_grpo(&run.payload, options.rows);
	else
		payload_make(&run.payload, options.rows, options.bytes);
	sizes_set(&run);
	share_all(&run);
	crew_start(&run);
	peers_start(&run);
	for (size_t c = 0; c < run.case_count; c++) {
		run_case_all(&run, &run.cases[c]);
		if (run.process == 0) {
			run_report(&run, &run.cases[c]);
			for (size_t p = 0; p < run.peer_count; p++) {
				struct run_tally *tally = &run.tallies[p];

				failed = failed || (tally->failed != 0 && run.peers[p].kind->burst == NULL);
				if (tally->failed == 0)
					memset(tally, 0, sizeof *tally);
			}
		}
		run_meet(&run);
	}
	for (size_t p = 0; p < run.peer_count; p++)
		run_part(&run, p);
	if (run.process != 0)
		_exit(0);
	signal(SIGCHLD, SIG_DFL);
	while (wait(NULL) > 0)
		;
	payload_done(&run.payload);
	return failed ? 1 : 0;
}
