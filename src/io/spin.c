#include "spin.h"

#include <sched.h>

enum { RUN_MAX = 64, TURNS_MAX = 1 << 16 };

void sy_spin_init(struct sy_spin *spin)
{
	cpu_set_t cpus;
	/* More CPUs than the set can name are more than one. */
	bool alone = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < 2;
	*spin = (struct sy_spin){.off = alone, .most = SY_SPIN_TURNS};
}

bool sy_spin_may(struct sy_spin *spin)
{
	if (spin->off || spin->skips == 0)
		return !spin->off;
	spin->skips--;
	return false;
}

void sy_spin_end(struct sy_spin *spin, bool hit)
{
	if (hit) {
		spin->run = 0;
		return;
	}
	spin->skips = spin->run;
	spin->run = spin->run == 0 ? 1 : spin->run * 2;
	if (spin->run > RUN_MAX)
		spin->run = RUN_MAX;
}

void sy_spin_leave(uint32_t cpu)
{
	cpu_set_t all, others;
	if (cpu != sy_spin_cpu() || sched_getaffinity(0, sizeof all, &all) != 0)
		return;
	others = all;
	CPU_CLR(cpu, &others);
	/* It fails where no other is allowed, and then nothing has changed. */
	if (sched_setaffinity(0, sizeof others, &others) == 0)
		(void)sched_setaffinity(0, sizeof all, &all);
}

void sy_spin_part(struct sy_spin *spin, uint32_t other_cpu)
{
	if (other_cpu != sy_spin_cpu()) {
		spin->turns = 0;
		spin->most = SY_SPIN_TURNS;
		return;
	}
	if (++spin->turns < spin->most)
		return;
	spin->turns = 0;
	if (spin->most < TURNS_MAX)
		spin->most *= 2;
	sy_spin_leave(other_cpu);
}

uint32_t sy_spin_cpu(void)
{
	return (uint32_t)sched_getcpu();
}

void sy_spin_pause(uint32_t other_cpu)
{
	if (other_cpu == sy_spin_cpu()) {
		sched_yield();
		return;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}
