/* The options of a unit: `up` takes them for all its units and hands them on, `unit` for its
 * own. */
#ifndef SY_UNIT_OPTIONS_H
#define SY_UNIT_OPTIONS_H

#include "daemon.h"
#include "options.h"

struct sy_unit_options {
	uint64_t slab_bytes; /* 0: not given; whole pages of it are used */
	uint64_t max_entries, max_sessions, eager_max_bytes;
	uint64_t read_pin_ns, heartbeat_ns, session_expire_ns;
	uint64_t ssd_bytes; /* 0: no disk tier */
	const char *ssd_dir, *listen;
	const char *keys; /* NULL: none */
	const char *policy; /* NULL: same-host */
	bool insecure, zmq_only;
};

/* Rows for a table of struct sy_option. */
#define SY_UNIT_OPTION_ROWS(unit) \
	{ \
		.name = "slab-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES, \
		.min = SY_UNIT_SLAB_MIN_BYTES, .target = &(unit)->slab_bytes, \
		.help = "memory of one unit, as in 64MiB or 1.5GiB; whole pages of it" \
	}, \
	{ \
		.name = "ssd-dir", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &(unit)->ssd_dir, \
		.help = "where a unit keeps what its memory does not hold; with --ssd-bytes" \
	}, \
	{ \
		.name = "ssd-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES, \
		.min = SY_UNIT_SSD_MIN_BYTES, .target = &(unit)->ssd_bytes, \
		.help = "disk space of one unit; an eighth of its memory then serves the disk" \
	}, \
	{ \
		.name = "max-entries", .value = "N", .kind = SY_OPTION_COUNT, .min = 1, \
		.max = SY_UNIT_MAX_ENTRIES, \
		.target = &(unit)->max_entries, .help = "entries of one unit; default: by its memory" \
	}, \
	{ \
		.name = "max-sessions", .value = "N", .kind = SY_OPTION_COUNT, .min = 1, \
		.max = SY_UNIT_MAX_SESSIONS, \
		.target = &(unit)->max_sessions, .help = "clients of one unit; default: 1024" \
	}, \
	{ \
		.name = "eager-max-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES, \
		.max = SY_UNIT_EAGER_MAX_BYTES, .target = &(unit)->eager_max_bytes, \
		.help = "puts up to this travel with their message; default: 32KiB" \
	}, \
	{ \
		.name = "read-pin", .value = "TIME", .kind = SY_OPTION_DURATION, .min = 1, \
		.target = &(unit)->read_pin_ns, .help = "how long a remote read may last; default: 60s" \
	}, \
	{ \
		.name = "heartbeat", .value = "TIME", .kind = SY_OPTION_DURATION, \
		.min = SY_UNIT_HEARTBEAT_MIN_NS, .target = &(unit)->heartbeat_ns, \
		.help = "how often clients are heard of; default: 2s" \
	}, \
	{ \
		.name = "session-expire", .value = "TIME", .kind = SY_OPTION_DURATION, \
		.target = &(unit)->session_expire_ns, \
		.help = "when a silent remote client is given up, over 3 heartbeats; default: 20s" \
	}, \
	{ \
		.name = "listen", .value = "ADDRESS", .kind = SY_OPTION_TEXT, .target = &(unit)->listen, \
		.help = "where units listen besides the run directory; default: tcp://127.0.0.1:*" \
	}, \
	{ \
		.name = "keys", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &(unit)->keys, \
		.help = "hear over --listen only who has the keys in DIR, which `keygen` makes" \
	}, \
	{ \
		.name = "insecure", .kind = SY_OPTION_FLAG, .target = &(unit)->insecure, \
		.help = "let --listen name an address that other hosts reach, unchecked" \
	}, \
	{ \
		.name = "policy", .value = "WORD", .kind = SY_OPTION_TEXT, .target = &(unit)->policy, \
		.help = "same-host, rdma or allow-tcp: how other hosts reach values (same-host)" \
	}, \
	{ \
		.name = "zmq-only", .kind = SY_OPTION_FLAG, .target = &(unit)->zmq_only, \
		.help = "clients of this host, too, send their messages over ZeroMQ" \
	}

/* The defaults. */
void sy_unit_options_init(struct sy_unit_options *options);

/* What they come to for one unit; `ret_config` points to texts of `options`. */
void sy_unit_options_config(const struct sy_unit_options *options, uint32_t unit_id,
                            uint32_t unit_count, const char *run_dir,
                            struct sy_unit_config *ret_config);

enum { SY_UNIT_WORDS_MAX = 32, SY_UNIT_WORD_BYTES = 32 };

/* The options as words of a command line; they point into this struct and into the options. */
struct sy_unit_words {
	const char *list[SY_UNIT_WORDS_MAX];
	size_t count;
	char numbers[SY_UNIT_WORDS_MAX][SY_UNIT_WORD_BYTES];
};

void sy_unit_options_words(const struct sy_unit_options *options, struct sy_unit_words *ret_words);

#endif
