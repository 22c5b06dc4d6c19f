#include "cluster_client.h"
#include "fail.h"
#include "key.h"
#include "takedown.h"
#include "ucx_policy.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t TIMEOUT_NS = 120000000000u;
static const uint64_t SILENT_NS = 2000000000u; /* what takes longer is worth a word */

/* What a command waits for; it has one client. */
static struct {
	const struct sy_cli *cli;
	sy_client *client; /* NULL: the directory has not told its units yet */
	uint64_t began_ns;
	bool was_told;
} waiting;

static const char *full_advice(const sy_error *err)
{
	static const struct {
		const char *resource, *advice;
	} list[] = {
		{"bytes", "; remove rows with `slabyard rm`, or start a cluster with more memory"},
		{"entries",
		 "; remove rows with `slabyard rm`, or start a cluster with more --max-entries"},
		{"blobs", "; remove rows with `slabyard rm`, or start a cluster with more --max-entries"},
		{"fields", "; a unit knows so many names of fields at once: use fewer, or remove the rows "
		           "that alone have some of them"},
		{"shapes", "; a unit knows so many shapes at once: use fewer, or remove the rows that "
		           "alone have some of them"},
		{"namespaces", "; a unit knows so many namespaces at once: use one that is there, or "
		               "remove the rows of others"},
		{"pins", "; so many reads are open at once: end programs that hold views, or try again "
		         "when they are done"},
		{"sessions", "; so many clients are connected: end some, or start a cluster with more "
		             "--max-sessions"},
	};
	for (size_t i = 0; err->reason != NULL && i < sizeof list / sizeof list[0]; i++) {
		if (strcmp(err->reason, list[i].resource) == 0)
			return list[i].advice;
	}
	return "; see `slabyard status`";
}

static bool is_for(const sy_error *err, const char *reason)
{
	return err->reason != NULL && strcmp(err->reason, reason) == 0;
}

const char *sy_cluster_advice(const sy_error *err)
{
	switch (err->status) {
	case SY_E_UNIT_FULL:
		return full_advice(err);
	case SY_E_LOST:
		if (is_for(err, "disk")) /* the unit lives, and so does all else of it */
			return "; put it again";
		return "; put them again once the unit runs anew: `slabyard down`, then `slabyard up`, "
		       "where --restart does it by itself";
	case SY_E_TRANSFER_FAILED:
		if (is_for(err, "refused")) /* which the message ends with what to do about */
			return "";
		if (is_for(err, "dead"))
			return "; it takes no rows until it runs anew: `slabyard down`, then `slabyard up`, "
			       "where --restart does it by itself";
		return "; try again, and see `slabyard status`";
	case SY_E_TIMEOUT:
	case SY_E_BUSY:
	case SY_E_TRANSFER:
	case SY_E_STALE_READ:
		return "; try again, and see `slabyard status`";
	case SY_OK:
	case SY_E_INVALID:
	case SY_E_FATAL:
	case SY_E_POLICY:
	case SY_E_PROTOCOL:
	case SY_E_AUTH:
	case SY_E_SYS:
		break;
	}
	return "";
}

sy_status sy_cluster_key_parse(const char *const words[2], sy_key *ret_key, sy_error *err)
{
	sy_error inner;
	uint64_t row;
	size_t field_bytes = strlen(words[1]);
	const char *fault = sy_name_fault(words[1], field_bytes);
	if (sy_parse_u64(words[0], strlen(words[0]), &row, &inner) != SY_OK)
		return sy_fail(err, SY_E_INVALID, __func__, "the row: %s", inner.message);
	if (fault != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "the field name \"%.60s\" %s", words[1],
		               fault);
	*ret_key = (sy_key){.row = row, .field = words[1], .field_bytes = field_bytes};
	return SY_OK;
}

int sy_cluster_client_fail(const struct sy_cli *cli, const sy_error *err)
{
	return sy_cli_fail(cli, "%s%s", err->message, sy_cluster_advice(err));
}

int sy_cluster_is_running(const struct sy_cli *cli)
{
	pid_t pid;
	if (sy_takedown_is_running(cli->run_dir, &pid))
		return SY_EXIT_DONE;
	if (access(cli->run_dir, X_OK) != 0 && errno == EACCES)
		return sy_cli_fail(cli, "may not look into %s: be the user whose cluster runs there, or "
		                   "root", cli->run_dir);
	return sy_cli_fail(cli, "no cluster runs in %s: `slabyard up --run-dir %s` starts one",
	                   cli->run_dir, cli->run_dir);
}

static uint64_t timeout_ns(const struct sy_cli *cli)
{
	return cli->timeout_ns != 0 ? cli->timeout_ns : TIMEOUT_NS;
}

/* The client asks it ten times a second while a call waits. */
static bool wait_look(void *context)
{
	uint32_t unit_id = 0;
	uint64_t wait_ns = sy_deadline_after(0) - waiting.began_ns;
	char timeout[SY_DURATION_TEXT_BYTES];
	(void)context;
	if (waiting.was_told)
		return false;
	if (waiting.client != NULL && !sy_client_awaits(waiting.client, &unit_id, &wait_ns))
		return false;
	if (wait_ns < SILENT_NS)
		return false;
	waiting.was_told = true;
	sy_format_duration(timeout_ns(waiting.cli), timeout);
	if (waiting.client != NULL)
		sy_cli_fail(waiting.cli, "unit %" PRIu32 " does not answer; waiting up to %s", unit_id,
		            timeout);
	else
		sy_cli_fail(waiting.cli, "the directory does not answer; waiting up to %s", timeout);
	return false;
}

int sy_cluster_options(const struct sy_cli *cli, sy_client_options *ret_options)
{
	sy_client_options options = {.directory = cli->directory, .keys = cli->keys};
	sy_error err = {0};
	if (cli->directory == NULL) {
		options.run_dir = cli->run_dir;
		if (!sy_cli_needs_run_dir(cli))
			return SY_EXIT_USAGE;
		if (sy_cluster_is_running(cli) != SY_EXIT_DONE)
			return SY_EXIT_FAILED;
	}
	if ((cli->transport != NULL &&
	     sy_path_from_name("--transport", cli->transport, &options.path, &err) != SY_OK) ||
	    (cli->policy != NULL &&
	     sy_policy_from_name("--policy", cli->policy, &options.policy, &err) != SY_OK))
		return sy_cli_misused(cli, "%s", err.message);
	*ret_options = options;
	return SY_EXIT_DONE;
}

int sy_cluster_client_open(const struct sy_cli *cli, sy_client **ret_client)
{
	sy_error err = {0};
	sy_client_options options;
	int exit_status = sy_cluster_options(cli, &options);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	options.ssd = true;
	options.timeout_ns = timeout_ns(cli);
	options.interrupted = wait_look;
	waiting.cli = cli;
	waiting.began_ns = sy_deadline_after(0);
	if (sy_client_open(&options, ret_client, &err) != SY_OK)
		return sy_cluster_client_fail(cli, &err);
	waiting.client = *ret_client;
	return SY_EXIT_DONE;
}
