/* Requests by io_uring: two threads pack and check, and keep SY_DISK_DEPTH with the kernel, half
 * of them each by a ring of its own. One thread alone is busy all the time, the disk is not. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "disk_state.h"

/* What a completion is of: a buffer's number, or this. */
enum { DEPTH = SY_DISK_DEPTH / SY_DISK_RINGS, WAKE = DEPTH, ENTRIES = 2 * DEPTH };

struct sy_disk_ring {
	struct sy_disk *disk;
	uint8_t *buffers; /* DEPTH of them */
	struct io_uring uring;
	int wake_fd;
	bool wake_asked;   /* a read of wake_fd is with the kernel */
	bool registered;   /* the kernel knows the buffers, and need not look them up each time */
	uint64_t wake_count;
	struct sy_disk_request requests[DEPTH]; /* by buffer */
	bool busy[DEPTH];
	uint32_t busy_count;
};

static uint8_t *buffer(const struct sy_disk_ring *ring, uint32_t number)
{
	return ring->buffers + number * (size_t)SY_DISK_REQUEST_BYTES;
}

static void ask_wake(struct sy_disk_ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	io_uring_prep_read(sqe, ring->wake_fd, &ring->wake_count, sizeof ring->wake_count, 0);
	sqe->user_data = WAKE;
	ring->wake_asked = true;
}

/* There are more entries than requests, so that one is always to be had. */
static void submit(struct sy_disk_ring *ring, uint32_t number)
{
	const struct sy_disk_request *request = &ring->requests[number];
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	unsigned bytes = (unsigned)request->count * SY_RECORD_BLOCK_BYTES;
	bool reads = sy_disk_reads(ring->disk, request);
	if (ring->registered && reads)
		io_uring_prep_read_fixed(sqe, request->fd, request->buffer, bytes, request->at,
		                         (int)number);
	else if (ring->registered)
		io_uring_prep_write_fixed(sqe, request->fd, request->buffer, bytes, request->at,
		                          (int)number);
	else if (reads)
		io_uring_prep_read(sqe, request->fd, request->buffer, bytes, request->at);
	else
		io_uring_prep_write(sqe, request->fd, request->buffer, bytes, request->at);
	sqe->user_data = number;
	ring->busy[number] = true;
	ring->busy_count++;
}

/* The kernel is told of each at once: it works while the next one is packed. */
static void submit_all(struct sy_disk_ring *ring)
{
	for (uint32_t i = 0; i < DEPTH; i++) {
		if (ring->busy[i])
			continue;
		if (!sy_disk_take(ring->disk, buffer(ring, i), false, &ring->requests[i]))
			return;
		submit(ring, i);
		(void)io_uring_submit(&ring->uring);
	}
}

static void complete(struct sy_disk_ring *ring, uint64_t number, int result)
{
	if (number == WAKE) {
		ring->wake_asked = false;
		return;
	}
	ring->busy[number] = false;
	ring->busy_count--;
	const struct sy_disk_request *request = &ring->requests[number];
	/* Less than was asked is no end yet. */
	sy_disk_finish(ring->disk, request,
	               result > 0 ? sy_disk_move(ring->disk, request, result) : result);
}

static void *work(void *argument)
{
	struct sy_disk_ring *ring = argument;
	while (!sy_disk_stops(ring->disk) || ring->busy_count > 0) {
		struct io_uring_cqe *cqe = NULL;
		if (!ring->wake_asked)
			ask_wake(ring);
		submit_all(ring);
		(void)io_uring_submit_and_wait(&ring->uring, 1);
		/* One at a time, so that its buffer is in use again before the next one is checked. */
		if (io_uring_peek_cqe(&ring->uring, &cqe) != 0)
			continue;
		uint64_t number = cqe->user_data;
		int result = cqe->res;
		io_uring_cqe_seen(&ring->uring, cqe);
		complete(ring, number, result);
	}
	return NULL;
}

static void register_buffers(struct sy_disk_ring *ring)
{
	struct iovec buffers[DEPTH];
	for (uint32_t i = 0; i < DEPTH; i++)
		buffers[i] = (struct iovec){buffer(ring, i), SY_DISK_REQUEST_BYTES};
	/* Where a user may not lock as much memory it goes without. */
	ring->registered = io_uring_register_buffers(&ring->uring, buffers, DEPTH) == 0;
}

int sy_disk_ring_start(struct sy_disk *disk, uint32_t number)
{
	struct sy_disk_ring *ring = calloc(1, sizeof *ring);
	if (ring == NULL)
		return ENOMEM;
	ring->disk = disk;
	ring->buffers = sy_disk_buffer(disk, number * DEPTH);
	int fault = -io_uring_queue_init(ENTRIES, &ring->uring, 0);
	if (fault != 0) {
		free(ring);
		return fault;
	}
	ring->wake_fd = eventfd(0, EFD_CLOEXEC);
	register_buffers(ring);
	if (ring->wake_fd < 0)
		fault = errno;
	else
		fault = pthread_create(&disk->threads[disk->thread_count], NULL, work, ring);
	if (fault != 0) {
		sy_disk_ring_free(ring);
		return fault;
	}
	disk->rings[number] = ring;
	disk->thread_count++;
	return 0;
}

void sy_disk_ring_wake(const struct sy_disk_ring *ring)
{
	const uint64_t one = 1;
	if (ring == NULL)
		return;
	ssize_t unused = write(ring->wake_fd, &one, sizeof one);
	(void)unused;
}

void sy_disk_ring_free(struct sy_disk_ring *ring)
{
	if (ring == NULL)
		return;
	io_uring_queue_exit(&ring->uring);
	if (ring->wake_fd >= 0)
		close(ring->wake_fd);
	free(ring);
}
