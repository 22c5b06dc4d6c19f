#include "cluster_client.h"
#include "fail.h"
#include "key.h"
#include "takedown.h"
#include "units.h"

#include <string.h>

const char *sy_cluster_advice(const sy_error *err)
{
	switch (err->status) {
	case SY_E_UNIT_FULL:
		if (err->reason != NULL && strcmp(err->reason, "entries") == 0)
			return "; remove rows with `slabyard rm`, or start a cluster with more --max-entries";
		return "; remove rows with `slabyard rm`, or start a cluster with more memory";
	case SY_E_LOST:
		return "; `slabyard status` shows which unit is dead";
	case SY_E_TIMEOUT:
	case SY_E_BUSY:
	case SY_E_TRANSFER:
	case SY_E_TRANSFER_FAILED:
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
	return sy_cli_fail(cli, "no cluster runs in %s: `slabyard up --run-dir %s` starts one",
	                   cli->run_dir, cli->run_dir);
}

int sy_cluster_client_open(const struct sy_cli *cli, sy_client **ret_client)
{
	sy_error err = {0};
	if (!sy_cli_needs_run_dir(cli))
		return SY_EXIT_USAGE;
	if (sy_cluster_is_running(cli) != SY_EXIT_DONE)
		return SY_EXIT_FAILED;
	const sy_client_options options = {.run_dir = cli->run_dir};
	if (sy_client_open(&options, ret_client, &err) != SY_OK)
		return sy_cluster_client_fail(cli, &err);
	return SY_EXIT_DONE;
}
