/* What must hold after each fault of the kill loop, seen by a client that nobody torments. Each
 * returns NULL, or what is wrong. */
#ifndef SY_TEST_KILL_CHECK_H
#define SY_TEST_KILL_CHECK_H

#include "cluster.h"
#include "kill.h"

/* Takes the cluster as it is now, with rows of its own on each unit, for how it must stay.
 * ssd_dir: of the units' disk tier; NULL: they have none. */
void kill_check_start(struct cluster *cluster, const char *ssd_dir);
void kill_check_stop(void);
enum kill_ill {
	KILL_ILL_LIVES,
	KILL_ILL_DEAD, /* by the directory */
	KILL_ILL_EITHER,
};
/* While unit `ill` (KILL_UNITS: none) is stopped or gone: the others serve, and the ill one's
 * rows are said to be lost only if it is dead. */
const char *kill_check_others(uint32_t ill, enum kill_ill how);
/* All rows, then, when the victim's are cleared, the accounts, descriptors, threads and files.
 * died: the units that are another incarnation now. */
const char *kill_check_after(const struct kill_log *log, const bool *died);

#endif
