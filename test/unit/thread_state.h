/* What a thread does just now, as the system tells. */
#ifndef SY_THREAD_STATE_H
#define SY_THREAD_STATE_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* 'S': it sleeps, and so holds no lock that another waits for; 'Z': it is through. False also of
 * one that is not there. */
static inline bool thread_is(pid_t pid, pid_t tid, char state)
{
	char path[64], text[512] = "";

	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	(void)!fgets(text, sizeof text, file);
	fclose(file);
	const char *name_end = strrchr(text, ')');
	return name_end != NULL && name_end[1] == ' ' && name_end[2] == state;
}

#endif
