#include "doctor_judge.h"
#include "fail.h"
#include "guard.h"
#include "ucx_policy.h"
#include "units.h"

#include <string.h>

static const uint64_t MIB = 1 << 20;

/* A process of the cluster has some of its own, and a few for each unit it talks to. */
enum { FILES_BASE = 64, FILES_PER_UNIT = 4 };

static uint64_t need_bytes(const struct sy_doctor_wants *wants)
{
	return wants->slab_bytes * wants->unit_count;
}

static uint64_t mib_up(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

__attribute__((format(printf, 3, 4))) static void say(struct sy_doctor_finding *finding,
                                                      enum sy_doctor_state state,
                                                      const char *format, ...)
{
	va_list args;
	finding->state = state;
	va_start(args, format);
	sy_format_list(finding->says, sizeof finding->says, format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3))) static void mend(struct sy_doctor_finding *finding,
                                                       const char *format, ...)
{
	va_list args;
	va_start(args, format);
	sy_format_list(finding->mend, sizeof finding->mend, format, args);
	va_end(args);
}

static void shm_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                      struct sy_doctor_finding *finding)
{
	char size[16], free_size[16], need[16];
	uint64_t need_now = need_bytes(wants) > 0 ? need_bytes(wants) : MIB;
	sy_format_bytes(facts->shm_bytes, size);
	sy_format_bytes(facts->shm_free_bytes, free_size);
	sy_format_bytes(need_now, need);
	if (facts->shm_error != 0) {
		say(finding, SY_DOCTOR_WRONG, "no file can be made in /dev/shm: %s",
		    strerror(facts->shm_error));
		mend(finding, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
	} else if (!facts->shm_is_tmpfs) {
		say(finding, SY_DOCTOR_WRONG, "/dev/shm is no tmpfs: slabs would lie on a disk");
		mend(finding, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
	} else if (facts->shm_free_bytes < need_now) {
		say(finding, SY_DOCTOR_WRONG, "/dev/shm has %s free of %s, the slabs need %s", free_size,
		    size, need);
		uint64_t used = facts->shm_bytes - facts->shm_free_bytes;
		uint64_t whole = mib_up(need_now + used);
		mend(finding, "mount -o remount,size=%lluM /dev/shm # container: --shm-size=%llum",
		     (unsigned long long)whole, (unsigned long long)whole);
	} else {
		say(finding, SY_DOCTOR_OK, "/dev/shm has %s free of %s", free_size, size);
	}
}

static void memory_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                         struct sy_doctor_finding *finding)
{
	char have[16], need[16];
	sy_format_bytes(facts->memory_bytes, have);
	sy_format_bytes(need_bytes(wants), need);
	if (facts->memory_bytes < need_bytes(wants)) {
		say(finding, SY_DOCTOR_WRONG, "%s of memory are available, the slabs need %s", have, need);
		mend(finding, "slabyard up --units %llu --slab-bytes %lluMiB # or less",
		     (unsigned long long)wants->unit_count,
		     (unsigned long long)(facts->memory_bytes / wants->unit_count / MIB));
	} else {
		say(finding, SY_DOCTOR_OK, "%s available", have);
	}
}

static void huge_judge(const struct sy_doctor_facts *facts, struct sy_doctor_finding *finding)
{
	if (facts->shm_is_huge) {
		say(finding, SY_DOCTOR_OK, "/dev/shm gives huge pages");
		return;
	}
	say(finding, SY_DOCTOR_NOTE,
	    "/dev/shm gives none: units start and clients map slabs more slowly");
	mend(finding, "mount -o remount,huge=advise /dev/shm");
}

static void files_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                        struct sy_doctor_finding *finding)
{
	uint64_t need = FILES_BASE + FILES_PER_UNIT * wants->unit_count;
	if (facts->files_soft >= need) {
		say(finding, SY_DOCTOR_OK, "%llu open files a process, %llu are enough",
		    (unsigned long long)facts->files_soft, (unsigned long long)need);
		return;
	}
	bool can_raise = facts->files_hard >= need;
	say(finding, SY_DOCTOR_WRONG, "%llu open files a process, %llu unit%s %llu%s",
	    (unsigned long long)facts->files_soft, (unsigned long long)wants->unit_count,
	    wants->unit_count == 1 ? " wants" : "s want", (unsigned long long)need,
	    can_raise ? "" : ", and the hard limit is no higher");
	if (can_raise)
		mend(finding, "ulimit -n %llu", (unsigned long long)need);
	else
		mend(finding, "echo '* - nofile 65536' >> /etc/security/limits.conf # and log in anew");
}

static void pidfd_judge(const struct sy_doctor_facts *facts, struct sy_doctor_finding *finding)
{
	if (facts->pidfd_error == 0) {
		say(finding, SY_DOCTOR_OK, "processes can be watched (pidfd)");
		return;
	}
	say(finding, SY_DOCTOR_WRONG,
	    "no process can be watched (pidfd_open: %s): Linux 5.3 or later, and a container that "
	    "allows it, are needed", strerror(facts->pidfd_error));
}

static void memlock_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                          struct sy_doctor_finding *finding)
{
	char have[16];
	bool is_enough = facts->memlock_soft_bytes == UINT64_MAX ||
	                 (wants->slab_bytes != 0 && facts->memlock_soft_bytes >= wants->slab_bytes);
	sy_format_bytes(facts->memlock_soft_bytes, have);
	if (is_enough) {
		say(finding, SY_DOCTOR_OK, "enough for RDMA");
		return;
	}
	say(finding, wants->rdma ? SY_DOCTOR_WRONG : SY_DOCTOR_NOTE,
	    "%s may be locked, RDMA registers whole slabs%s", have,
	    wants->rdma ? "" : ": not needed on one host");
	if (facts->memlock_hard_bytes == UINT64_MAX)
		mend(finding, "ulimit -l unlimited # container: --ulimit memlock=-1");
	else
		mend(finding,
		     "echo '* - memlock unlimited' >> /etc/security/limits.conf # and log in anew");
}

static void rdma_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                       struct sy_doctor_finding *finding)
{
	enum sy_doctor_state lack = wants->rdma ? SY_DOCTOR_WRONG : SY_DOCTOR_NOTE;
	if (facts->rdma_active > 0) {
		say(finding, SY_DOCTOR_OK, "%u RDMA devices, %u with a port that is up",
		    facts->rdma_devices, facts->rdma_active);
	} else if (facts->rdma_devices > 0) {
		say(finding, lack, "%u RDMA devices, none with a port that is up", facts->rdma_devices);
		mend(finding, "rdma link # shows why; ip link set dev NETDEV up");
	} else {
		say(finding, lack, "no RDMA device%s", wants->rdma ? "" : ": not needed on one host");
		mend(finding, "modprobe mlx5_ib # container: --device=/dev/infiniband");
	}
}

static void ucx_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                      struct sy_doctor_finding *finding)
{
	sy_error err = {0};
	if (facts->ucx_fault != NULL) {
		say(finding, wants->rdma ? SY_DOCTOR_WRONG : SY_DOCTOR_NOTE, "%s%s", facts->ucx_fault,
		    wants->rdma ? "" : ": not needed on one host");
		mend(finding, "apt-get install libucx0 # and, for a build of your own, libucx-dev");
		return;
	}
	if (sy_ucx_policy_check(facts->ucx_tls, facts->ucx_net_devices, &err) == SY_OK) {
		say(finding, SY_DOCTOR_OK, "UCX_TLS=%.60s keeps bytes off TCP", facts->ucx_tls);
		return;
	}
	/* The policy's message ends in the line to set. */
	char *line = strstr(err.message, ": export ");
	SY_ASSERT(line != NULL);
	*line = '\0';
	say(finding, wants->rdma ? SY_DOCTOR_WRONG : SY_DOCTOR_NOTE, "%s%s", err.message,
	    wants->rdma ? "" : ": not needed on one host");
	mend(finding, "%s", line + 2);
}

void sy_doctor_judge(const struct sy_doctor_wants *wants, const struct sy_doctor_facts *facts,
                     struct sy_doctor_finding out[SY_DOCTOR_FINDINGS])
{
	static const char *const names[SY_DOCTOR_FINDINGS] = {
		"shm", "memory", "huge-pages", "descriptors", "processes", "memlock", "rdma", "ucx"};
	memset(out, 0, SY_DOCTOR_FINDINGS * sizeof out[0]);
	for (size_t i = 0; i < SY_DOCTOR_FINDINGS; i++)
		out[i].name = names[i];
	shm_judge(wants, facts, &out[0]);
	memory_judge(wants, facts, &out[1]);
	huge_judge(facts, &out[2]);
	files_judge(wants, facts, &out[3]);
	pidfd_judge(facts, &out[4]);
	memlock_judge(wants, facts, &out[5]);
	rdma_judge(wants, facts, &out[6]);
	ucx_judge(wants, facts, &out[7]);
}

const char *sy_doctor_state_name(enum sy_doctor_state state)
{
	switch (state) {
	case SY_DOCTOR_OK:
		return "ok";
	case SY_DOCTOR_NOTE:
		return "note";
	case SY_DOCTOR_WRONG:
		return "wrong";
	}
	return "unknown";
}
