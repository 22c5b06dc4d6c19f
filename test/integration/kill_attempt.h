/* One fault of the kill loop: whoever comes to a failpoint is killed, stopped or held there, or a
 * unit is killed or stopped while its client stands there; a victim (kill_victim.c) works
 * meanwhile, a unit is replaced or the directory is asked, and afterwards all is looked at
 * (kill_check.h). */
#ifndef SY_TEST_KILL_ATTEMPT_H
#define SY_TEST_KILL_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "failpoints.h"
#include "kill.h"

enum kill_strike {
	KILL_STRIKE_NONE,
	KILL_STRIKE_KILL,
	KILL_STRIKE_STOP,
};

struct kill_attempt {
	uint32_t point;
	uint32_t action; /* enum sy_failpoint_action */
	/* With SY_FAILPOINT_WAIT, at a point of clients: what is done to this unit meanwhile. */
	enum kill_strike strike;
	uint32_t struck_unit;
	uint64_t seed;
	/* Either every call can wait for the end of the fault, and must; or it lasts longer than
	 * they may take, and they must not. */
	bool patient;

	/* What came of it; the rest is the attempt's own. */
	char fault[SY_ERROR_MESSAGE_BYTES + 256]; /* empty: all is as it must be */
	const struct kill_log *log;               /* until the next attempt */
	struct kill_orders orders;
	uint64_t hold_ns;
	pid_t victim;
	bool victim_gone, struck, seen; /* seen: a unit or the directory, at the point */
	bool died[KILL_UNITS];
	int victim_status;
};

/* Call it first in main: runs a victim and ends, where this program was started as one. */
void kill_attempt_main(int argc, char **argv);
/* A cluster for this process, with a disk tier or without; SIGCHLD is blocked from then on. */
void kill_attempt_start(bool tier);
void kill_attempt_stop(void);
/* At the nth hit. True: the point was reached and its action taken. */
bool kill_attempt(struct kill_attempt *attempt, uint32_t nth);
/* Notes a fault, if it is the first. */
void kill_attempt_fault(struct kill_attempt *attempt, const char *what, const char *why);
/* Is it passed when a unit starts or ends, once each time? */
bool kill_is_of_a_start(uint32_t point);

#endif
