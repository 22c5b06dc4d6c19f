#include "sim_shrink.h"

#include <stdio.h>

#include "sim.h"

enum { OTHER_SEEDS = 200 };

static void print_off(uint64_t off)
{
	const char *comma = " --off ";
	for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
		if ((off >> i & 1) == 0)
			continue;
		printf("%s%s", comma, sim_fault_name(i));
		comma = ",";
	}
}

void sim_shrink_print_command(uint64_t seed, const struct sim_wanted *wanted)
{
	printf("replay: sim --seed %lu", seed);
	if (wanted->steps != 0)
		printf(" --steps %u", wanted->steps);
	if (wanted->clients != 0)
		printf(" --clients %u", wanted->clients);
	if (wanted->units != 0)
		printf(" --units %u", wanted->units);
	if (wanted->only != 0)
		printf(" --only %u", wanted->only);
	if (wanted->mutant != NULL)
		printf(" --mutant %s", wanted->mutant);
	print_off(wanted->off);
	puts(" --trace");
}

/* Does this run break the same invariant, and sooner? */
static bool shorter(uint64_t seed, const struct sim_wanted *wanted, int violated,
                    uint64_t *best_steps)
{
	static struct sim sim;
	struct sim_config config;
	sim_config_draw(&config, seed, wanted);
	sim_run(&sim, &config, SIM_TRACE_NONE);
	bool same = sim.violated == violated && sim.steps <= *best_steps;
	if (same)
		*best_steps = sim.steps;
	sim_done(&sim);
	return same;
}

static void try_wanted(uint64_t seed, struct sim_wanted *wanted, struct sim_wanted with,
                       int violated, uint64_t *best_steps)
{
	if (shorter(seed, &with, violated, best_steps))
		*wanted = with;
}

void sim_shrink(uint64_t seed, const struct sim_wanted *wanted, int violated)
{
	struct sim_wanted best = *wanted;
	uint64_t steps = UINT64_MAX;
	if (!shorter(seed, &best, violated, &steps))
		return;
	for (int round = 0; round < 3; round++) {
		uint64_t before = steps;
		for (uint32_t fault = 0; fault < SIM_FAULT_COUNT; fault++) {
			struct sim_wanted with = best;
			with.off |= UINT64_C(1) << fault;
			try_wanted(seed, &best, with, violated, &steps);
		}
		for (uint32_t count = 1; count <= 4; count++) {
			struct sim_wanted with = best;
			with.clients = count;
			try_wanted(seed, &best, with, violated, &steps);
			with = best;
			with.units = count;
			try_wanted(seed, &best, with, violated, &steps);
		}
		if (steps == before)
			break;
	}
	uint64_t shortest = seed;
	for (uint64_t other = seed + 1; other <= seed + OTHER_SEEDS; other++) {
		struct sim_wanted with = best;
		with.steps = steps > 1 ? (uint32_t)(steps - 1) : 1;
		if (shorter(other, &with, violated, &steps)) {
			best = with;
			shortest = other;
		}
	}
	printf("shrunk to %lu steps; ", steps);
	sim_shrink_print_command(shortest, &best);
}
