/* Requests by threads, each with a buffer of its own. */
#include <stdlib.h>

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
	while (sy_disk_take(worker.disk, worker.buffer, true, &request))
		sy_disk_finish(worker.disk, &request, sy_disk_move(worker.disk, &request, 0));
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
