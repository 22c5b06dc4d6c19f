/* How a unit is to run. */
#ifndef SY_UNIT_CONFIG_H
#define SY_UNIT_CONFIG_H

#include <slabyard/client.h>

#include "dir_message.h"
#include "params.h"

enum { SY_UNIT_SLAB_MIN_BYTES = 64 << 10, SY_UNIT_PAGE_BYTES = 4096 };
enum { SY_UNIT_SSD_MIN_BYTES = 1 << 20 };
#define SY_UNIT_SSD_MAX_BYTES (UINT64_C(1) << 50) /* what the core can keep account of */
enum { SY_UNIT_EAGER_MAX_BYTES = 2 << 20 };
enum { SY_UNIT_MAX_ENTRIES = 10000000, SY_UNIT_MAX_SESSIONS = 65535 };
enum { SY_UNIT_HEARTBEAT_MIN_NS = 10000000 };

/* Text is borrowed and outlives the run. */
struct sy_unit_config {
	uint32_t unit_id;
	uint32_t slot_count;   /* N, units of the cluster */
	uint64_t slab_bytes;   /* a multiple of 4,096 */
	const char *run_dir;
	const char *listen;    /* besides ipc in the run directory; default tcp://127.0.0.1:* */
	const char *keys;      /* the directory of keys that tcp asks for; NULL: none */
	bool insecure;         /* listen may leave this host although nothing checks who connects */
	const char *policy_name; /* of the transport to other hosts, as sy_policy_from_name takes it;
	                          * NULL: same-host, there is none */
	bool zmq_only;         /* control messages of same-host clients, too, by ZeroMQ alone */
	int group;             /* whose members may connect to the local socket; -1: only our user */
	const char *ssd_dir;   /* of the disk tier; NULL: none */
	uint64_t ssd_bytes;    /* whole blocks of 4,096 of it are used; 0: none */
	const char *directory; /* its address; NULL: register nowhere */
	uint32_t max_entries;  /* 0: by the size of the slab */
	uint32_t max_sessions;
	uint32_t eager_max_bytes, inline_max_bytes;
	uint64_t read_pin_ns, heartbeat_ns, session_expire_ns, retire_grace_ns, park_max_ns;
	/* Called once, when the unit is registered and about to serve; may be NULL. */
	void (*ready)(void *context, const struct sy_unit_info *info);
	void *ready_context;
};

/* The defaults of PROTOCOL; unit 0 of 1, with no slab size and no run directory yet. */
void sy_unit_config_init(struct sy_unit_config *config);

/* SY_E_INVALID and one line that names the option of the command, and what would do. */
sy_status sy_unit_config_check(const struct sy_unit_config *config, sy_error *err);

/* Of a checked config. */
sy_policy sy_unit_config_policy(const struct sy_unit_config *config);
/* The core's parameters for a checked config. */
struct sy_core_params sy_unit_config_params(const struct sy_unit_config *config,
                                            uint64_t incarnation, uint64_t seed);

#endif
