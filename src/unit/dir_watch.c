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
	struct sy_lease *lease;
	uint32_t unit_id;
	uint64_t incarnation, interval_ns;
	int news_fd, stop_fd;
	pthread_t thread;
	atomic_int state;
};

/* One renewal's wait: less than the lease, so that some are tried within it; yet as long as a slow
 * directory may take, for one given up early would never be answered. */
static const uint64_t answer_min_ns = 500000000u, answer_max_ns = 10000000000u;

static void set_state(struct sy_dir_watch *watch, enum sy_unit_state state)
{
	const uint64_t one = 1;
	if (atomic_exchange(&watch->state, (int)state) == (int)state)
		return;
	/* Fails only if the counter is at its end, and then it is readable anyway. */
	ssize_t unused = write(watch->news_fd, &one, sizeof one);
	(void)unused;
}

static bool is_stopped(void *context)
{
	const struct sy_dir_watch *watch = context;
	struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
	return poll(&stop, 1, 0) > 0;
}

static void renew(struct sy_dir_watch *watch)
{
	struct sy_dir_renewal renewal;
	uint64_t answer_ns = sy_max_u64(watch->lease->fence_after_ns / 4, answer_min_ns);
	uint64_t deadline_ns = sy_clock_now_ns() + sy_min_u64(answer_ns, answer_max_ns);
	sy_status status = sy_dir_client_renew(watch->client, watch->unit_id, watch->incarnation,
	                                       deadline_ns, &renewal, NULL);
	if (status == SY_E_FATAL)
		set_state(watch, SY_UNIT_DEAD);
	if (status != SY_OK)
		return;
	sy_lease_renewed(watch->lease, renewal.sent_ns, renewal.answered_ns);
	set_state(watch, renewal.state == SY_UNIT_DRAINING ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE);
}

static void *run(void *argument)
{
	struct sy_dir_watch *watch = argument;
	struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
	for (;;) { /* until it is stopped */
		uint64_t now_ns = sy_clock_now_ns();
		int ready = poll(&stop, 1, sy_clock_poll_ms(now_ns, now_ns + watch->interval_ns));
		if (ready > 0)
			return NULL;
		renew(watch);
	}
}

sy_status sy_dir_watch_open(struct sy_dir_client *client, struct sy_lease *lease,
                            uint32_t unit_id, uint64_t incarnation, uint64_t interval_ns,
                            struct sy_dir_watch **ret_watch, sy_error *err)
{
	struct sy_dir_watch *watch = calloc(1, sizeof *watch);
	if (watch == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	watch->client = client;
	watch->lease = lease;
	watch->unit_id = unit_id;
	watch->incarnation = incarnation;
	watch->interval_ns = interval_ns;
	atomic_init(&watch->state, (int)SY_UNIT_ACTIVE);
	watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int failed = watch->news_fd < 0 || watch->stop_fd < 0 ? errno : 0;
	sy_dir_client_set_interrupt(client, is_stopped, watch);
	if (failed == 0)
		failed = pthread_create(&watch->thread, NULL, run, watch);
	if (failed == 0) {
		*ret_watch = watch;
		return SY_OK;
	}
	sy_dir_client_set_interrupt(client, NULL, NULL);
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
	sy_dir_client_set_interrupt(watch->client, NULL, NULL);
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
