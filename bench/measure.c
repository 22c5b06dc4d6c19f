#include "measure.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now = {0};

	if (clock_gettime(clock, &now) != 0)
		return 0;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t measure_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t measure_process_cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t measure_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t measure_wakeups(void)
{
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

uint64_t measure_cpu_of(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) == 0 ? read_clock(clock) : 0;
}

static uint64_t wakeups_of_thread(const char *path)
{
	static const char name[] = "voluntary_ctxt_switches:";
	char line[256];
	uint64_t count = 0;
	FILE *file = fopen(path, "r");

	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, name, sizeof name - 1) == 0)
			count = strtoull(line + sizeof name - 1, NULL, 10);
	}
	if (file != NULL)
		fclose(file);
	return count;
}

uint64_t measure_wakeups_of(pid_t pid)
{
	char path[320];
	uint64_t count = 0;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, task->d_name);
		count += wakeups_of_thread(path);
	}
	if (tasks != NULL)
		closedir(tasks);
	return count;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double measure_quantile(double *values, size_t count, double part)
{
	if (count == 0)
		return 0;
	qsort(values, count, sizeof *values, compare);
	size_t at = (size_t)(part * (double)count);
	return values[at < count ? at : count - 1];
}
