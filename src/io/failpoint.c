/* What a build of failpoints does at them; no other build has this file. */
#include "failpoints.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dir_message.h"

static const char *const single_names[] = {
#define SINGLE_NAME(name, text, where) [SY_FAILPOINT_##name] = text,
	SY_FAILPOINT_LIST(SINGLE_NAME)
#undef SINGLE_NAME
};

static const char *const op_names[SY_FAILPOINT_KINDS] = {
#define OP_NAME(name, value, text) [value] = text,
	SY_OP_LIST(OP_NAME)
#undef OP_NAME
};

static const char *const directory_names[SY_FAILPOINT_KINDS] = {
#define OP_NAME(name, value, text) [value] = text,
	SY_DIR_OP_LIST(OP_NAME)
#undef OP_NAME
};

static const char *const notice_names[SY_FAILPOINT_KINDS] = {
	[SY_NOTICE_ABORT] = "abort", [SY_NOTICE_UNPIN] = "unpin", [SY_NOTICE_DRAINED] = "drained",
};

static const struct {
	uint32_t first;
	const char *text;
	const char *const *members;
} kinds[] = {
#define KIND_NAME(name, text, where, places) {SY_FAILPOINT_##name, text, op_names},
	SY_FAILPOINT_OP_LIST(KIND_NAME)
#undef KIND_NAME
#define KIND_NAME(name, text, where, places) {SY_FAILPOINT_##name, text, directory_names},
	SY_FAILPOINT_DIRECTORY_LIST(KIND_NAME)
#undef KIND_NAME
#define KIND_NAME(name, text, where, places) {SY_FAILPOINT_##name, text, notice_names},
	SY_FAILPOINT_NOTICE_LIST(KIND_NAME)
#undef KIND_NAME
};

const char *sy_failpoint_name(uint32_t point)
{
	static _Thread_local char name[64];

	if (point < sizeof single_names / sizeof single_names[0])
		return single_names[point];
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (point < kinds[i].first || point >= kinds[i].first + SY_FAILPOINT_KINDS)
			continue;
		const char *member = kinds[i].members[point - kinds[i].first];

		if (member == NULL)
			return NULL;
		snprintf(name, sizeof name, "%s.%s", kinds[i].text, member);
		return name;
	}
	return NULL;
}

static struct sy_failpoint_control *control;
static uint64_t held_ns; /* atomic */

static void map_control(void)
{
	const char *path = getenv("SLABYARD_FAILPOINTS");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED)
		control = memory;
}

static void sleep_for(uint64_t ns)
{
	struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (nanosleep(&left, &left) != 0)
		;
}

static void hold(uint64_t ns)
{
	sleep_for(ns);
	__atomic_add_fetch(&held_ns, ns, __ATOMIC_RELAXED);
}

static void act(void)
{
	const uint64_t millisecond_ns = 1000000;

	switch ((enum sy_failpoint_action)control->action) {
	case SY_FAILPOINT_KILL:
		kill(getpid(), SIGKILL);
		break;
	case SY_FAILPOINT_STOP:
		kill(getpid(), SIGSTOP);
		break;
	case SY_FAILPOINT_DELAY:
		hold(control->delay_ns);
		break;
	case SY_FAILPOINT_WAIT:
		for (int i = 0; i < 20000 && !__atomic_load_n(&control->go, __ATOMIC_ACQUIRE); i++)
			hold(millisecond_ns);
		break;
	}
}

bool sy_failpoint_waits(void)
{
	return control != NULL && __atomic_load_n(&control->armed, __ATOMIC_ACQUIRE) != 0 &&
	       __atomic_load_n(&control->pid, __ATOMIC_ACQUIRE) == 0;
}

uint64_t sy_failpoint_held_ns(void)
{
	return __atomic_load_n(&held_ns, __ATOMIC_RELAXED);
}

void sy_failpoint_hit(uint32_t point)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t nobody = 0;

	pthread_once(&once, map_control);
	if (control == NULL || !__atomic_load_n(&control->armed, __ATOMIC_ACQUIRE) ||
	    control->point != point)
		return;
	if (__atomic_add_fetch(&control->hits, 1, __ATOMIC_ACQ_REL) != control->nth)
		return;
	/* Whoever disarms it meanwhile must know whether this one acts. */
	if (__atomic_compare_exchange_n(&control->pid, &nobody, (uint32_t)getpid(), false,
	                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		act();
}
