/* How fast the disk tier spills blobs and reads them back, against a plain writer and reader past
 * the system's cache (O_DIRECT, io_uring, registered buffers) of the very same files: as many
 * requests at once, of the same size and at the same places, all taking turns.
 *
 *   bench_tier --dir DIR --rounds N BLOB_BYTES   a line of JSON a contender, as the driver's
 *
 * A round: four clients put rows of one blob each, more than the slab holds; get what is on the
 * disk in a shuffled order; clear all; then the plain writer writes as much, and the plain reader
 * reads it. The tier's rate is what `status` counts as written or read, over the time from the
 * first put that finds the slab nearly full to the last write, or of all gets. The first round
 * makes the files and is not counted. --no-uring: the unit is refused io_uring, its threads run
 * instead. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <slabyard/slabyard.h>

#include "cluster.h"
#include "disk_state.h"
#include "measure.h"
#include "prng.h"

enum {
	HUGE_BYTES = 2 << 20,
	BUFFERS_BYTES = (SY_DISK_DEPTH * SY_DISK_REQUEST_BYTES + HUGE_BYTES - 1) / HUGE_BYTES *
	                HUGE_BYTES,
};
enum { CLIENTS = 4, ROUNDS_MAX = 64, FILES_MAX = 256, GET_BYTES = 8 << 20, ROWS_MAX = 4096 };
static const uint64_t slab_bytes = 512u << 20, disk_bytes = 768u << 20, tier_bytes = 1u << 30;

enum phase { SPILL, UNSPILL, PHASES };
static const char *const phase_names[PHASES] = {"spill", "unspill"};

struct bench {
	size_t blob_bytes, payload_bytes; /* of one row */
	const char *dir;
	struct cluster cluster;
	sy_client *clients[CLIENTS];
	uint64_t rows, fill_rows;   /* put in a round; of them before the clock starts */
	uint64_t read_rows;
	uint32_t order[ROWS_MAX];   /* in which rows are got, or places read */
	atomic_uint_fast64_t next, last;
	double ours[PHASES][ROUNDS_MAX], theirs[PHASES][ROUNDS_MAX]; /* bytes a nanosecond */
};

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_tier: %s: %s\n", what, why);
	exit(1);
}

int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	return getenv("BENCH_NO_URING") != NULL ? -EPERM
	                                        : __real_io_uring_queue_init(entries, ring, flags);
}

static uint64_t count_of(const struct bench *bench, const char *name)
{
	sy_unit_report report;
	sy_error err = {0};
	if (sy_client_reports(bench->clients[0], 0, &report, &err) != SY_OK)
		die("status", err.message);
	for (size_t i = 0; i < report.count_count; i++) {
		if (strcmp(report.counts[i].name, name) == 0)
			return report.counts[i].value;
	}
	die("status has no", name);
}

struct worker {
	struct bench *bench;
	sy_client *client;
};

static void *put_rows(void *argument)
{
	const struct worker *worker = argument;
	struct bench *bench = worker->bench;
	uint8_t *bytes = malloc(bench->payload_bytes);
	sy_error err = {0};
	if (bytes == NULL)
		die("memory", strerror(errno));
	memset(bytes, 7, bench->payload_bytes);
	for (;;) {
		uint64_t row = atomic_fetch_add(&bench->next, 1);
		sy_key key = {row, "v", 1};
		sy_value value = {.data = bytes, .nbytes = bench->payload_bytes, .kind = SY_KIND_BYTES};
		if (row >= atomic_load(&bench->last))
			break;
		memcpy(bytes, &row, sizeof row);
		memcpy(bytes + bench->payload_bytes - sizeof row, &row, sizeof row);
		if (sy_client_put(worker->client, &key, &value, 1, 0, &err) != SY_OK)
			die("put", err.message);
	}
	free(bytes);
	return NULL;
}

static void *get_rows(void *argument)
{
	const struct worker *worker = argument;
	struct bench *bench = worker->bench;
	size_t many = GET_BYTES / bench->blob_bytes;
	sy_key keys[64];
	sy_error err = {0};
	for (;;) {
		uint64_t first = atomic_fetch_add(&bench->next, many), count = 0;
		sy_result *result = NULL;
		sy_value value;
		for (; count < many && first + count < bench->read_rows; count++)
			keys[count] = (sy_key){bench->order[first + count], "v", 1};
		if (count == 0)
			return NULL;
		if (sy_client_get(worker->client, keys, count, SY_GET_COPY, 0, &result, &err) != SY_OK)
			die("get", err.message);
		for (size_t i = 0; i < count; i++) {
			if (!sy_result_value(result, i, &value) || value.nbytes != bench->payload_bytes ||
			    memcmp(value.data, &keys[i].row, 8) != 0 ||
			    memcmp((const uint8_t *)value.data + value.nbytes - 8, &keys[i].row, 8) != 0)
				die("get", "wrong bytes");
		}
		sy_result_free(result);
	}
}

static void run_clients(struct bench *bench, void *(*run)(void *))
{
	pthread_t threads[CLIENTS];
	struct worker workers[CLIENTS];
	for (int i = 0; i < CLIENTS; i++) {
		workers[i] = (struct worker){bench, bench->clients[i]};
		if (pthread_create(&threads[i], NULL, run, &workers[i]) != 0)
			die("thread", strerror(errno));
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
}

static void wait_idle(const struct bench *bench)
{
	for (int i = 0; i < 100000 && count_of(bench, "ssd_running") > 0; i++)
		usleep(200);
}

static double spill(struct bench *bench)
{
	atomic_store(&bench->next, 0);
	atomic_store(&bench->last, bench->fill_rows);
	run_clients(bench, put_rows);
	wait_idle(bench);
	uint64_t before = count_of(bench, "ssd_written_bytes"), start_ns = measure_now_ns();
	atomic_store(&bench->next, bench->fill_rows);
	atomic_store(&bench->last, bench->rows);
	run_clients(bench, put_rows);
	wait_idle(bench);
	uint64_t took_ns = measure_now_ns() - start_ns;
	return (double)(count_of(bench, "ssd_written_bytes") - before) / (double)took_ns;
}

static double unspill(struct bench *bench)
{
	uint64_t before = count_of(bench, "ssd_read_bytes"), start_ns = measure_now_ns();
	atomic_store(&bench->next, 0);
	run_clients(bench, get_rows);
	uint64_t took_ns = measure_now_ns() - start_ns;
	return (double)(count_of(bench, "ssd_read_bytes") - before) / (double)took_ns;
}

static void clear(struct bench *bench)
{
	static uint64_t rows[ROWS_MAX];
	sy_error err = {0};
	for (uint64_t i = 0; i < bench->rows; i++)
		rows[i] = i;
	if (sy_client_clear(bench->clients[0], rows, bench->rows, NULL, 0, 0, NULL, &err) != SY_OK)
		die("clear", err.message);
	wait_idle(bench);
}

/* The plain contender. */
struct plain {
	struct io_uring ring;
	uint8_t *buffers;
	int files[FILES_MAX];
	uint64_t file_bytes[FILES_MAX];
	uint32_t file_count;
	uint64_t record_bytes, request_bytes;
};

static void open_plain(struct plain *plain, const struct bench *bench)
{
	struct iovec buffers[SY_DISK_DEPTH];
	DIR *dir = opendir(bench->dir);
	char path[512];
	*plain = (struct plain){.record_bytes = sy_record_bytes(bench->blob_bytes)};
	uint64_t blocks = plain->record_bytes / SY_RECORD_BLOCK_BYTES;
	uint64_t parts = (blocks + SY_DISK_REQUEST_BLOCKS - 1) / SY_DISK_REQUEST_BLOCKS;
	plain->request_bytes = (blocks + parts - 1) / parts * SY_RECORD_BLOCK_BYTES;
	for (const struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL;
	     entry = readdir(dir)) {
		snprintf(path, sizeof path, "%s/%s", bench->dir, entry->d_name);
		if (strstr(entry->d_name, ".seg") == NULL || plain->file_count == FILES_MAX)
			continue;
		int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd < 0)
			die(path, strerror(errno));
		plain->file_bytes[plain->file_count] = (uint64_t)lseek(fd, 0, SEEK_END);
		plain->files[plain->file_count++] = fd;
	}
	if (dir != NULL)
		closedir(dir);
	/* Of huge pages, as the unit's: with others it has half the rate. */
	void *memory = aligned_alloc(HUGE_BYTES, BUFFERS_BYTES);
	if (memory == NULL)
		die("memory", strerror(errno));
	madvise(memory, BUFFERS_BYTES, MADV_HUGEPAGE);
	memset(memory, 7, BUFFERS_BYTES);
	int fault = __real_io_uring_queue_init(SY_DISK_DEPTH, &plain->ring, 0);
	if (fault != 0)
		die("plain", strerror(-fault));
	plain->buffers = memory;
	for (size_t i = 0; i < SY_DISK_DEPTH; i++)
		buffers[i] = (struct iovec){plain->buffers + i * SY_DISK_REQUEST_BYTES,
		                            SY_DISK_REQUEST_BYTES};
	fault = io_uring_register_buffers(&plain->ring, buffers, SY_DISK_DEPTH);
	if (fault != 0)
		die("plain: registering buffers", strerror(-fault));
}

static void close_plain(struct plain *plain)
{
	io_uring_queue_exit(&plain->ring);
	free(plain->buffers);
	for (uint32_t i = 0; i < plain->file_count; i++)
		close(plain->files[i]);
}

/* Where record `number` is, were they laid one after the other, none over the end of a file. */
static bool place(const struct plain *plain, uint64_t number, int *ret_fd, uint64_t *ret_at)
{
	for (uint32_t i = 0; i < plain->file_count; i++) {
		uint64_t here = plain->file_bytes[i] / plain->record_bytes;
		if (number < here) {
			*ret_fd = plain->files[i];
			*ret_at = number * plain->record_bytes;
			return true;
		}
		number -= here;
	}
	return false;
}

static void wait_one(struct plain *plain, bool *busy, uint32_t *free_buffer)
{
	struct io_uring_cqe *cqe = NULL;
	if (io_uring_submit_and_wait(&plain->ring, 1) < 0 ||
	    io_uring_wait_cqe(&plain->ring, &cqe) != 0)
		die("plain", "io_uring");
	if (cqe->res <= 0)
		die("plain", strerror(-cqe->res));
	*free_buffer = (uint32_t)cqe->user_data;
	busy[*free_buffer] = false;
	io_uring_cqe_seen(&plain->ring, cqe);
}

static void send_one(struct plain *plain, uint32_t buffer, bool reads, int fd, uint64_t at,
                     unsigned bytes)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&plain->ring);
	uint8_t *data = plain->buffers + buffer * (size_t)SY_DISK_REQUEST_BYTES;
	if (reads)
		io_uring_prep_read_fixed(sqe, fd, data, bytes, at, (int)buffer);
	else
		io_uring_prep_write_fixed(sqe, fd, data, bytes, at, (int)buffer);
	sqe->user_data = buffer;
	(void)io_uring_submit(&plain->ring);
}

/* All records in this order, whole ones; of the written ones NULL is one after the other. */
static double run_plain(struct plain *plain, bool reads, const uint32_t *order, uint64_t count)
{
	bool busy[SY_DISK_DEPTH] = {false};
	uint32_t sent = 0, buffer = 0, under_way = 0;
	uint64_t bytes_done = 0, start_ns = measure_now_ns();
	for (uint64_t i = 0; i < count; i++) {
		int fd = -1;
		uint64_t at = 0;
		if (!place(plain, order != NULL ? order[i] : i, &fd, &at))
			continue;
		for (uint64_t done = 0; done < plain->record_bytes; done += plain->request_bytes) {
			uint64_t bytes = sy_min_u64(plain->request_bytes, plain->record_bytes - done);
			buffer = sent < SY_DISK_DEPTH ? sent : buffer;
			if (sent >= SY_DISK_DEPTH) {
				wait_one(plain, busy, &buffer);
				under_way--;
			}
			send_one(plain, buffer, reads, fd, at + done, (unsigned)bytes);
			busy[buffer] = true;
			under_way++;
			sent++;
			bytes_done += bytes;
		}
	}
	for (; under_way > 0; under_way--)
		wait_one(plain, busy, &buffer);
	return (double)bytes_done / (double)(measure_now_ns() - start_ns);
}

static void shuffle(uint32_t *order, uint64_t count, uint64_t seed)
{
	struct sy_prng prng;
	sy_prng_seed(&prng, seed);
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint64_t i = count; i > 1; i--) {
		uint64_t other = sy_prng_below(&prng, i);
		uint32_t kept = order[i - 1];
		order[i - 1] = order[other];
		order[other] = kept;
	}
}

static void run_round(struct bench *bench, uint32_t round)
{
	struct plain plain;
	/* The first round's are of no worth, and the next one's take their place. */
	uint32_t at = round > 0 ? round - 1 : 0;
	shuffle(bench->order, bench->read_rows, round);
	bench->ours[SPILL][at] = spill(bench);
	bench->ours[UNSPILL][at] = unspill(bench);
	clear(bench);
	open_plain(&plain, bench);
	bench->theirs[SPILL][at] = run_plain(&plain, false, NULL, bench->read_rows);
	bench->theirs[UNSPILL][at] = run_plain(&plain, true, bench->order, bench->read_rows);
	close_plain(&plain);
}

static void report(const struct bench *bench, uint32_t rounds)
{
	for (int phase = 0; phase < PHASES; phase++) {
		double ours[ROUNDS_MAX], theirs[ROUNDS_MAX], ratios[ROUNDS_MAX];
		for (uint32_t i = 0; i < rounds; i++) {
			ours[i] = bench->ours[phase][i];
			theirs[i] = bench->theirs[phase][i];
			ratios[i] = theirs[i] / ours[i];
		}
		const char *who[] = {"slabyard", "odirect"};
		double rates[] = {measure_quantile(ours, rounds, 0.5),
		                  measure_quantile(theirs, rounds, 0.5)};
		double over[] = {1, measure_quantile(ratios, rounds, 0.5)};
		for (int i = 0; i < 2; i++)
			printf("{\"case\": \"%s-%zuMiB\", \"who\": \"%s\", \"gb_s\": %.6g, "
			       "\"runs\": %u, \"ours_over_theirs\": %.6g}\n", phase_names[phase],
			       bench->blob_bytes >> 20, who[i], rates[i], rounds, over[i]);
	}
}

static void set_up(struct bench *bench)
{
	char bytes[32];
	sy_error err = {0};
	snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)tier_bytes);
	setenv("TEST_SSD_DIR", bench->dir, 1);
	setenv("TEST_SSD_BYTES", bytes, 1);
	cluster_start(&bench->cluster, 1, slab_bytes, false);
	sy_client_options options = {.run_dir = bench->cluster.run_dir, .ssd = true};
	for (int i = 0; i < CLIENTS; i++) {
		if (sy_client_open(&options, &bench->clients[i], &err) != SY_OK)
			die("client", err.message);
	}
	/* A blob of exactly so many bytes, its index among them. */
	bench->payload_bytes = bench->blob_bytes - 4096;
	/* Up to where the next one makes the unit spill. */
	bench->fill_rows = slab_bytes * 85 / 100 / bench->blob_bytes;
	bench->rows = bench->fill_rows + disk_bytes / bench->blob_bytes;
	/* The first ones are on the disk for sure: between them and the last lies the slab. */
	bench->read_rows = (bench->rows * bench->blob_bytes - slab_bytes) / bench->blob_bytes;
}

int main(int argc, char **argv)
{
	static struct bench bench;
	uint32_t rounds = 5;
	cluster_main(argc, argv);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
			bench.dir = argv[++i];
		else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
			rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--no-uring") == 0)
			setenv("BENCH_NO_URING", "1", 1);
		else
			bench.blob_bytes = (size_t)strtoull(argv[i], NULL, 10);
	}
	if (bench.dir == NULL || rounds == 0 || rounds > ROUNDS_MAX || bench.blob_bytes < 1u << 20 ||
	    bench.blob_bytes > GET_BYTES)
		die("usage", "bench_tier --dir DIR [--rounds N] [--no-uring] BLOB_BYTES (1 to 8 MiB)");
	set_up(&bench);
	for (uint32_t round = 0; round <= rounds; round++)
		run_round(&bench, round);
	report(&bench, rounds);
	for (int i = 0; i < CLIENTS; i++)
		sy_client_close(bench.clients[i]);
	cluster_stop(&bench.cluster);
	return 0;
}
