#include "unit_options.h"
#include "fail.h"

void sy_unit_options_init(struct sy_unit_options *options)
{
	struct sy_unit_config config;
	sy_unit_config_init(&config);
	*options = (struct sy_unit_options){
		.max_entries = config.max_entries,
		.max_sessions = config.max_sessions,
		.eager_max_bytes = config.eager_max_bytes,
		.read_pin_ns = config.read_pin_ns,
		.heartbeat_ns = config.heartbeat_ns,
		.session_expire_ns = config.session_expire_ns,
		.listen = config.listen,
	};
}

static uint32_t narrow(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void sy_unit_options_config(const struct sy_unit_options *options, uint32_t unit_id,
                            uint32_t unit_count, const char *run_dir,
                            struct sy_unit_config *ret_config)
{
	struct sy_unit_config *config = ret_config;
	sy_unit_config_init(config);
	config->unit_id = unit_id;
	config->slot_count = unit_count;
	config->run_dir = run_dir;
	config->slab_bytes = options->slab_bytes - options->slab_bytes % SY_UNIT_PAGE_BYTES;
	config->max_entries = narrow(options->max_entries);
	config->max_sessions = narrow(options->max_sessions);
	config->eager_max_bytes = narrow(options->eager_max_bytes);
	config->read_pin_ns = options->read_pin_ns;
	config->heartbeat_ns = options->heartbeat_ns;
	config->session_expire_ns = options->session_expire_ns;
	config->listen = options->listen;
	config->keys = options->keys;
	config->insecure = options->insecure;
	config->ssd_dir = options->ssd_dir;
	config->ssd_bytes = options->ssd_bytes;
	config->policy_name = options->policy;
	config->zmq_only = options->zmq_only;
}

static void word_add(struct sy_unit_words *words, const char *word)
{
	words->list[words->count++] = word;
}

static void number_add(struct sy_unit_words *words, const char *name, uint64_t value,
                       const char *unit)
{
	word_add(words, name);
	char *number = words->numbers[words->count];
	sy_format(number, SY_UNIT_WORD_BYTES, "%llu%s", (unsigned long long)value, unit);
	word_add(words, number);
}

void sy_unit_options_words(const struct sy_unit_options *options, struct sy_unit_words *ret_words)
{
	ret_words->count = 0;
	number_add(ret_words, "--slab-bytes", options->slab_bytes, "");
	if (options->max_entries != 0) /* else by the memory */
		number_add(ret_words, "--max-entries", options->max_entries, "");
	number_add(ret_words, "--max-sessions", options->max_sessions, "");
	number_add(ret_words, "--eager-max-bytes", options->eager_max_bytes, "");
	number_add(ret_words, "--read-pin", options->read_pin_ns, "ns");
	number_add(ret_words, "--heartbeat", options->heartbeat_ns, "ns");
	number_add(ret_words, "--session-expire", options->session_expire_ns, "ns");
	word_add(ret_words, "--listen");
	word_add(ret_words, options->listen);
	if (options->ssd_dir != NULL) {
		word_add(ret_words, "--ssd-dir");
		word_add(ret_words, options->ssd_dir);
	}
	if (options->ssd_bytes != 0)
		number_add(ret_words, "--ssd-bytes", options->ssd_bytes, "");
	if (options->keys != NULL) {
		word_add(ret_words, "--keys");
		word_add(ret_words, options->keys);
	}
	if (options->policy != NULL) {
		word_add(ret_words, "--policy");
		word_add(ret_words, options->policy);
	}
	if (options->insecure)
		word_add(ret_words, "--insecure");
	if (options->zmq_only)
		word_add(ret_words, "--zmq-only");
}
