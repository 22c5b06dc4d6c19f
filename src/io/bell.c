#include "bell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "spin.h"

_Static_assert(sizeof(struct sy_bell) <= SY_BELL_BYTES, "a bell fits its page");

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

int sy_shared_make(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

/* A file that can be cut off under a mapping would kill who reads it; one of huge pages, which
 * can be sealed as well, is not unmapped by these sizes. */
bool sy_shared_check(int fd, size_t bytes)
{
	struct stat stat;
	struct statfs of;
	int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstatfs(fd, &of) == 0 &&
	       of.f_type == TMPFS_MAGIC && fstat(fd, &stat) == 0 && stat.st_size >= 0 &&
	       (uint64_t)stat.st_size >= bytes;
}

sy_status sy_bell_make(struct sy_bell **ret_bell, int *ret_fd, sy_error *err)
{
	void *page = MAP_FAILED;
	int fd = sy_shared_make("slabyard-bell", SY_BELL_BYTES);
	if (fd >= 0)
		page = mmap(NULL, SY_BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED || madvise(page, SY_BELL_BYTES, MADV_DONTFORK) != 0) {
		int saved = errno;
		sy_bell_unmap(page != MAP_FAILED ? page : NULL);
		if (fd >= 0)
			close(fd);
		return sy_fail(err, SY_E_SYS, __func__, "no memory to share with units: %s",
		               strerror(saved));
	}
	*ret_bell = page;
	*ret_fd = fd;
	return SY_OK;
}

struct sy_bell *sy_bell_map(int fd)
{
	if (!sy_shared_check(fd, SY_BELL_BYTES))
		return NULL;
	void *page = mmap(NULL, SY_BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return page != MAP_FAILED ? page : NULL;
}

void sy_bell_unmap(struct sy_bell *bell)
{
	if (bell != NULL)
		munmap(bell, SY_BELL_BYTES);
}

static void wake(struct sy_bell *bell)
{
	(void)syscall(SYS_futex, &bell->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void sy_bell_ring(struct sy_bell *bell)
{
	__atomic_add_fetch(&bell->word, 1, __ATOMIC_SEQ_CST);
	wake(bell);
}

/* The flag is left as it is: a unit that took it and was killed before its system call would take
 * everybody's wake-ups with it. */
void sy_bell_ring_for(struct sy_bell *bell, uint32_t unit_id)
{
	if (unit_id < SY_BELL_UNITS_MAX)
		__atomic_or_fetch(&bell->units[unit_id / 64], UINT64_C(1) << unit_id % 64,
		                  __ATOMIC_SEQ_CST);
	__atomic_store_n(&bell->cpu, sy_spin_cpu(), __ATOMIC_RELAXED);
	__atomic_add_fetch(&bell->word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST) != 0)
		wake(bell);
}

uint32_t sy_bell_look(const struct sy_bell *bell)
{
	return __atomic_load_n(&bell->word, __ATOMIC_SEQ_CST);
}

bool sy_bell_spin(const struct sy_bell *bell, uint32_t seen)
{
	uint64_t end_ns = sy_clock_now_ns() + SY_SPIN_NS;
	do {
		if (sy_bell_look(bell) != seen)
			return true;
		sy_spin_pause(__atomic_load_n(&bell->cpu, __ATOMIC_RELAXED));
	} while (sy_clock_now_ns() < end_ns);
	return false;
}

void sy_bell_wait(struct sy_bell *bell, uint32_t seen, uint64_t until_ns)
{
	struct timespec left = {0};
	if (until_ns != UINT64_MAX) {
		uint64_t now_ns = sy_clock_now_ns();
		if (until_ns <= now_ns)
			return;
		left.tv_sec = (time_t)((until_ns - now_ns) / 1000000000u);
		left.tv_nsec = (long)((until_ns - now_ns) % 1000000000u);
	}
	__atomic_store_n(&bell->sleeping, 1, __ATOMIC_SEQ_CST);
	/* The kernel compares once more, so that one who rang before the flag stood is not missed. */
	(void)syscall(SYS_futex, &bell->word, FUTEX_WAIT, seen,
	              until_ns != UINT64_MAX ? &left : NULL, NULL, 0);
	__atomic_store_n(&bell->sleeping, 0, __ATOMIC_SEQ_CST);
}

uint64_t sy_bell_take(struct sy_bell *bell, uint32_t group)
{
	uint64_t *units = &bell->units[group];
	return __atomic_load_n(units, __ATOMIC_ACQUIRE) != 0
	               ? __atomic_exchange_n(units, 0, __ATOMIC_ACQ_REL)
	               : 0;
}
