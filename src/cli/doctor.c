/* slabyard doctor: what stands in the way of a cluster here, and the line that mends it. */
#include "cli.h"
#include "commands.h"
#include "daemon.h"
#include "doctor_judge.h"
#include "unit_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { PATH_BYTES = 512, PORTS_MAX = 8 };

static const char shm_dir[] = "/dev/shm";

static const char details[] =
	"Looks at shared memory, memory, huge pages, descriptors, processes, locked memory,\n"
	"RDMA devices and UCX's environment, says of each if it is ok, could be better (note) or\n"
	"is wrong, and shows the line that mends it. With --slab-bytes and --units it asks whether\n"
	"that cluster fits here, with --rdma whether its bytes could go to other hosts. Run it as\n"
	"the user and in the container that units run in. Nothing is changed.\n"
	"\n"
	"--json prints one object: ok, and checks: a list of objects with name, state (ok, note,\n"
	"wrong), says and mend. Exit status 1: something is wrong.\n";

/* The number after `name` in /proc/meminfo, in bytes. */
static uint64_t meminfo(const char *name)
{
	char line[256];
	unsigned long long kib = 0;
	size_t length = strlen(name);
	FILE *file = fopen("/proc/meminfo", "re");
	if (file == NULL)
		return UINT64_MAX;
	while (fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, name, length) == 0 && sscanf(line + length, "%llu", &kib) == 1)
			break;
	}
	fclose(file);
	return (uint64_t)kib * 1024;
}

/* The first line of a small file; "" if there is none. */
static void line_read(const char *path, char out[PATH_BYTES])
{
	FILE *file = fopen(path, "re");
	out[0] = '\0';
	if (file == NULL)
		return;
	if (fgets(out, PATH_BYTES, file) == NULL)
		out[0] = '\0';
	fclose(file);
}

/* The mount's own option decides, and where it has none the system's. */
static bool shm_is_huge(void)
{
	char line[1024], enabled[PATH_BYTES];
	const char *option = NULL;
	FILE *file = fopen("/proc/self/mounts", "re");
	while (file != NULL && fgets(line, sizeof line, file) != NULL && option == NULL) {
		if (strstr(line, " /dev/shm tmpfs ") != NULL)
			option = strstr(line, "huge=");
	}
	if (file != NULL)
		fclose(file);
	if (option != NULL)
		return strncmp(option, "huge=never", strlen("huge=never")) != 0;
	line_read("/sys/kernel/mm/transparent_hugepage/shmem_enabled", enabled);
	return strstr(enabled, "[force]") != NULL;
}

static void shm_look(struct sy_doctor_facts *facts)
{
	struct statfs info;
	int fd = open(shm_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	facts->shm_error = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (statfs(shm_dir, &info) != 0)
		return;
	facts->shm_is_tmpfs = (uint64_t)info.f_type == TMPFS_MAGIC;
	/* No blocks: a mount without limit. */
	uint64_t block_bytes = (uint64_t)info.f_bsize;
	facts->shm_bytes = info.f_blocks == 0 ? UINT64_MAX : (uint64_t)info.f_blocks * block_bytes;
	facts->shm_free_bytes =
		info.f_blocks == 0 ? UINT64_MAX : (uint64_t)info.f_bavail * block_bytes;
	facts->shm_is_huge = shm_is_huge();
}

static uint64_t limit_of(rlim_t limit)
{
	return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

static void limits_look(struct sy_doctor_facts *facts)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
		facts->memlock_soft_bytes = limit_of(limit.rlim_cur);
		facts->memlock_hard_bytes = limit_of(limit.rlim_max);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		facts->files_soft = limit_of(limit.rlim_cur);
		facts->files_hard = limit_of(limit.rlim_max);
	}
	int pidfd = pidfd_open(getpid(), 0);
	facts->pidfd_error = pidfd < 0 ? errno : 0;
	if (pidfd >= 0)
		close(pidfd);
}

static void rdma_look(struct sy_doctor_facts *facts)
{
	static const char devices[] = "/sys/class/infiniband";
	DIR *folder = opendir(devices);
	if (folder == NULL)
		return;
	for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
		bool is_up = false;
		if (entry->d_name[0] == '.')
			continue;
		for (int port = 1; port <= PORTS_MAX && !is_up; port++) {
			char path[PATH_BYTES], state[PATH_BYTES];
			snprintf(path, sizeof path, "%s/%s/ports/%d/state", devices, entry->d_name, port);
			line_read(path, state);
			is_up = strstr(state, "ACTIVE") != NULL;
		}
		facts->rdma_devices++;
		facts->rdma_active += is_up;
	}
	closedir(folder);
}

static int json_print(const struct sy_cli *cli, const struct sy_doctor_finding *findings, bool ok)
{
	json_t *checks = json_array();
	for (size_t i = 0; i < SY_DOCTOR_FINDINGS; i++)
		json_array_append_new(
			checks, json_pack("{s:s, s:s, s:s, s:s}", "name", findings[i].name, "state",
		                      sy_doctor_state_name(findings[i].state), "says", findings[i].says,
		                      "mend", findings[i].mend));
	json_t *all = json_pack("{s:b, s:o}", "ok", (int)ok, "checks", checks);
	int written = all != NULL ? json_dumpf(all, stdout, JSON_INDENT(2)) : -1;
	json_decref(all);
	putchar('\n');
	if (written != 0)
		return sy_cli_fail(cli, "cannot write the output, or out of memory");
	return sy_cli_finish(cli);
}

static int table_print(const struct sy_cli *cli, const struct sy_doctor_finding *findings)
{
	for (size_t i = 0; i < SY_DOCTOR_FINDINGS; i++) {
		printf("%-5s  %-11s  %s\n", sy_doctor_state_name(findings[i].state), findings[i].name,
		       findings[i].says);
		if (findings[i].mend[0] != '\0')
			printf("%20s%s\n", "", findings[i].mend);
	}
	return sy_cli_finish(cli);
}

int sy_command_doctor(struct sy_cli *cli, int argc, char **argv)
{
	struct sy_doctor_wants wants = {.unit_count = 1};
	bool json = false;
	const struct sy_option options[] = {
		{.name = "slab-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES,
		 .min = SY_UNIT_SLAB_MIN_BYTES, .max = (uint64_t)1 << 50, .target = &wants.slab_bytes,
		 .help = "memory of one unit that is to fit"},
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &wants.unit_count,
		 .min = 1, .max = SY_UNITS_MAX, .help = "how many units; default: 1"},
		{.name = "rdma", .kind = SY_OPTION_FLAG, .target = &wants.rdma,
		 .help = "what RDMA to other hosts takes is needed, too"},
		{.name = "json", .kind = SY_OPTION_FLAG, .target = &json, .help = "print JSON"},
	};
	const struct sy_usage usage = {
		.name = "doctor",
		.arguments = "",
		.summary = "Check this host, and show the lines that mend it.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	struct sy_doctor_facts facts = {
		.memory_bytes = meminfo("MemAvailable:"),
		.ucx_tls = getenv("UCX_TLS"),
		.ucx_net_devices = getenv("UCX_NET_DEVICES"),
	};
	struct sy_doctor_finding findings[SY_DOCTOR_FINDINGS];
	sy_error ucx = {0};
	facts.ucx_fault = sy_unit_has_ucx(&ucx) == SY_OK ? NULL : ucx.message;
	shm_look(&facts);
	limits_look(&facts);
	rdma_look(&facts);
	sy_doctor_judge(&wants, &facts, findings);
	bool ok = true;
	for (size_t i = 0; i < SY_DOCTOR_FINDINGS; i++)
		ok = ok && findings[i].state != SY_DOCTOR_WRONG;
	exit_status = json ? json_print(cli, findings, ok) : table_print(cli, findings);
	return exit_status == SY_EXIT_DONE && !ok ? SY_EXIT_FAILED : exit_status;
}
