#include "lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bell.h"
#include "fail.h"
#include "message.h"

enum {
	/* What a later version may add to the largest message. */
	SLACK_BYTES = 64 << 10,
	/* Two of the largest messages. */
	QUEUE_BYTES_MAX = 2 * (SY_MESSAGE_MAX_BYTES + SLACK_BYTES),
};

struct sy_lane_message {
	struct sy_lane_message *next;
	size_t bytes;
	uint8_t data[];
};

static void set_up(struct sy_lane *lane, struct sy_lane_shared *shared,
                   struct sy_ring_shared *out, struct sy_ring_shared *in,
                   struct sy_ring_budget *budget)
{
	*lane = (struct sy_lane){
		.shared = shared, .budget = budget, .out = {.shared = out},
		.in = {.shared = in, .message_max = SY_MESSAGE_MAX_BYTES + SLACK_BYTES,
		       .budget = budget}};
}

/* All of it at once: a page that is first touched while a message is under way would cost more
 * than the message. */
static struct sy_lane_shared *map(int fd)
{
	void *shared = mmap(NULL, sizeof(struct sy_lane_shared), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_POPULATE, fd, 0);
	return shared != MAP_FAILED ? shared : NULL;
}

sy_status sy_lane_make(struct sy_ring_budget *budget, struct sy_lane *ret_lane, int *ret_fd,
                       sy_error *err)
{
	struct sy_lane_shared *shared = NULL;
	int fd = sy_shared_make("slabyard-lane", sizeof *shared);
	if (fd >= 0)
		shared = map(fd);
	if (shared == NULL || madvise(shared, sizeof *shared, MADV_DONTFORK) != 0) {
		int saved = errno;
		if (shared != NULL)
			munmap(shared, sizeof *shared);
		if (fd >= 0)
			close(fd);
		return sy_fail(err, SY_E_SYS, __func__, "no memory to share with a unit: %s",
		               strerror(saved));
	}
	set_up(ret_lane, shared, &shared->requests, &shared->replies, budget);
	*ret_fd = fd;
	return SY_OK;
}

bool sy_lane_map(int fd, struct sy_ring_budget *budget, struct sy_lane *ret_lane)
{
	struct sy_lane_shared *shared =
		sy_shared_check(fd, sizeof *shared) ? map(fd) : NULL;
	if (shared == NULL)
		return false;
	set_up(ret_lane, shared, &shared->replies, &shared->requests, budget);
	return true;
}

static void drop_first(struct sy_lane *lane)
{
	struct sy_lane_message *first = lane->first;
	lane->first = first->next;
	if (lane->first == NULL)
		lane->last = NULL;
	lane->first_at = 0;
	lane->queued_bytes -= first->bytes;
	lane->budget->used_bytes -= first->bytes;
	free(first);
}

void sy_lane_done(struct sy_lane *lane)
{
	while (lane->first != NULL)
		drop_first(lane);
	if (lane->shared != NULL) {
		sy_ring_reader_done(&lane->in);
		munmap(lane->shared, sizeof *lane->shared);
	}
	*lane = (struct sy_lane){0};
}

static bool queue(struct sy_lane *lane, const uint8_t *message, size_t bytes, size_t at)
{
	struct sy_ring_budget *budget = lane->budget;
	struct sy_lane_message *waiting = NULL;
	if (lane->queued_bytes + bytes <= QUEUE_BYTES_MAX &&
	    bytes <= budget->max_bytes - budget->used_bytes)
		waiting = malloc(sizeof *waiting + bytes);
	if (waiting == NULL) {
		lane->broken = true;
		return false;
	}
	waiting->next = NULL;
	waiting->bytes = bytes;
	memcpy(waiting->data, message, bytes);
	if (lane->last != NULL) {
		lane->last->next = waiting;
	} else {
		lane->first = waiting;
		lane->first_at = at;
	}
	lane->last = waiting;
	lane->queued_bytes += bytes;
	budget->used_bytes += bytes;
	return true;
}

/* False: it does not go now, or never. */
static bool write_on(struct sy_lane *lane, const uint8_t *message, size_t bytes, size_t *at)
{
	size_t before = *at;
	enum sy_ring_wrote wrote = sy_ring_write(&lane->out, message, bytes, at);
	lane->due |= *at != before;
	lane->broken |= wrote == SY_RING_MAD;
	return wrote == SY_RING_DONE;
}

bool sy_lane_send(struct sy_lane *lane, const void *message, size_t bytes)
{
	size_t at = 0;
	if (lane->broken)
		return false;
	if (lane->first == NULL && write_on(lane, message, bytes, &at))
		return true;
	return !lane->broken && queue(lane, message, bytes, at);
}

bool sy_lane_flush(struct sy_lane *lane)
{
	while (lane->first != NULL && !lane->broken &&
	       write_on(lane, lane->first->data, lane->first->bytes, &lane->first_at))
		drop_first(lane);
	return !lane->broken;
}

bool sy_lane_receive(struct sy_lane *lane, uint8_t *copy, const void **ret_message,
                     size_t *ret_bytes)
{
	const uint8_t *message = NULL;
	bool writer_waits = false;
	if (lane->broken)
		return false;
	enum sy_ring_read got = sy_ring_read(&lane->in, copy, &message, ret_bytes, &writer_waits);
	lane->due |= writer_waits;
	lane->broken |= got == SY_RING_BROKEN;
	*ret_message = message;
	return got == SY_RING_MESSAGE;
}
