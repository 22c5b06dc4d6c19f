#include "harness.h"

#include <errno.h>
#include <string.h>

#include "doctor_judge.h"

static const uint64_t MIB = 1 << 20, GIB = 1 << 30;

/* A host on which everything is as it should be, also for RDMA. */
static struct sy_doctor_facts good(void)
{
	return (struct sy_doctor_facts){
		.shm_is_tmpfs = true,
		.shm_is_huge = true,
		.shm_bytes = 8 * GIB,
		.shm_free_bytes = 6 * GIB,
		.memory_bytes = 7 * GIB,
		.memlock_soft_bytes = UINT64_MAX,
		.memlock_hard_bytes = UINT64_MAX,
		.files_soft = 1024,
		.files_hard = 4096,
		.rdma_devices = 2,
		.rdma_active = 1,
		.ucx_tls = "rc,sm,self",
	};
}

static const struct sy_doctor_wants two_gib = {.slab_bytes = GIB, .unit_count = 2, .rdma = true};
static const struct sy_doctor_wants one_host = {.unit_count = 1};

/* That finding is as expected, and all others are ok. */
static void expect(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                   const char *name, enum sy_doctor_state state, const char *says,
                   const char *mend)
{
	struct sy_doctor_finding findings[SY_DOCTOR_FINDINGS];
	bool found = false;
	sy_doctor_judge(wants, facts, findings);
	for (size_t i = 0; i < SY_DOCTOR_FINDINGS; i++) {
		const struct sy_doctor_finding *one = &findings[i];
		bool is_it = strcmp(one->name, name) == 0;
		found = found || is_it;
		if (one->state != (is_it ? state : SY_DOCTOR_OK))
			fail_msg("%s: %s: %s", one->name, sy_doctor_state_name(one->state), one->says);
		if (is_it && (strcmp(one->says, says) != 0 || strcmp(one->mend, mend) != 0))
			fail_msg("%s: %s, mend: %s", one->name, one->says, one->mend);
		if (one->state == SY_DOCTOR_OK)
			assert_string_equal(one->mend, "");
	}
	assert_true(found);
}

static void test_nothing_is_wrong(void **state)
{
	(void)state;
	struct sy_doctor_facts facts = good();
	expect(&two_gib, &facts, "shm", SY_DOCTOR_OK, "/dev/shm has 6 GiB free of 8 GiB", "");
	expect(&one_host, &facts, "memory", SY_DOCTOR_OK, "7 GiB available", "");
}

static void test_shared_memory(void **state)
{
	(void)state;
	struct sy_doctor_facts facts = good();
	facts.shm_bytes = 64 * MIB;
	facts.shm_free_bytes = 60 * MIB;
	expect(&two_gib, &facts, "shm", SY_DOCTOR_WRONG,
	       "/dev/shm has 60 MiB free of 64 MiB, the slabs need 2 GiB",
	       "mount -o remount,size=2052M /dev/shm # container: --shm-size=2052m");
	expect(&one_host, &facts, "shm", SY_DOCTOR_OK, "/dev/shm has 60 MiB free of 64 MiB", "");
	facts = good();
	facts.shm_free_bytes = 2 * GIB;
	expect(&two_gib, &facts, "shm", SY_DOCTOR_OK, "/dev/shm has 2 GiB free of 8 GiB", "");
	facts.shm_is_tmpfs = false;
	expect(&one_host, &facts, "shm", SY_DOCTOR_WRONG,
	       "/dev/shm is no tmpfs: slabs would lie on a disk",
	       "mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
	facts.shm_error = EACCES;
	expect(&one_host, &facts, "shm", SY_DOCTOR_WRONG,
	       "no file can be made in /dev/shm: Permission denied",
	       "mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
	facts = good();
	facts.shm_is_huge = false;
	expect(&two_gib, &facts, "huge-pages", SY_DOCTOR_NOTE,
	       "/dev/shm gives none: units start and clients map slabs more slowly",
	       "mount -o remount,huge=advise /dev/shm");
}

static void test_memory_and_limits(void **state)
{
	(void)state;
	struct sy_doctor_facts facts = good();
	facts.memory_bytes = 2 * GIB - 1;
	expect(&two_gib, &facts, "memory", SY_DOCTOR_WRONG,
	       "2.0 GiB of memory are available, the slabs need 2 GiB",
	       "slabyard up --units 2 --slab-bytes 1023MiB # or less");
	facts = good();
	facts.files_soft = 71;
	expect(&two_gib, &facts, "descriptors", SY_DOCTOR_WRONG,
	       "71 open files a process, 2 units want 72", "ulimit -n 72");
	facts.files_hard = 71;
	expect(&two_gib, &facts, "descriptors", SY_DOCTOR_WRONG,
	       "71 open files a process, 2 units want 72, and the hard limit is no higher",
	       "echo '* - nofile 65536' >> /etc/security/limits.conf # and log in anew");
	facts.files_soft = 72;
	expect(&two_gib, &facts, "descriptors", SY_DOCTOR_OK,
	       "72 open files a process, 72 are enough", "");
	facts = good();
	facts.pidfd_error = ENOSYS;
	expect(&one_host, &facts, "processes", SY_DOCTOR_WRONG,
	       "no process can be watched (pidfd_open: Function not implemented): Linux 5.3 or later, "
	       "and a container that allows it, are needed", "");
}

static void test_what_rdma_takes(void **state)
{
	(void)state;
	struct sy_doctor_facts facts = good();
	facts.memlock_soft_bytes = GIB - 1;
	expect(&two_gib, &facts, "memlock", SY_DOCTOR_WRONG,
	       "1.0 GiB may be locked, RDMA registers whole slabs",
	       "ulimit -l unlimited # container: --ulimit memlock=-1");
	expect(&one_host, &facts, "memlock", SY_DOCTOR_NOTE,
	       "1.0 GiB may be locked, RDMA registers whole slabs: not needed on one host",
	       "ulimit -l unlimited # container: --ulimit memlock=-1");
	facts.memlock_hard_bytes = GIB - 1;
	expect(&two_gib, &facts, "memlock", SY_DOCTOR_WRONG,
	       "1.0 GiB may be locked, RDMA registers whole slabs",
	       "echo '* - memlock unlimited' >> /etc/security/limits.conf # and log in anew");
	facts.memlock_soft_bytes = GIB;
	expect(&two_gib, &facts, "memlock", SY_DOCTOR_OK, "enough for RDMA", "");
	facts = good();
	facts.rdma_active = 0;
	expect(&two_gib, &facts, "rdma", SY_DOCTOR_WRONG,
	       "2 RDMA devices, none with a port that is up",
	       "rdma link # shows why; ip link set dev NETDEV up");
	facts.rdma_devices = 0;
	expect(&two_gib, &facts, "rdma", SY_DOCTOR_WRONG, "no RDMA device",
	       "modprobe mlx5_ib # container: --device=/dev/infiniband");
	expect(&one_host, &facts, "rdma", SY_DOCTOR_NOTE, "no RDMA device: not needed on one host",
	       "modprobe mlx5_ib # container: --device=/dev/infiniband");
	facts = good();
	facts.ucx_tls = "tcp";
	expect(&two_gib, &facts, "ucx", SY_DOCTOR_WRONG, "UCX_TLS=tcp allows TCP",
	       "export UCX_TLS=rc,sm,self");
	facts.ucx_tls = NULL;
	expect(&one_host, &facts, "ucx", SY_DOCTOR_NOTE,
	       "UCX_TLS is not set, so UCX may take TCP: not needed on one host",
	       "export UCX_TLS=rc,sm,self");
	facts.ucx_fault = "there is none";
	expect(&two_gib, &facts, "ucx", SY_DOCTOR_WRONG, "there is none",
	       "apt-get install libucx0 # and, for a build of your own, libucx-dev");
	expect(&one_host, &facts, "ucx", SY_DOCTOR_NOTE, "there is none: not needed on one host",
	       "apt-get install libucx0 # and, for a build of your own, libucx-dev");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_wrong),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_memory_and_limits),
		cmocka_unit_test(test_what_rdma_takes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
