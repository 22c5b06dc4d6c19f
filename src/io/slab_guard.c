/* What becomes of the unit when a client cuts the slab's file off (slab.h says why that is
 * possible): the faulting page is replaced by one of zeros and the fact noted. */
#include "slab.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "fail.h"

enum { PAGE_BYTES = 4096 };

static struct {
	uintptr_t start, end;
} guarded;
static volatile sig_atomic_t torn;

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	int saved = errno;
	uintptr_t at = (uintptr_t)info->si_addr;
	void *page = (void *)(at & ~(uintptr_t)(PAGE_BYTES - 1));
	if (at >= guarded.start && at < guarded.end &&
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
	guarded.start = (uintptr_t)slab->data;
	guarded.end = guarded.start + slab->bytes;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, NULL) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "sigaction: %s", strerror(errno));
	return SY_OK;
}

bool sy_slab_is_torn(void)
{
	return torn != 0;
}
