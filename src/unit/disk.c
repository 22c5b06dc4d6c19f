#include "disk_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"

/* At most one line of trouble in so long. */
static const uint64_t quiet_ns = 10000000000u;
enum { HUGE_BYTES = 2 << 20 };
static const size_t buffers_bytes = ((size_t)SY_DISK_DEPTH * SY_DISK_REQUEST_BYTES +
                                     HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;

/* Trouble goes into the log, but not all of it: the counts in `status` have the rest. */
static void complain(struct sy_disk *disk, const struct sy_disk_job *job, const char *why)
{
	char line[160];
	uint64_t now_ns = sy_clock_now_ns();
	pthread_mutex_lock(&disk->lock);
	bool quiet = disk->said_ns != 0 && now_ns - disk->said_ns < quiet_ns;
	uint64_t unsaid = disk->unsaid_count;
	disk->unsaid_count = quiet ? unsaid + 1 : 0;
	if (!quiet)
		disk->said_ns = now_ns;
	pthread_mutex_unlock(&disk->lock);
	if (quiet)
		return;
	sy_format(line, sizeof line, "disk tier: a %s of %llu bytes failed: %s (%llu more since the "
	          "last such line)", job->reads ? "read" : "write",
	          (unsigned long long)job->nbytes, why, (unsigned long long)unsaid);
	disk->config.say(disk->config.context, line);
}

static void post(struct sy_disk *disk, struct sy_disk_active *active)
{
	const uint64_t one = 1;
	disk->ends[(disk->end_first + disk->end_count++) % SY_DISK_JOBS_MAX] = (struct sy_disk_end){
		.blob = active->job.blob, .grant = active->job.grant, .result = active->result};
	active->used = false;
	ssize_t unused = write(disk->event_fd, &one, sizeof one);
	(void)unused;
}

/* The blocks of the next request, and no others get them. False: no job waits. */
static bool claim(struct sy_disk *disk, struct sy_disk_request *request)
{
	if (disk->waiting_count == 0 || disk->stop)
		return false;
	request->active = disk->waiting[disk->waiting_first];
	struct sy_disk_active *active = &disk->active[request->active];
	uint64_t at = active->job.disk_at + active->next * SY_RECORD_BLOCK_BYTES;
	uint64_t here = sy_disk_files_left(&disk->files, at) / SY_RECORD_BLOCK_BYTES;
	request->first = active->next;
	request->count = sy_min_u64(sy_min_u64(active->left, active->part_blocks), here);
	active->next += request->count;
	active->left -= request->count;
	active->requests++;
	if (active->left == 0) {
		disk->waiting_first = (disk->waiting_first + 1) % SY_DISK_JOBS_MAX;
		disk->waiting_count--;
	}
	return true;
}

/* What is left of a job that failed is not begun. */
static void drop_rest(struct sy_disk *disk, struct sy_disk_active *active)
{
	uint32_t kept = 0;
	if (active->left == 0)
		return;
	active->left = 0;
	for (uint32_t i = 0; i < disk->waiting_count; i++) {
		uint32_t at = disk->waiting[(disk->waiting_first + i) % SY_DISK_JOBS_MAX];
		if (&disk->active[at] != active)
			disk->waiting[(disk->waiting_first + kept++) % SY_DISK_JOBS_MAX] = at;
	}
	disk->waiting_count = kept;
}

static void end_request(struct sy_disk *disk, const struct sy_disk_request *request,
                        enum sy_disk_result result, const char *why)
{
	struct sy_disk_active *active = &disk->active[request->active];
	if (result != SY_DISK_OK)
		complain(disk, &active->job, why);
	pthread_mutex_lock(&disk->lock);
	active->requests--;
	if (result != SY_DISK_OK) {
		active->result = (uint8_t)result;
		drop_rest(disk, active);
	}
	if (active->left == 0 && active->requests == 0)
		post(disk, active);
	pthread_mutex_unlock(&disk->lock);
}

/* A request that the system refused. */
static void fail_request(struct sy_disk *disk, const struct sy_disk_request *request, int fault)
{
	bool full = fault == ENOSPC || fault == EDQUOT;
	end_request(disk, request,
	            full ? SY_DISK_FULL : fault == ENOENT ? SY_DISK_CUT : SY_DISK_FAILED,
	            strerror(fault));
}

bool sy_disk_reads(const struct sy_disk *disk, const struct sy_disk_request *request)
{
	return disk->active[request->active].job.reads;
}

int64_t sy_disk_move(const struct sy_disk *disk, const struct sy_disk_request *request,
                     int64_t done)
{
	const int64_t bytes = (int64_t)(request->count * SY_RECORD_BLOCK_BYTES);
	while (done < bytes) {
		int64_t from = done - done % SY_RECORD_BLOCK_BYTES; /* O_DIRECT wants whole blocks */
		uint8_t *rest = request->buffer + from;
		off_t at = (off_t)request->at + from;
		ssize_t more = sy_disk_reads(disk, request)
		                       ? pread(request->fd, rest, (size_t)(bytes - from), at)
		                       : pwrite(request->fd, rest, (size_t)(bytes - from), at);
		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return -errno;
		if (from + more <= done)
			break; /* the end of the file */
		done = from + more;
	}
	return done;
}

void sy_disk_finish(struct sy_disk *disk, const struct sy_disk_request *request, int64_t result)
{
	const struct sy_disk_job *job = &disk->active[request->active].job;
	uint8_t *part = disk->config.slab + job->offset;
	bool whole = result == (int64_t)(request->count * SY_RECORD_BLOCK_BYTES);
	SY_FAILPOINT(UNIT_DISK_ANSWERED);
	if (result < 0)
		fail_request(disk, request, (int)-result);
	else if (!whole && job->reads)
		end_request(disk, request, SY_DISK_CUT, "its file is shorter");
	else if (!whole)
		end_request(disk, request, SY_DISK_FAILED, "only a part was taken");
	else if (job->reads &&
	         !sy_record_unpack(job, request->buffer, request->first, request->count, part))
		end_request(disk, request, SY_DISK_DAMAGED, "what was read is not what was written");
	else
		end_request(disk, request, SY_DISK_OK, NULL);
}

bool sy_disk_take(struct sy_disk *disk, uint8_t *buffer, bool wait,
                  struct sy_disk_request *ret_request)
{
	struct sy_disk_request request = {.buffer = buffer};
	for (;;) { /* one that has no file fails at once, and its job with it */
		pthread_mutex_lock(&disk->lock);
		while (wait && disk->waiting_count == 0 && !disk->stop)
			pthread_cond_wait(&disk->wake, &disk->lock);
		bool found = claim(disk, &request);
		pthread_mutex_unlock(&disk->lock);
		if (!found)
			return false;
		const struct sy_disk_job *job = &disk->active[request.active].job;
		uint64_t at = job->disk_at + request.first * SY_RECORD_BLOCK_BYTES;
		int fault = sy_disk_files_at(&disk->files, at, !job->reads, &request.fd, &request.at);
		if (fault == 0) {
			if (!job->reads)
				sy_record_pack(job, disk->config.slab + job->offset, request.first,
				               request.count, buffer);
			*ret_request = request;
			SY_FAILPOINT(UNIT_DISK_ASKED);
			return true;
		}
		fail_request(disk, &request, fault);
	}
}

bool sy_disk_stops(struct sy_disk *disk)
{
	pthread_mutex_lock(&disk->lock);
	bool stop = disk->stop;
	pthread_mutex_unlock(&disk->lock);
	return stop;
}

/* The ring where the system lets us and files are read and written past its cache, so that nothing
 * blocks; otherwise threads. */
static bool start_engine(struct sy_disk *disk)
{
	char line[160];
	if (disk->files.cached) {
		disk->config.say(disk->config.context, "disk tier: the files of --ssd-dir cannot be "
		                 "opened past the system's cache; going through it, by threads");
		return sy_disk_threads_start(disk);
	}
	int fault = sy_disk_ring_start(disk, 0);
	for (uint32_t i = 1; fault == 0 && i < SY_DISK_RINGS; i++)
		(void)sy_disk_ring_start(disk, i);
	if (fault == 0)
		return true;
	sy_format(line, sizeof line, "disk tier: the system refuses io_uring (%s); going on with "
	          "threads", strerror(fault));
	disk->config.say(disk->config.context, line);
	return sy_disk_threads_start(disk);
}

sy_status sy_disk_open(const struct sy_disk_config *config, struct sy_disk **ret_disk,
                       sy_error *err)
{
	struct sy_disk *disk = calloc(1, sizeof *disk);
	if (disk == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	disk->config = *config;
	pthread_mutex_init(&disk->lock, NULL);
	pthread_cond_init(&disk->wake, NULL);
	disk->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	disk->buffers = aligned_alloc(HUGE_BYTES, buffers_bytes);
	/* A device is told of 4 KiB pages one by one: of huge ones it reads twice as fast. */
	if (disk->buffers != NULL)
		(void)madvise(disk->buffers, buffers_bytes, MADV_HUGEPAGE);
	sy_status status = sy_disk_files_open(config, &disk->files, err);
	if (status == SY_OK &&
	    (disk->event_fd < 0 || disk->buffers == NULL || !start_engine(disk)))
		status = sy_fail(err, SY_E_SYS, __func__, "no threads or memory for the disk tier");
	if (status != SY_OK)
		sy_disk_close(disk);
	else
		*ret_disk = disk;
	return status;
}

/* All of them: which has a buffer to spare is known to it alone. */
static void wake_rings(const struct sy_disk *disk)
{
	for (uint32_t i = 0; i < SY_DISK_RINGS; i++)
		sy_disk_ring_wake(disk->rings[i]);
}

void sy_disk_close(struct sy_disk *disk)
{
	if (disk == NULL)
		return;
	pthread_mutex_lock(&disk->lock);
	disk->stop = true;
	pthread_cond_broadcast(&disk->wake);
	pthread_mutex_unlock(&disk->lock);
	wake_rings(disk);
	for (uint32_t i = 0; i < disk->thread_count; i++)
		pthread_join(disk->threads[i], NULL);
	for (uint32_t i = 0; i < SY_DISK_RINGS; i++)
		sy_disk_ring_free(disk->rings[i]);
	sy_disk_files_close(&disk->files);
	free(disk->buffers);
	if (disk->event_fd >= 0)
		close(disk->event_fd);
	pthread_cond_destroy(&disk->wake);
	pthread_mutex_destroy(&disk->lock);
	free(disk);
}

int sy_disk_fd(const struct sy_disk *disk)
{
	return disk->event_fd;
}

static uint32_t free_active(const struct sy_disk *disk)
{
	uint32_t at = 0;
	while (at < SY_DISK_JOBS_MAX && disk->active[at].used)
		at++;
	SY_ASSERT(at < SY_DISK_JOBS_MAX);
	return at;
}

void sy_disk_run(struct sy_disk *disk, const struct sy_disk_job *job)
{
	uint64_t first, count;
	sy_record_span(job, &first, &count);
	uint64_t parts = (count + SY_DISK_REQUEST_BLOCKS - 1) / SY_DISK_REQUEST_BLOCKS;
	pthread_mutex_lock(&disk->lock);
	uint32_t at = free_active(disk);
	disk->active[at] = (struct sy_disk_active){.job = *job, .used = true, .next = first,
	                                           .left = count,
	                                           .part_blocks = (count + parts - 1) / parts};
	disk->waiting[(disk->waiting_first + disk->waiting_count++) % SY_DISK_JOBS_MAX] = at;
	/* Its requests are several threads' work. */
	pthread_cond_broadcast(&disk->wake);
	pthread_mutex_unlock(&disk->lock);
	wake_rings(disk);
}

bool sy_disk_next(struct sy_disk *disk, struct sy_disk_end *ret_end)
{
	pthread_mutex_lock(&disk->lock);
	bool found = disk->end_count > 0;
	if (found) {
		*ret_end = disk->ends[disk->end_first];
		disk->end_first = (disk->end_first + 1) % SY_DISK_JOBS_MAX;
		disk->end_count--;
	}
	/* The descriptor tells of what is left: who asks does so a bounded number of times. */
	if (disk->end_count == 0) {
		uint64_t unused = 0;
		ssize_t count = read(disk->event_fd, &unused, sizeof unused);
		(void)count;
	}
	pthread_mutex_unlock(&disk->lock);
	return found;
}
