/* The workers of the demo as processes: started, told what to do, waited for, ended. */
#ifndef SY_DEMO_CREW_H
#define SY_DEMO_CREW_H

#include <sys/types.h>

#include "demo_hand.h"

struct sy_demo_worker {
	const char *role;
	uint32_t number;
	pid_t pid;
	int socket;      /* -1: it is over */
	bool is_working; /* was told to and has not answered */
};

struct sy_demo_crew {
	struct sy_demo_worker *workers; /* producers, then trainers */
	uint32_t producer_count, trainer_count, started_count;
	int stop_fd;    /* readable: the demo is to end */
	int cluster_fd; /* readable: its cluster has ended; -1: not ours */
};

enum sy_demo_role { SY_DEMO_PRODUCERS, SY_DEMO_TRAINERS, SY_DEMO_ROLES };
enum { SY_DEMO_WORDS_MAX = 24 };

struct sy_demo_crew_config {
	const struct sy_demo_source *source;
	sy_client_options where; /* run_dir or directory, and how values travel */
	const char *name_space;
	uint32_t producer_count, trainer_count;
	/* Of a role whose workers are to be on another host: the command that takes them there, as in
	 * "ssh host"; and this program's command line for them. */
	const char *by[SY_DEMO_ROLES];
	const char *const *words;
	size_t word_count;
	int stop_fd, cluster_fd;
};

/* Forks them; call it before there are threads. Each ends when this process does. SY_E_SYS; what
 * was started is in ret_crew even then, for sy_demo_crew_end. */
sy_status sy_demo_crew_start(const struct sy_demo_crew_config *config,
                             struct sy_demo_crew *ret_crew, sy_error *err);

/* What a worker does, told by one descriptor and answering by the other, until that is closed.
 * False: nobody heard its answer. */
bool sy_demo_crew_work(const struct sy_demo_crew_config *config, bool is_producer,
                       uint32_t number, int in_fd, int out_fd);

/* Has a phase done by those whose it is, and waits for all. Adds what they moved to `tally`;
 * the time is that of the slowest. False: something went wrong, and `problem`
 * (SY_DEMO_MESSAGE_BYTES) says what: a worker's own words, its death, a signal. */
bool sy_demo_crew_run(struct sy_demo_crew *crew, enum sy_demo_phase phase, uint32_t step,
                      struct sy_demo_tally *tally, char *problem);

/* Tells them to end (at once: kills them) and waits until all are gone. False: one did not end
 * well; `problem` as above. */
bool sy_demo_crew_end(struct sy_demo_crew *crew, bool at_once, char *problem);

/* SIGINT, SIGTERM or SIGHUP came, or the demo's cluster has ended. Of any thread. */
bool sy_demo_crew_is_over(const struct sy_demo_crew *crew);
/* The same, told but once of each signal; what that is called is in `problem`. */
bool sy_demo_crew_stopped(const struct sy_demo_crew *crew, char *problem);

#endif
