#include "disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "disk_files.h"
#include "fail.h"
#include "guard.h"

/* Threads, which is how many requests are under way, and the size of one. */
enum { THREADS = 8, REQUEST_BLOCKS = 256, REQUEST_BYTES = REQUEST_BLOCKS * SY_RECORD_BLOCK_BYTES };
/* At most one line of trouble in so long. */
static const uint64_t quiet_ns = 10000000000u;

struct sy_disk {
	struct sy_disk_config config;
	struct sy_disk_files files;
	int event_fd;
	uint8_t *buffers; /* REQUEST_BYTES a thread */
	pthread_t threads[THREADS];
	uint32_t thread_count;

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t wake;
	struct sy_disk_job jobs[SY_DISK_JOBS_MAX]; /* a ring: job_count from job_first on */
	uint32_t job_first, job_count;
	struct sy_disk_end ends[SY_DISK_JOBS_MAX];
	uint32_t end_first, end_count;
	bool stop, said_cached;
	uint64_t said_ns, unsaid_count;
};

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

/* One request of a job. NULL, or why not; *ret_fault is the errno, if it is one. */
static const char *request(struct sy_disk *disk, const struct sy_disk_job *job, uint8_t *buffer,
                           uint64_t first, uint64_t count, int *ret_fault)
{
	uint64_t at = job->disk_at + first * SY_RECORD_BLOCK_BYTES;
	size_t bytes = (size_t)count * SY_RECORD_BLOCK_BYTES;
	uint8_t *part = disk->config.slab + job->offset;
	if (job->reads) {
		*ret_fault = sy_disk_files_read(&disk->files, at, buffer, bytes);
		if (*ret_fault == 0 && !sy_record_unpack(job, buffer, first, count, part))
			return "what was read is not what was written";
	} else {
		sy_record_pack(job, part, first, count, buffer);
		*ret_fault = sy_disk_files_write(&disk->files, at, buffer, bytes);
	}
	return *ret_fault != 0 ? strerror(*ret_fault) : NULL;
}

static struct sy_disk_end run_job(struct sy_disk *disk, const struct sy_disk_job *job,
                                  uint8_t *buffer)
{
	uint64_t first, count;
	int fault = 0;
	const char *why = NULL;
	sy_record_span(job, &first, &count);
	while (count > 0 && why == NULL) {
		uint64_t part = sy_min_u64(count, REQUEST_BLOCKS);
		why = request(disk, job, buffer, first, part, &fault);
		first += part;
		count -= part;
	}
	if (why != NULL)
		complain(disk, job, why);
	return (struct sy_disk_end){.blob = job->blob, .grant = job->grant, .ok = why == NULL,
	                            .full = fault == ENOSPC || fault == EDQUOT};
}

/* The next job, or false: the disk is being closed. */
static bool next_job(struct sy_disk *disk, struct sy_disk_job *ret_job)
{
	pthread_mutex_lock(&disk->lock);
	while (disk->job_count == 0 && !disk->stop)
		pthread_cond_wait(&disk->wake, &disk->lock);
	bool found = disk->job_count > 0;
	if (found) {
		*ret_job = disk->jobs[disk->job_first];
		disk->job_first = (disk->job_first + 1) % SY_DISK_JOBS_MAX;
		disk->job_count--;
	}
	pthread_mutex_unlock(&disk->lock);
	return found;
}

static void post(struct sy_disk *disk, const struct sy_disk_end *end)
{
	const uint64_t one = 1;
	pthread_mutex_lock(&disk->lock);
	disk->ends[(disk->end_first + disk->end_count++) % SY_DISK_JOBS_MAX] = *end;
	bool say = __atomic_load_n(&disk->files.cached, __ATOMIC_RELAXED) && !disk->said_cached;
	disk->said_cached = disk->said_cached || say;
	pthread_mutex_unlock(&disk->lock);
	ssize_t unused = write(disk->event_fd, &one, sizeof one);
	(void)unused;
	if (say)
		disk->config.say(disk->config.context, "disk tier: the files of --ssd-dir cannot be "
		                 "opened past the system's cache; going through it");
}

struct worker {
	struct sy_disk *disk;
	uint8_t *buffer;
};

static void *work(void *argument)
{
	const struct worker worker = *(struct worker *)argument;
	struct sy_disk_job job;
	free(argument);
	while (next_job(worker.disk, &job)) {
		const struct sy_disk_end end = run_job(worker.disk, &job, worker.buffer);
		post(worker.disk, &end);
	}
	return NULL;
}

static bool start_thread(struct sy_disk *disk)
{
	struct worker *worker = malloc(sizeof *worker);
	if (worker == NULL)
		return false;
	*worker = (struct worker){disk, disk->buffers + disk->thread_count * (size_t)REQUEST_BYTES};
	if (pthread_create(&disk->threads[disk->thread_count], NULL, work, worker) != 0) {
		free(worker);
		return false;
	}
	disk->thread_count++;
	return true;
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
	void *buffers = mmap(NULL, (size_t)THREADS * REQUEST_BYTES, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	disk->buffers = buffers != MAP_FAILED ? buffers : NULL;
	sy_status status = sy_disk_files_open(config, &disk->files, err);
	bool started = disk->event_fd >= 0 && disk->buffers != NULL;
	for (int i = 0; i < THREADS && started && status == SY_OK; i++)
		started = start_thread(disk);
	if (status == SY_OK && !started)
		status = sy_fail(err, SY_E_SYS, __func__, "no threads or memory for the disk tier");
	if (status != SY_OK)
		sy_disk_close(disk);
	else
		*ret_disk = disk;
	return status;
}

void sy_disk_close(struct sy_disk *disk)
{
	if (disk == NULL)
		return;
	pthread_mutex_lock(&disk->lock);
	disk->stop = true;
	disk->job_count = 0;
	pthread_cond_broadcast(&disk->wake);
	pthread_mutex_unlock(&disk->lock);
	for (uint32_t i = 0; i < disk->thread_count; i++)
		pthread_join(disk->threads[i], NULL);
	sy_disk_files_close(&disk->files);
	if (disk->buffers != NULL)
		munmap(disk->buffers, (size_t)THREADS * REQUEST_BYTES);
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

void sy_disk_run(struct sy_disk *disk, const struct sy_disk_job *job)
{
	pthread_mutex_lock(&disk->lock);
	SY_ASSERT(disk->job_count < SY_DISK_JOBS_MAX);
	disk->jobs[(disk->job_first + disk->job_count++) % SY_DISK_JOBS_MAX] = *job;
	pthread_cond_signal(&disk->wake);
	pthread_mutex_unlock(&disk->lock);
}

bool sy_disk_next(struct sy_disk *disk, struct sy_disk_end *ret_end)
{
	uint64_t unused = 0;
	ssize_t count = read(disk->event_fd, &unused, sizeof unused);
	(void)count;
	pthread_mutex_lock(&disk->lock);
	bool found = disk->end_count > 0;
	if (found) {
		*ret_end = disk->ends[disk->end_first];
		disk->end_first = (disk->end_first + 1) % SY_DISK_JOBS_MAX;
		disk->end_count--;
	}
	pthread_mutex_unlock(&disk->lock);
	return found;
}
