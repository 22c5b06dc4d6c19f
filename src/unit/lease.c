#include "lease.h"

#include "guard.h"

void sy_lease_init(struct sy_lease *lease, uint64_t fence_after_ns, uint64_t sent_ns,
                   uint64_t answered_ns)
{
	lease->fence_after_ns = fence_after_ns;
	atomic_init(&lease->fence_ns, fence_after_ns == 0 ? UINT64_MAX : 0);
	sy_lease_renewed(lease, sent_ns, answered_ns);
}

void sy_lease_renewed(struct sy_lease *lease, uint64_t sent_ns, uint64_t answered_ns)
{
	SY_ASSERT(sent_ns <= answered_ns);
	uint64_t from_ns = SY_MUTANT(42) ? answered_ns : sent_ns;
	uint64_t fence_ns = lease->fence_after_ns > UINT64_MAX - from_ns
	                            ? UINT64_MAX
	                            : from_ns + lease->fence_after_ns;
	/* An older one may be answered late. */
	if (fence_ns > atomic_load(&lease->fence_ns))
		atomic_store(&lease->fence_ns, fence_ns);
}

bool sy_lease_is_fenced(const struct sy_lease *lease, uint64_t now_ns)
{
	return now_ns >= atomic_load(&lease->fence_ns);
}
