/* A figure of a process from /proc/PID/status, as "RssAnon:", its own memory without the slabs it
 * maps. -1: no such process, or no such line. */
#ifndef SY_TEST_PROCESS_KIB_H
#define SY_TEST_PROCESS_KIB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static inline long process_kib(pid_t pid, const char *name)
{
	char path[48], line[128];
	long kib = -1;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtol(line + strlen(name), NULL, 10);
	if (file != NULL)
		fclose(file);
	return kib;
}

#endif
