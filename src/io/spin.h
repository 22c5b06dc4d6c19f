/* Waiting awake for a moment before a sleep: where the other side has a CPU of its own its answer
 * comes sooner than a sleeper could be woken.
 *
 * Who spins does so for SY_SPIN_NS at most, and only while that pays: after a wait that was longer
 * the next ones sleep at once, twice as many each time. On one CPU nobody spins at all.
 *
 * Two that take turns on one CPU while another stands idle can be left there for 30 ms and more,
 * each answer taking twice as long: neither sleeps, and the system does not soon move who ran just
 * now. So the unit, whose thread is its own, then moves away. */
#ifndef SY_SPIN_H
#define SY_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum { SY_SPIN_NS = 30000, SY_SPIN_TURNS = 4 };

struct sy_spin {
	bool off;       /* there is but one CPU */
	uint32_t skips; /* waits that are still to sleep at once */
	uint32_t run;   /* how many the last miss made to */
	uint32_t turns; /* waits in a row that began on the other side's CPU */
	uint32_t most;  /* so many make it move */
};

/* Counts the CPUs that this process may use. */
void sy_spin_init(struct sy_spin *spin);
/* Whether the wait that begins now may spin; if so, sy_spin_end is told how it went. */
bool sy_spin_may(struct sy_spin *spin);
void sy_spin_end(struct sy_spin *spin, bool hit);
/* Told of a wait that begins, and where the other side ran: after SY_SPIN_TURNS on its CPU this
 * thread moves to another one that it may use, if there is one; as long as that does not part them
 * after twice as many each time. */
void sy_spin_part(struct sy_spin *spin, uint32_t other_cpu);
/* Moves this thread, if it runs on that CPU, to another that it may use, if there is one. */
void sy_spin_leave(uint32_t cpu);
/* Passes a moment. Gives up the CPU where the other side, as it last said, needs the same. */
void sy_spin_pause(uint32_t other_cpu);
/* The CPU that this thread runs on just now. */
uint32_t sy_spin_cpu(void);

#endif
