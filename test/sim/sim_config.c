#include "sim_config.h"

#include <string.h>

static const char *const fault_names[SIM_FAULT_COUNT] = {
#define FAULT_NAME(name, text) [SIM_FAULT_##name] = text,
	SIM_FAULT_LIST(FAULT_NAME)
#undef FAULT_NAME
};

const char *sim_fault_name(uint32_t fault)
{
	return fault < SIM_FAULT_COUNT ? fault_names[fault] : "unknown";
}

uint32_t sim_fault_named(const char *name)
{
	uint32_t fault = 0;
	while (fault < SIM_FAULT_COUNT && strcmp(fault_names[fault], name) != 0)
		fault++;
	return fault;
}

static uint32_t pick(struct sy_prng *prng, const uint32_t *from, uint32_t count)
{
	return from[sy_prng_below(prng, count)];
}

#define PICK(prng, ...) \
	pick(prng, (const uint32_t[]){__VA_ARGS__}, \
	     (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

static uint64_t between(struct sy_prng *prng, uint64_t low, uint64_t high)
{
	return low + sy_prng_below(prng, high - low + 1);
}

/* A kind of fault is absent from half of the seeds, so that what needs quiet is tried too. */
static void draw_rates(struct sy_prng *prng, struct sim_config *config)
{
	static const uint32_t highest[SIM_FAULT_COUNT] = {
		[SIM_FAULT_DROP] = 500, [SIM_FAULT_DOUBLE] = 800, [SIM_FAULT_LATE] = 300,
		[SIM_FAULT_REORDER] = 3000, [SIM_FAULT_CUT] = 400, [SIM_FAULT_RECONNECT] = 500,
		[SIM_FAULT_OLD_CONNECTION] = 5000, [SIM_FAULT_OLD_QUEUE] = 6000,
		[SIM_FAULT_LATE_WRITE] = 2500, [SIM_FAULT_LATE_READ] = 2500,
		[SIM_FAULT_FENCE_LATE] = 5000, [SIM_FAULT_CLIENT_KILL] = 400,
		[SIM_FAULT_CLIENT_STOP] = 600, [SIM_FAULT_CLIENT_CLOSE] = 300,
		[SIM_FAULT_CLIENT_START] = 3000, [SIM_FAULT_UNIT_KILL] = 200,
		[SIM_FAULT_UNIT_STOP] = 300, [SIM_FAULT_UNIT_START] = 3000,
		[SIM_FAULT_UNIT_DRAIN] = 300, [SIM_FAULT_OLD_SLAB] = 10000,
		[SIM_FAULT_DIRECTORY] = 400, [SIM_FAULT_CLOCK_HELD] = 400,
		[SIM_FAULT_CLOCK_JUMP] = 200, [SIM_FAULT_STRANGER] = 900, [SIM_FAULT_GARBAGE] = 300,
		[SIM_FAULT_SCRIBBLE] = 400, [SIM_FAULT_STALE] = 5000,
		[SIM_FAULT_CANCEL] = 300, [SIM_FAULT_ARENA_MOVE] = 800,
		[SIM_FAULT_ARENA_REBUILD] = 800, [SIM_FAULT_CAPACITY] = 1,
	};
	bool calm = sy_prng_chance(prng, 10);
	for (uint32_t i = 0; i < SIM_FAULT_DISK_SLOW; i++) {
		uint64_t drawn = between(prng, 1, highest[i]);
		bool absent = sy_prng_chance(prng, 50);
		bool always = i == SIM_FAULT_CLIENT_START || i == SIM_FAULT_UNIT_START ||
		              i == SIM_FAULT_OLD_SLAB || i == SIM_FAULT_ARENA_MOVE ||
		              i == SIM_FAULT_ARENA_REBUILD;
		config->rate[i] = (uint32_t)drawn;
		if ((!always && (calm || absent)) || (config->off >> i & 1) != 0)
			config->rate[i] = 0;
	}
}

/* Tables so small that each of their ends is met. */
static void draw_small(struct sy_prng *prng, struct sy_core_params *params)
{
	params->max_entries = PICK(prng, 12, 40, 100, 300);
	params->max_sessions = PICK(prng, 2, 4, 12);
	params->max_pins = PICK(prng, 1, 2, 6, 64);
	params->max_fields = PICK(prng, 2, 5, 12);
	params->max_namespaces = PICK(prng, 1, 2, 4);
	params->max_shapes = PICK(prng, 1, 2, 4);
	params->max_parked = PICK(prng, 0, 1, 2, 4);
	params->max_jobs = PICK(prng, 1, 2);
}

static void draw_params(struct sy_prng *prng, struct sim_config *config)
{
	struct sy_core_params *params = &config->params;
	*params = (struct sy_core_params){
		.slab_bytes = UINT64_C(1024) * PICK(prng, 16, 64, 64, 256, 1024),
		.slot_count = config->units,
		.max_entries = PICK(prng, 300, 1000, 2500),
		.max_sessions = 32,
		.max_pins = 200,
		.max_fields = 64,
		.max_namespaces = 8,
		.max_shapes = 64,
		.max_parked = 16,
		.max_jobs = 4,
		.eager_max_bytes = PICK(prng, 512, 2048, 8192),
		.inline_max_bytes = PICK(prng, 0, 64, 4096),
		.inline_total_bytes = PICK(prng, 64, 4096, 65536),
		.remote_write = sy_prng_chance(prng, 75),
	};
	if (config->rate[SIM_FAULT_CAPACITY] != 0)
		draw_small(prng, params);
	params->heartbeat_ns = between(prng, 1, 4) * 500 * SIM_MS;
	params->session_expire_ns = params->heartbeat_ns * between(prng, 4, 12);
	params->read_pin_ns = between(prng, 2, 60) * SIM_S;
	params->retire_grace_ns = between(prng, 2, 90) * SIM_S;
	params->park_max_ns = between(prng, 1, 10) * 100 * SIM_MS;
	struct sy_prng aside = *prng; /* what is drawn after it stays as it was */
	params->reap_budget = PICK(&aside, 0, 20, 50);
	params->unpin_budget = PICK(&aside, 0, 0, 1);
}

/* Units on several hosts, in some of the seeds: leases in place of exits that are reported. Drawn
 * apart, so that the other seeds keep their histories, those of seeds.txt among them. */
static void draw_leases(uint64_t seed, struct sim_config *config)
{
	struct sy_prng draw, *prng = &draw;
	sy_prng_seed(prng, seed ^ UINT64_C(0x1ea71));
	if (!sy_prng_chance(prng, 40))
		return;
	struct sy_dir_times *times = &config->times;
	uint64_t heartbeat_ns = config->params.heartbeat_ns;
	times->suspect_after_ns = heartbeat_ns * between(prng, 2, 4);
	times->fence_after_ns = times->suspect_after_ns + SIM_MS * between(prng, 500, 20000);
	times->dead_after_ns = times->fence_after_ns + SIM_MS * between(prng, 200, 3000);
	config->renew_ns = heartbeat_ns / between(prng, 1, 4);
	config->rate[SIM_FAULT_RENEWAL_LOST] = PICK(prng, 0, 500, 3000, 8000);
	config->rate[SIM_FAULT_RENEWAL_LATE] = PICK(prng, 0, 500, 3000, 8000);
	config->rate[SIM_FAULT_RENEWAL_CUT] = PICK(prng, 100, 600, 2000);
	config->rate[SIM_FAULT_DIRECTORY_RESTART] = PICK(prng, 0, 50, 400);
	config->rate[SIM_FAULT_UNREPORTED] = PICK(prng, 3000, 10000);
	/* So that a run lasts longer than leases, and answers that are late are waited for. */
	config->think_ns = SIM_MS * PICK(prng, 100, 400, 2000);
	config->turn_ns = SIM_MS * PICK(prng, 200, 1000);
	if (sy_prng_chance(prng, 50)) {
		config->control_timeout_ns = 60 * SIM_S;
		config->rate[SIM_FAULT_LATE] = 2500;
		if ((config->off >> SIM_FAULT_LATE & 1) != 0)
			config->rate[SIM_FAULT_LATE] = 0;
	}
	for (uint32_t i = SIM_FAULT_RENEWAL_LOST; i < SIM_FAULT_COUNT; i++) {
		if ((config->off >> i & 1) != 0)
			config->rate[i] = 0;
	}
}

/* Other hosts' transfers as a network card does them, in some of the seeds: through an endpoint
 * that is closed by force, into buffers of a pool, given up at their deadline. Drawn apart, like
 * leases and for the same reason. */
static void draw_transfers(uint64_t seed, struct sim_config *config)
{
	struct sy_prng draw, *prng = &draw;
	config->buffers = (struct sy_buffers_config){.base_count = 1, .base_bytes = 1,
	                                             .pool_max_bytes = 1,
	                                             .graveyard_max_bytes = UINT64_MAX};
	config->fence_late_ns = 20 * SIM_S;
	sy_prng_seed(prng, seed ^ UINT64_C(0x7a45f17));
	config->transfers = sy_prng_chance(prng, 40);
	if (!config->transfers)
		return;
	uint64_t base_bytes = PICK(prng, 200, 1000, 5000);
	config->buffers = (struct sy_buffers_config){
		.base_count = PICK(prng, 1, 2, 4), .base_bytes = base_bytes,
		.pool_max_bytes = UINT64_C(1024) * PICK(prng, 8, 64, 1024),
		.graveyard_max_bytes = base_bytes * PICK(prng, 4, 40, 4000)};
	config->rate[SIM_FAULT_FORCED_CLOSE] = PICK(prng, 0, 300, 2000);
	config->rate[SIM_FAULT_NEVER_DONE] = PICK(prng, 0, 1000, 5000);
	config->rate[SIM_FAULT_READ_LEFT] = PICK(prng, 100, 1000, 3000);
	config->rate[SIM_FAULT_READ_WAITS] = PICK(prng, 0, 1000, 3000);
	/* So that pins end, and their regions come to others, while they are read; and that units are
	 * replaced between a resolve and its read. What a disk tier does needs units that live. */
	if (config->params.disk_bytes == 0) {
		config->rate[SIM_FAULT_READ_WAITS] = PICK(prng, 3000, 8000);
		config->params.read_pin_ns = SIM_S * PICK(prng, 1, 2, 20, 60);
		config->params.inline_max_bytes = 0;
		config->rate[SIM_FAULT_UNIT_KILL] = PICK(prng, 0, 300, 1500);
		config->rate[SIM_FAULT_REPLACED] = PICK(prng, 0, 1000, 5000);
	}
	config->remote_percent = PICK(prng, 60, 100, 100);
	config->params.remote_write = true;
	config->params.retire_grace_ns = SIM_S * PICK(prng, 2, 5, 30);
	config->fence_late_ns = 3 * config->params.retire_grace_ns;
	config->rate[SIM_FAULT_FENCE_LATE] = PICK(prng, 0, 3000, 8000);
	for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
		if ((config->off >> i & 1) != 0)
			config->rate[i] = 0;
	}
}

/* Grants of regions for the next put, in most of the seeds, so large a part of the slab that they
 * are missed elsewhere. Drawn apart, like leases and for the same reason: in none of seeds.txt. */
static void draw_grants(uint64_t seed, struct sim_config *config)
{
	struct sy_prng draw, *prng = &draw;
	struct sy_core_params *params = &config->params;
	sy_prng_seed(prng, seed ^ UINT64_C(0x65cc4));
	if (!sy_prng_chance(prng, 70))
		return;
	params->grant_total_bytes = params->slab_bytes / PICK(prng, 2, 2, 4, 16);
	params->grant_max_bytes = params->grant_total_bytes / PICK(prng, 1, 2, 4);
	if (config->renew_ns != 0 || sy_prng_chance(prng, 40))
		return; /* what leases show needs the time between two operations */
	/* Puts of about one size that follow each other soon, and room for them. */
	config->think_ns = SIM_MS * PICK(prng, 1, 20, 100);
	config->wide_percent = PICK(prng, 80, 95);
	config->entries_max = PICK(prng, 4, 12, 12);
	config->values_max_bytes = PICK(prng, 32, 200, 2000);
	config->mix = (struct sim_mix){.put = 60, .put_inline = 5, .resolve = 20, .release = 10,
	                               .scan = 1, .query = 1, .again = 5};
	params->slab_bytes = sy_max_u64(params->slab_bytes, UINT64_C(1024) * PICK(prng, 64, 1024));
	params->max_entries = 2500;
	params->max_fields = params->max_shapes = 64;
	params->max_namespaces = 8;
	params->grant_total_bytes = params->slab_bytes / PICK(prng, 2, 4);
	params->grant_max_bytes = params->grant_total_bytes;
}

static void draw_mix(struct sy_prng *prng, struct sim_mix *mix)
{
	*mix = (struct sim_mix){
		.put = (uint32_t)between(prng, 2, 30), .put_inline = (uint32_t)between(prng, 2, 30),
		.resolve = (uint32_t)between(prng, 5, 60), .release = (uint32_t)between(prng, 1, 15),
		.scan = (uint32_t)between(prng, 0, 5), .query = (uint32_t)between(prng, 0, 5),
		.again = (uint32_t)between(prng, 0, 10),
	};
}

/* Wide puts and releases, so that a clear takes many steps and others wait for its memory. */
static void draw_bulk(struct sy_prng *prng, struct sim_config *config)
{
	struct sy_core_params *params = &config->params;
	config->rows = SIM_ROWS_MAX;
	config->fields = SIM_FIELDS_MAX;
	config->entries_max = PICK(prng, 1500, 3000, 3000);
	config->values_max_bytes = PICK(prng, 32, 64);
	config->wide_percent = PICK(prng, 30, 70, 95);
	config->work_ns = SIM_US * PICK(prng, 100, 5000, 100000);
	config->think_ns = SIM_MS * PICK(prng, 1, 20);
	config->tasks = SIM_TASKS_MAX;
	config->steps /= 2;
	config->mix = (struct sim_mix){.put = 25, .put_inline = 10, .resolve = 8, .release = 40,
	                               .scan = 2, .query = 2};
	params->slab_bytes = UINT64_C(1024) * PICK(prng, 256, 320, 500);
	params->max_entries = 7000;
	params->max_fields = params->max_shapes = 64;
	params->max_sessions = 32;
	params->max_namespaces = 8;
	params->max_pins = 64;
	params->max_jobs = PICK(prng, 1, 1, 2, 4);
	params->max_parked = PICK(prng, 0, 1, 4, 16);
	params->park_max_ns = SIM_MS * PICK(prng, 1, 20, 500);
}

/* A disk a few times the slab's size, or one that is soon full. All of it is drawn after the rest,
 * which so is the same with and without. */
static void draw_tier(struct sy_prng *prng, struct sim_config *config)
{
	static const uint32_t highest[SIM_FAULT_COUNT] = {
		[SIM_FAULT_DISK_SLOW] = 500, [SIM_FAULT_DISK_READ] = 2000,
		[SIM_FAULT_DISK_WRITE] = 2000, [SIM_FAULT_DISK_FULL] = 500,
		[SIM_FAULT_DISK_TORN] = 800, [SIM_FAULT_DISK_FLIP] = 500,
		[SIM_FAULT_DISK_LOST] = 100,
	};
	struct sy_core_params *params = &config->params;
	if (sy_prng_chance(prng, 40))
		return;
	params->staging_bytes = params->slab_bytes / PICK(prng, 4, 8, 2) / 64 * 64;
	params->disk_bytes = sy_align_up(params->slab_bytes * PICK(prng, 1, 2, 8, 8), 8192);
	params->load_whole_bytes = PICK(prng, 0, 1024, 65536, 1048576);
	config->disk_ns = SIM_US * PICK(prng, 100, 1000, 30000, 300000);
	for (uint32_t i = SIM_FAULT_DISK_SLOW; i <= SIM_FAULT_DISK_LOST; i++) {
		uint64_t drawn = between(prng, 1, highest[i]);
		if (sy_prng_chance(prng, 60) && (config->off >> i & 1) == 0)
			config->rate[i] = (uint32_t)drawn;
	}
}

void sim_config_draw(struct sim_config *ret_config, uint64_t seed,
                     const struct sim_wanted *wanted)
{
	struct sim_config *config = ret_config;
	struct sy_prng draw, *prng = &draw;
	sy_prng_seed(prng, seed ^ UINT64_C(0x5eed));
	*config = (struct sim_config){.seed = seed, .only = wanted->only, .off = wanted->off};
	config->steps = PICK(prng, 4000, 10000, 24000);
	config->clients = PICK(prng, 1, 2, 3, 4, 6);
	config->units = PICK(prng, 1, 1, 2, 3);
	if (wanted->clients != 0)
		config->clients = wanted->clients;
	if (wanted->units != 0)
		config->units = wanted->units;
	config->tasks = PICK(prng, 1, 2, 4, SIM_TASKS_MAX);
	config->rows = PICK(prng, 2, 8, 20, SIM_ROWS_MAX);
	config->fields = PICK(prng, 2, 4, 8, 24);
	config->values_max_bytes = PICK(prng, 32, 200, 2000, 9000);
	config->entries_max = PICK(prng, 4, 12, 60, 400, 1500);
	config->think_ns = SIM_MS * PICK(prng, 1, 20, 300, 2000);
	config->latency_ns = SIM_US * PICK(prng, 50, 500, 20000);
	config->control_timeout_ns = SIM_MS * PICK(prng, 200, 2000, 30000);
	config->turn_ns = SIM_MS * PICK(prng, 20, 200, 1500);
	config->copy_ns = SIM_US * PICK(prng, 20, 20, 1000, 30000);
	config->work_ns = SIM_US * PICK(prng, 100, 100, 5000, 100000);
	config->wide_percent = PICK(prng, 2, 2, 20, 60);
	config->remote_percent = PICK(prng, 0, 30, 60, 100);
	config->audit_every = PICK(prng, 3, 10, 30);
	draw_rates(prng, config);
	draw_params(prng, config);
	draw_mix(prng, &config->mix);
	if (sy_prng_chance(prng, 15))
		draw_bulk(prng, config);
	draw_tier(prng, config);
	draw_leases(seed, config);
	draw_transfers(seed, config);
	draw_grants(seed, config);
	if (wanted->steps != 0)
		config->steps = wanted->steps;
}
