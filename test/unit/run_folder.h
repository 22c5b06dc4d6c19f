/* A run directory of a test's own, in a folder that goes with all that is in it. */
#ifndef SY_TEST_RUN_FOLDER_H
#define SY_TEST_RUN_FOLDER_H

#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "runfiles.h"

struct rig {
	char parent[64], path[96];
	struct sy_run_dir dir;
};

static inline int open_rig(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);
	sy_error err = {0};

	assert_non_null(rig);
	snprintf(rig->parent, sizeof rig->parent, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(rig->parent));
	snprintf(rig->path, sizeof rig->path, "%s/run", rig->parent);
	if (sy_run_dir_open(rig->path, true, &rig->dir, &err) != SY_OK)
		fail_msg("%s", err.message);
	*state = rig;
	return 0;
}

static inline int close_rig(void **state)
{
	struct rig *rig = *state;
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", rig->parent);
	int left = system(command);
	free(rig);
	return left;
}

static inline bool rig_has(const struct rig *rig, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", rig->path, name);
	return access(path, F_OK) == 0;
}

#endif
