/* Requests by threads, each with a buffer of its own. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "disk_state.h"

struct worker {
	struct sy_disk *disk;
	uint8_t *buffer;
};

static void *work(void *argument)
{
	const struct worker worker = *(struct worker *)argument;
	struct sy_disk_request request;
	free(argument);
	while (sy_disk_take(worker.disk, worker.buffer, true, &request)) {
		size_t bytes = (size_t)request.count * SY_RECORD_BLOCK_BYTES;
		off_t at = (off_t)request.at;
		ssize_t done = sy_disk_reads(worker.disk, &request)
		                       ? pread(request.fd, request.buffer, bytes, at)
		                       : pwrite(request.fd, request.buffer, bytes, at);
		sy_disk_finish(worker.disk, &request, done >= 0 ? done : -errno);
	}
	return NULL;
}

static bool start_one(struct sy_disk *disk)
{
	struct worker *worker = malloc(sizeof *worker);
	if (worker == NULL)
		return false;
	*worker = (struct worker){disk, sy_disk_buffer(disk, disk->thread_count)};
	if (pthread_create(&disk->threads[disk->thread_count], NULL, work, worker) != 0) {
		free(worker);
		return false;
	}
	disk->thread_count++;
	return true;
}

bool sy_disk_threads_start(struct sy_disk *disk)
{
	bool started = true;
	for (uint32_t i = 0; i < SY_DISK_DEPTH && started; i++)
		started = start_one(disk);
	return started;
}
