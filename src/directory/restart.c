#include "restart.h"

static const uint64_t MS_NS = 1000000u;

void sy_restart_begun(struct sy_restart *restart, uint64_t now_ns)
{
	restart->began_ns = now_ns;
	restart->due_ns = 0;
}

bool sy_restart_ended(struct sy_restart *restart, uint64_t now_ns)
{
	uint64_t wait_ms = SY_RESTART_FIRST_MS;
	if (now_ns - restart->began_ns >= SY_RESTART_LASTING_S * 1000 * MS_NS)
		restart->in_a_row = 0;
	restart->due_ns = 0;
	if (restart->in_a_row == SY_RESTARTS_IN_A_ROW)
		return false;
	for (uint32_t i = 0; i < restart->in_a_row && wait_ms < SY_RESTART_LONGEST_MS; i++)
		wait_ms *= 2;
	if (wait_ms > SY_RESTART_LONGEST_MS)
		wait_ms = SY_RESTART_LONGEST_MS;
	restart->in_a_row++;
	restart->due_ns = now_ns + wait_ms * MS_NS;
	return true;
}
