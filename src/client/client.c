/* Opening and closing a client. */
#include <slabyard/client.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_inner.h"
#include "clock.h"
#include "fail.h"
#include "key.h"
#include "open_hub.h"
#include "runfiles.h"
#include "ucx_policy.h"

static const uint64_t CONTROL_TIMEOUT_NS = 30u * 1000000000ull;
/* A century, so that no sum of it and an instant wraps around. */
static const uint64_t LONGEST_NS = 100u * 366 * 86400 * 1000000000ull;

sy_status sy_open_address(const char *run_dir, const char *directory,
                          char ret_address[SY_OPEN_ADDRESS_BYTES], sy_error *err)
{
	if ((run_dir == NULL) == (directory == NULL))
		return sy_fail(err, SY_E_INVALID, __func__,
		               "name either the run directory or the directory's address");
	char *real = run_dir == NULL ? NULL : realpath(run_dir, NULL);
	if (run_dir != NULL && real == NULL)
		return sy_fail(err, SY_E_SYS, __func__,
		               "there is no run directory %s: start a cluster with slabyard up", run_dir);
	size_t length = real != NULL
		? sy_format(ret_address, SY_OPEN_ADDRESS_BYTES, "ipc://%s/directory.ipc", real)
		: sy_format(ret_address, SY_OPEN_ADDRESS_BYTES, "%s", directory);
	free(real);
	if (length >= SY_OPEN_ADDRESS_BYTES)
		return sy_fail(err, SY_E_INVALID, __func__, "the path to the directory is too long");
	return SY_OK;
}

/* What the options leave open the environment may say, for programs that pass no options on. */
static sy_status choose_path(struct sy_hub_config *config, sy_error *err)
{
	const char *path = getenv("SLABYARD_TRANSPORT"), *policy = getenv("SLABYARD_POLICY");
	sy_status status = SY_OK;

	if (config->path == SY_PATH_AUTO && path != NULL && path[0] != '\0')
		status = sy_path_from_name("SLABYARD_TRANSPORT", path, &config->path, err);
	if (status == SY_OK && config->policy == SY_POLICY_DEFAULT && policy != NULL &&
	    policy[0] != '\0')
		status = sy_policy_from_name("SLABYARD_POLICY", policy, &config->policy, err);
	if (status != SY_OK)
		return status;
	if (config->path > SY_PATH_UCX || config->policy > SY_POLICY_ALLOW_TCP)
		return sy_fail(err, SY_E_INVALID, __func__, "there is no path %u, or no policy %u",
		               (unsigned)config->path, (unsigned)config->policy);
	if (config->path == SY_PATH_UCX && config->policy == SY_POLICY_SAME_HOST)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "transport ucx and policy same-host, which never starts it, exclude each "
		               "other");
	return SY_OK;
}

sy_status sy_open_hub(const struct sy_open *open, struct sy_hub **ret_hub, sy_error *err)
{
	char address[SY_OPEN_ADDRESS_BYTES];
	const char *name_space = open->name_space != NULL ? open->name_space : "default";
	const char *fault = sy_name_fault(name_space, strlen(name_space));
	struct sy_hub_config config = open->hub;

	if (fault != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "the namespace: %s", fault);
	if (config.control > SY_CONTROL_LOCAL)
		return sy_fail(err, SY_E_INVALID, __func__, "there is no control channel %u",
		               (unsigned)config.control);
	sy_status status = choose_path(&config, err);
	if (status == SY_OK)
		status = sy_open_address(open->run_dir, open->directory, address, err);
	if (status == SY_OK && open->run_dir != NULL && sy_run_dir_is_bare(open->run_dir))
		status = sy_fail(err, SY_E_SYS, "open", /* nobody need be waited for */
		                 "no cluster runs in %s: start one with slabyard up", open->run_dir);
	if (status != SY_OK)
		return status;
	config.directory = address;
	config.name_space = name_space;
	if (config.timeout_ns == 0)
		config.timeout_ns = SY_OPEN_TIMEOUT_NS;
	if (config.control_timeout_ns == 0)
		config.control_timeout_ns = CONTROL_TIMEOUT_NS;
	config.timeout_ns = sy_min_u64(config.timeout_ns, LONGEST_NS);
	config.control_timeout_ns = sy_min_u64(config.control_timeout_ns, LONGEST_NS);
	return sy_hub_open(&config, ret_hub, err);
}

sy_status sy_client_open(const sy_client_options *options, sy_client **ret_client, sy_error *err)
{
	struct sy_open open = {
		.run_dir = options->run_dir, .directory = options->directory,
		.name_space = options->name_space,
		.hub = {.keys = options->keys,
		        .timeout_ns = options->timeout_ns,
		        .control_timeout_ns = options->control_timeout_ns,
		        .control = options->control,
		        .path = options->path,
		        .policy = options->policy,
		        .graveyard_max_bytes = options->graveyard_max_bytes,
		        .interrupted = options->interrupted,
		        .interrupted_context = options->interrupted_context},
	};
	sy_client *client = calloc(1, sizeof *client);

	if (client == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	client->ssd = options->ssd;
	sy_status status = sy_open_hub(&open, &client->hub, err);
	if (status != SY_OK) {
		free(client);
		return status;
	}
	*ret_client = client;
	return SY_OK;
}

void sy_client_close(sy_client *client)
{
	if (client == NULL || !sy_hub_shut(client->hub))
		return;
	sy_hub_unref(client->hub);
	free(client);
}

uint64_t sy_deadline_after(uint64_t ns)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ns;
}

uint64_t sy_client_deadline(const sy_client *client, uint64_t deadline_ns)
{
	return sy_clock_deadline(deadline_ns, sy_hub_timeout_ns(client->hub));
}

uint32_t sy_client_unit_count(const sy_client *client)
{
	return sy_hub_unit_count(client->hub);
}

sy_status sy_key_from_text(const char *text, size_t text_bytes, sy_key *ret_key, sy_error *err)
{
	return sy_key_parse(text, text_bytes, &ret_key->row, &ret_key->field, &ret_key->field_bytes,
	                    err);
}
