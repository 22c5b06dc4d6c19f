#include "dir_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"

struct sy_dir_watch {
	struct sy_dir_client *client;
	uint32_t unit_id;
	uint64_t incarnation, interval_ns;
	int news_fd, stop_fd;
	pthread_t thread;
	atomic_int state;
};

static const uint64_t answer_ns = 500000000u;

static void set_state(struct sy_dir_watch *watch, enum sy_unit_state state)
{
	const uint64_t one = 1;
	if (atomic_exchange(&watch->state, (int)state) == (int)state)
		return;
	/* Fails only if the counter is at its end, and then it is readable anyway. */
	ssize_t unused = write(watch->news_fd, &one, sizeof one);
	(void)unused;
}

static void look(struct sy_dir_watch *watch, const struct sy_unit_info *unit)
{
	if (unit->unit_id != watch->unit_id || unit->state == SY_UNIT_NONE)
		return;
	if (unit->incarnation != watch->incarnation || unit->state == SY_UNIT_DEAD)
		set_state(watch, SY_UNIT_DEAD);
	else if (unit->state == SY_UNIT_DRAINING)
		set_state(watch, SY_UNIT_DRAINING);
	else
		set_state(watch, SY_UNIT_ACTIVE);
}

/* Returns the epoch to ask from next time. */
static uint64_t ask(struct sy_dir_watch *watch, uint64_t min_epoch)
{
	struct sy_unit_list list = {0};
	uint64_t deadline_ns = sy_clock_now_ns() + answer_ns;
	if (sy_dir_client_units(watch->client, min_epoch, deadline_ns, &list, NULL) != SY_OK)
		return min_epoch;
	for (uint32_t i = 0; i < list.count; i++)
		look(watch, &list.units[i]);
	uint64_t next = list.epoch + 1;
	sy_unit_list_done(&list);
	return next;
}

static void *run(void *argument)
{
	struct sy_dir_watch *watch = argument;
	struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
	uint64_t min_epoch = 0;
	for (;;) { /* until it is stopped */
		uint64_t now_ns = sy_clock_now_ns();
		int ready = poll(&stop, 1, sy_clock_poll_ms(now_ns, now_ns + watch->interval_ns));
		if (ready > 0)
			return NULL;
		min_epoch = ask(watch, min_epoch);
	}
}

sy_status sy_dir_watch_open(struct sy_dir_client *client, uint32_t unit_id, uint64_t incarnation,
                            uint64_t interval_ns, struct sy_dir_watch **ret_watch, sy_error *err)
{
	struct sy_dir_watch *watch = calloc(1, sizeof *watch);
	if (watch == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	watch->client = client;
	watch->unit_id = unit_id;
	watch->incarnation = incarnation;
	watch->interval_ns = interval_ns;
	atomic_init(&watch->state, (int)SY_UNIT_ACTIVE);
	watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int failed = watch->news_fd < 0 || watch->stop_fd < 0 ? errno : 0;
	if (failed == 0)
		failed = pthread_create(&watch->thread, NULL, run, watch);
	if (failed == 0) {
		*ret_watch = watch;
		return SY_OK;
	}
	if (watch->news_fd >= 0)
		close(watch->news_fd);
	if (watch->stop_fd >= 0)
		close(watch->stop_fd);
	free(watch);
	return sy_fail(err, SY_E_SYS, __func__, "cannot watch the directory: %s", strerror(failed));
}

void sy_dir_watch_close(struct sy_dir_watch *watch)
{
	const uint64_t one = 1;
	if (watch == NULL)
		return;
	ssize_t unused = write(watch->stop_fd, &one, sizeof one);
	(void)unused;
	pthread_join(watch->thread, NULL);
	close(watch->news_fd);
	close(watch->stop_fd);
	free(watch);
}

int sy_dir_watch_fd(const struct sy_dir_watch *watch)
{
	return watch->news_fd;
}

enum sy_unit_state sy_dir_watch_state(struct sy_dir_watch *watch)
{
	uint64_t count = 0;
	ssize_t unused = read(watch->news_fd, &count, sizeof count);
	(void)unused;
	return (enum sy_unit_state)atomic_load(&watch->state);
}
