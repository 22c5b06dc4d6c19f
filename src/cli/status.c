/* slabyard status: units, their states and where their bytes are, for people or as JSON. */
#include "cluster_client.h"
#include "commands.h"
#include "units.h"

#include <inttypes.h>
#include <jansson.h>
#include <slabyard/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ANSWER_NS = 3000000000u;

static const char details[] =
	"Asks the directory and every unit at once. A unit that is dead, or does not answer within\n"
	"3 s or what --timeout says, is shown as such; that is no failure of this command.\n"
	"\n"
	"--json prints one object: run_dir (or directory), unit_count, and units: a list of objects\n"
	"with unit_id, state (active, draining, suspect, dead, none), answered, incarnation, starts\n"
	"(how many incarnations the unit has had), pid, capacity_bytes, bytes (by state: free,\n"
	"allocated, committing, published, demoting, released, retired, quarantined, loading,\n"
	"staging, rounding; they sum to capacity_bytes), rows, entries, sessions, pins and further\n"
	"counts; those of a disk tier begin with ssd_, and shm_put_bytes, shm_get_bytes,\n"
	"ucx_put_bytes and ucx_get_bytes tell what went over which transport (of gets: what\n"
	"clients were told the place of, to read it there). A unit that did not answer has null\n"
	"for bytes and a message.\n";

struct cluster {
	const struct sy_cli *cli;
	const char *address; /* of the directory; NULL: the one in the run directory */
	const char *keys;
};

static json_t *report_json(const sy_unit_report *report)
{
	char incarnation[17];
	snprintf(incarnation, sizeof incarnation, "%016" PRIx64, report->incarnation);
	json_t *unit = json_pack("{s:I, s:s, s:b, s:s, s:I, s:I, s:I}", "unit_id",
	                         (json_int_t)report->unit_id, "state", report->state, "answered",
	                         (int)report->answered, "incarnation", incarnation, "starts",
	                         (json_int_t)report->starts, "pid",
	                         (json_int_t)report->pid, "capacity_bytes",
	                         (json_int_t)report->capacity_bytes);
	if (!report->answered) {
		json_object_set_new(unit, "bytes", json_null());
		json_object_set_new(unit, "message", json_string(report->message));
		return unit;
	}
	json_t *bytes = json_object();
	for (size_t i = 0; i < report->byte_count; i++)
		json_object_set_new(bytes, report->bytes[i].name,
		                    json_integer((json_int_t)report->bytes[i].value));
	json_object_set_new(unit, "bytes", bytes);
	for (size_t i = 0; i < report->count_count; i++)
		json_object_set_new(unit, report->counts[i].name,
		                    json_integer((json_int_t)report->counts[i].value));
	return unit;
}

static int json_print(const struct cluster *cluster, const sy_unit_report *reports,
                      uint32_t count)
{
	const struct sy_cli *cli = cluster->cli;
	json_t *units = json_array();
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(units, report_json(&reports[i]));
	bool by_address = cluster->address != NULL;
	json_t *all = json_pack("{s:s, s:I, s:o}", by_address ? "directory" : "run_dir",
	                        by_address ? cluster->address : cli->run_dir, "unit_count",
	                        (json_int_t)count, "units", units);
	int written = all != NULL ? json_dumpf(all, stdout, JSON_INDENT(2)) : -1;
	json_decref(all);
	putchar('\n');
	if (written != 0)
		return sy_cli_fail(cli, "cannot write the output, or out of memory");
	return sy_cli_finish(cli);
}

static uint64_t stat_of(const sy_stat *stats, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].value;
	}
	return 0;
}

static void ssd_print(const sy_unit_report *report)
{
	static const char *const counts[] = {"ssd_queued", "ssd_running", "ssd_demotions",
	                                     "ssd_promotions", "ssd_loads", "ssd_spills",
	                                     "ssd_write_errors", "ssd_read_errors", "ssd_full",
	                                     "ssd_lost_blobs"};
	const sy_stat *stats = report->counts;
	size_t count = report->count_count;
	char capacity[16], used[16];
	uint64_t bytes = stat_of(stats, count, "ssd_capacity");
	sy_format_bytes(bytes, capacity);
	sy_format_bytes(bytes - stat_of(stats, count, "ssd_free"), used);
	printf("      disk %s, used %s", capacity, used);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		uint64_t value = stat_of(stats, count, counts[i]);
		if (value != 0)
			printf(", %s %" PRIu64, counts[i] + strlen("ssd_"), value);
	}
	putchar('\n');
}

/* Values by the transport that carried them, where one was not shared memory. */
static void paths_print(const sy_unit_report *report)
{
	static const char *const names[] = {"shm_put_bytes", "shm_get_bytes", "ucx_put_bytes",
	                                    "ucx_get_bytes"};
	char bytes[4][16];
	uint64_t sum[2] = {0, 0};
	bool allow_tcp = stat_of(report->counts, report->count_count, "allow_tcp") != 0;
	for (size_t i = 0; i < 4; i++) {
		uint64_t value = stat_of(report->counts, report->count_count, names[i]);
		sy_format_bytes(value, bytes[i]);
		sum[i / 2] += value;
	}
	if (sum[1] > 0 || allow_tcp)
		printf("      over shm put %s, got %s; over ucx put %s, got %s%s\n", bytes[0], bytes[1],
		       bytes[2], bytes[3], allow_tcp ? "; policy allow-tcp: not for production" : "");
}

static void report_print(const sy_unit_report *report)
{
	char capacity[16], used[16], published[16];
	sy_format_bytes(report->capacity_bytes, capacity);
	printf("%4" PRIu32 "  %-9s %8" PRIu64 "  %10s", report->unit_id, report->state, report->pid,
	       capacity);
	if (!report->answered) {
		bool has_message = report->message[0] != '\0';
		bool is_dead = strcmp(report->state, "dead") == 0;
		printf("  %s\n", has_message ? report->message : is_dead ? "its rows are gone" : "");
		return;
	}
	uint64_t free_bytes = stat_of(report->bytes, report->byte_count, "free");
	sy_format_bytes(report->capacity_bytes - free_bytes, used);
	sy_format_bytes(stat_of(report->bytes, report->byte_count, "published"), published);
	printf("  %10s  %10s  %10" PRIu64 "  %10" PRIu64 "  %8" PRIu64 "  %6" PRIu64 "\n", used,
	       published, stat_of(report->counts, report->count_count, "rows"),
	       stat_of(report->counts, report->count_count, "entries"),
	       stat_of(report->counts, report->count_count, "sessions"),
	       stat_of(report->counts, report->count_count, "pins"));
	/* What is neither free nor published is worth a word of its own. */
	const char *lead = "      of it";
	for (size_t i = 0; i < report->byte_count; i++) {
		const sy_stat *one = &report->bytes[i];
		char size[16];
		if (one->value == 0 || strcmp(one->name, "free") == 0 ||
		    strcmp(one->name, "published") == 0)
			continue;
		sy_format_bytes(one->value, size);
		printf("%s %s %s", lead, one->name, size);
		lead = ",";
	}
	if (lead[0] == ',')
		putchar('\n');
	if (stat_of(report->counts, report->count_count, "ssd_capacity") != 0)
		ssd_print(report);
	paths_print(report);
}

/* An incarnation is of interest once it is not the first. */
static void starts_print(const sy_unit_report *report)
{
	uint32_t restarts = report->starts > 0 ? report->starts - 1 : 0;
	if (restarts > 0)
		printf("      restarted %" PRIu32 " time%s, incarnation %016" PRIx64 "\n", restarts,
		       restarts == 1 ? "" : "s", report->incarnation);
}

static int table_print(const struct sy_cli *cli, const sy_unit_report *reports, uint32_t count)
{
	printf("unit  state          pid    capacity        used   published        rows     entries  "
	       "sessions    pins\n");
	for (uint32_t i = 0; i < count; i++) {
		report_print(&reports[i]);
		starts_print(&reports[i]);
	}
	return sy_cli_finish(cli);
}

/* The client's own session is among those counted: it has to ask. */
static int status_show(const struct cluster *cluster, bool json)
{
	const struct sy_cli *cli = cluster->cli;
	uint64_t timeout_ns = cli->timeout_ns != 0 ? cli->timeout_ns : ANSWER_NS;
	const sy_client_options options = {
		.run_dir = cluster->address == NULL ? cli->run_dir : NULL,
		.directory = cluster->address, .keys = cluster->keys, .timeout_ns = timeout_ns};
	sy_client *client = NULL;
	sy_error err = {0};
	if (sy_client_open(&options, &client, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	uint32_t count = sy_client_unit_count(client);
	sy_unit_report *reports = calloc(count, sizeof *reports);
	int exit_status;
	if (reports == NULL)
		exit_status = sy_cli_fail(cli, "out of memory");
	else if (sy_client_reports(client, sy_deadline_after(timeout_ns), reports, &err) != SY_OK)
		exit_status = sy_cli_fail(cli, "%s", err.message);
	else
		exit_status = json ? json_print(cluster, reports, count)
		                   : table_print(cli, reports, count);
	free(reports);
	sy_client_close(client);
	return exit_status;
}

int sy_command_status(struct sy_cli *cli, int argc, char **argv)
{
	bool json = false;
	struct cluster cluster = {.cli = cli};
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_DIRECTORY_OPTION(&cluster.address),
		SY_CLI_KEYS_OPTION(&cluster.keys),
		{.name = "timeout", .value = "TIME", .kind = SY_OPTION_DURATION, .min = 1000000,
		 .target = &cli->timeout_ns, .help = "how long to wait for an answer; default: 3s"},
		{.name = "json", .kind = SY_OPTION_FLAG, .target = &json, .help = "print JSON"},
	};
	const struct sy_usage usage = {
		.name = "status",
		.arguments = "",
		.summary = "Show units, their states and where their bytes are.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (cluster.address == NULL && !sy_cli_needs_run_dir(cli))
		return SY_EXIT_USAGE;
	if (cluster.address == NULL && sy_cluster_is_running(cli) != SY_EXIT_DONE)
		return SY_EXIT_FAILED;
	return status_show(&cluster, json);
}
