/* A shorter history that breaks the same invariant: fewer clients, units, kinds of fault. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim_config.h"

/* The command that replays a run, to stdout. */
void sim_shrink_print_command(uint64_t seed, const struct sim_wanted *wanted);
/* Tries to do without each thing in turn, then looks among other seeds for a shorter history,
 * and prints the shortest one's command. */
void sim_shrink(uint64_t seed, const struct sim_wanted *wanted, int violated);

#endif
