/* What becomes of the process when a client cuts a slab's file off (slab.h says why that is
 * possible): the faulting page is replaced by one of zeros and the fact noted. */
#include "slab.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "dir_message.h"
#include "fail.h"

enum { PAGE_BYTES = 4096 };

static struct {
	uintptr_t start, end;
} guarded[SY_UNITS_MAX];
static volatile sig_atomic_t guarded_count, torn;

static bool is_guarded(uintptr_t at)
{
	for (sig_atomic_t i = 0; i < guarded_count; i++) {
		if (at >= guarded[i].start && at < guarded[i].end)
			return true;
	}
	return false;
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	int saved = errno;
	uintptr_t at = (uintptr_t)info->si_addr;
	void *page = (void *)(at & ~(uintptr_t)(PAGE_BYTES - 1));
	if (is_guarded(at) &&
	    mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
	         0) != MAP_FAILED)
		torn = 1;
	else
		signal(signal_number, SIG_DFL); /* not ours: the access faults again and ends us */
	errno = saved;
}

sy_status sy_slab_guard(const struct sy_slab *slab, sy_error *err)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
	if (guarded_count == SY_UNITS_MAX)
		return sy_fail(err, SY_E_SYS, __func__, "at most %d slabs a process", SY_UNITS_MAX);
	guarded[guarded_count].start = (uintptr_t)slab->data;
	guarded[guarded_count].end = (uintptr_t)slab->data + slab->bytes;
	guarded_count++;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, NULL) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "sigaction: %s", strerror(errno));
	return SY_OK;
}

bool sy_slab_is_torn(void)
{
	return torn != 0;
}
