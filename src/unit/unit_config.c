#include "unit_config.h"

#include "fail.h"
#include "listen.h"
#include "message.h"
#include "ucx_policy.h"
#include "units.h"

static const uint64_t second_ns = 1000000000u;

_Static_assert(SY_UNIT_EAGER_MAX_BYTES <= SY_MESSAGE_MAX_BYTES / 2, "fits a message");

enum { MAX_PINS = 65536, MAX_FIELDS = 4096, MAX_NAMESPACES = 256, MAX_SHAPES = 65536 };
/* A disk reads so much about as fast as less of it. */
enum { LOAD_WHOLE_BYTES = 1 << 20 };
enum { MAX_PARKED = 1024, MAX_JOBS = 64, MAX_SESSIONS = 1024 };
/* A round trip is little beside the copy of a larger one. All that are out at a time take at most
 * this share of the slab from those who put other sizes. */
enum { GRANT_MAX_BYTES = 4 << 20, GRANTS_SHARE = 16 };
/* A blob up to so many bytes is copied four times more to spare a round trip, which takes longer
 * from 12 KiB on as well. */
enum { EAGER_BYTES = 32 << 10, INLINE_BYTES = 8 << 10 };

void sy_unit_config_init(struct sy_unit_config *config)
{
	*config = (struct sy_unit_config){
		.slot_count = 1,
		.listen = "tcp://127.0.0.1:*",
		.group = -1,
		.max_sessions = MAX_SESSIONS,
		.eager_max_bytes = EAGER_BYTES,
		.inline_max_bytes = INLINE_BYTES,
		.read_pin_ns = 60 * second_ns,
		.heartbeat_ns = 2 * second_ns,
		.session_expire_ns = 20 * second_ns,
		.retire_grace_ns = 120 * second_ns,
		.park_max_ns = second_ns,
	};
}

static sy_status check_slab(const struct sy_unit_config *config, sy_error *err)
{
	char min_text[16];
	sy_format_bytes(SY_UNIT_SLAB_MIN_BYTES, min_text);
	if (config->slab_bytes < SY_UNIT_SLAB_MIN_BYTES)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--slab-bytes %llu is too small: give at least %s",
		               (unsigned long long)config->slab_bytes, min_text);
	if (config->slab_bytes % SY_UNIT_PAGE_BYTES != 0)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--slab-bytes %llu is no multiple of %d: %llu would be",
		               (unsigned long long)config->slab_bytes, SY_UNIT_PAGE_BYTES,
		               (unsigned long long)(config->slab_bytes / SY_UNIT_PAGE_BYTES *
		                                    SY_UNIT_PAGE_BYTES));
	return SY_OK;
}

static sy_status check_ssd(const struct sy_unit_config *config, sy_error *err)
{
	char min_text[16];
	sy_format_bytes(SY_UNIT_SSD_MIN_BYTES, min_text);
	if ((config->ssd_dir != NULL) != (config->ssd_bytes != 0))
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "a disk tier needs both: --ssd-dir DIR and --ssd-bytes SIZE");
	if (config->ssd_bytes != 0 && config->ssd_bytes < SY_UNIT_SSD_MIN_BYTES)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "a disk tier of %llu bytes is too small: at least %s",
		               (unsigned long long)config->ssd_bytes, min_text);
	if (config->ssd_bytes > SY_UNIT_SSD_MAX_BYTES)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--ssd-bytes %llu is too large: give at most 1024TiB",
		               (unsigned long long)config->ssd_bytes);
	return SY_OK;
}

/* Puts and reads that find no room go through so much of the slab. */
static uint64_t staging_bytes(const struct sy_unit_config *config)
{
	uint64_t bytes = config->slab_bytes / 8;
	return config->ssd_bytes == 0 ? 0 : bytes - bytes % SY_UNIT_PAGE_BYTES;
}

static sy_status check_times(const struct sy_unit_config *config, sy_error *err)
{
	char heartbeat[SY_DURATION_TEXT_BYTES], expire[SY_DURATION_TEXT_BYTES];
	sy_format_duration(config->heartbeat_ns, heartbeat);
	sy_format_duration(config->session_expire_ns, expire);
	if (config->heartbeat_ns < SY_UNIT_HEARTBEAT_MIN_NS)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--heartbeat %s is too short: give at least 10ms", heartbeat);
	if (config->session_expire_ns / 3 <= config->heartbeat_ns)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--session-expire %s is not over 3 times --heartbeat %s: give a longer "
		               "--session-expire or a shorter --heartbeat", expire, heartbeat);
	if (config->read_pin_ns == 0)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "--read-pin 0s holds nothing: give a time over 0");
	if (config->retire_grace_ns == 0 || config->park_max_ns == 0)
		return sy_fail(err, SY_E_INVALID, "sy_unit_config_check",
		               "the retire grace and the parking time must be over 0");
	return SY_OK;
}

sy_policy sy_unit_config_policy(const struct sy_unit_config *config)
{
	sy_policy policy = SY_POLICY_SAME_HOST;
	if (config->policy_name != NULL)
		(void)sy_policy_from_name("--policy", config->policy_name, &policy, NULL);
	return policy;
}

sy_status sy_unit_config_check(const struct sy_unit_config *config, sy_error *err)
{
	if (config->slot_count == 0 || config->slot_count > SY_UNITS_MAX ||
	    config->unit_id >= config->slot_count)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "unit %u of %u: a cluster has 1 to %d units, numbered from 0",
		               config->unit_id, config->slot_count, SY_UNITS_MAX);
	sy_status status = check_slab(config, err);
	if (status == SY_OK)
		status = sy_listen_check(config->listen, config->keys != NULL || config->insecure, err);
	if (status == SY_OK)
		status = check_times(config, err);
	if (status == SY_OK)
		status = check_ssd(config, err);
	sy_policy policy;
	if (status == SY_OK && config->policy_name != NULL)
		status = sy_policy_from_name("--policy", config->policy_name, &policy, err);
	if (status != SY_OK)
		return status;
	if (config->eager_max_bytes > SY_UNIT_EAGER_MAX_BYTES)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "--eager-max-bytes %u is too large: give at most 2 MiB",
		               config->eager_max_bytes);
	if (config->inline_max_bytes > SY_MESSAGE_INLINE_TOTAL_BYTES)
		return sy_fail(err, SY_E_INVALID, __func__, "values inline are at most %d bytes",
		               SY_MESSAGE_INLINE_TOTAL_BYTES);
	const struct sy_core_params params = sy_unit_config_params(config, 1, 1);
	if (sy_core_arena_bytes(&params) == 0)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "out of range: --max-entries (%u) is 1 to %d, --max-sessions (%u) 1 to %d",
		               params.max_entries, SY_UNIT_MAX_ENTRIES, params.max_sessions,
		               SY_UNIT_MAX_SESSIONS);
	return SY_OK;
}

struct sy_core_params sy_unit_config_params(const struct sy_unit_config *config,
                                            uint64_t incarnation, uint64_t seed)
{
	return (struct sy_core_params){
		.slab_bytes = config->slab_bytes,
		.staging_bytes = staging_bytes(config),
		.disk_bytes = config->ssd_bytes - config->ssd_bytes % SY_UNIT_PAGE_BYTES,
		.load_whole_bytes = LOAD_WHOLE_BYTES,
		.incarnation = incarnation,
		.seed = seed,
		.unit_id = config->unit_id,
		.slot_count = config->slot_count,
		.max_entries = config->max_entries != 0 ? config->max_entries
		                                        : sy_core_default_entries(config->slab_bytes),
		.max_sessions = config->max_sessions,
		.max_pins = MAX_PINS,
		.max_fields = MAX_FIELDS,
		.max_namespaces = MAX_NAMESPACES,
		.max_shapes = MAX_SHAPES,
		.max_parked = MAX_PARKED,
		.max_jobs = MAX_JOBS,
		.eager_max_bytes = config->eager_max_bytes,
		.inline_max_bytes = config->inline_max_bytes,
		.inline_total_bytes = SY_MESSAGE_INLINE_TOTAL_BYTES,
		.grant_max_bytes = GRANT_MAX_BYTES,
		.grant_total_bytes = config->slab_bytes / GRANTS_SHARE,
		.remote_write = sy_unit_config_policy(config) != SY_POLICY_SAME_HOST,
		.read_pin_ns = config->read_pin_ns,
		.heartbeat_ns = config->heartbeat_ns,
		.session_expire_ns = config->session_expire_ns,
		.retire_grace_ns = config->retire_grace_ns,
		.park_max_ns = config->park_max_ns,
	};
}
