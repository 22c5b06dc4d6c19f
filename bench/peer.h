/* A contender: what the benchmarks ask of each store they compare.
 *
 * Every function but open, connect and close is called in a timed region or right beside one, so
 * each does what a program using that store would do and no more. A false return is a failure
 * with its words in peer->error; the contender then leaves the case. */
#ifndef SY_BENCH_PEER_H
#define SY_BENCH_PEER_H

#include <sys/types.h>

#include "payload.h"

enum { PEER_ERROR_BYTES = 256, PEER_THREADS_MAX = 8 };

/* How a batch goes. A store without columns puts and gets them as so many keys. */
enum peer_way { PEER_KEYS, PEER_COLUMNS, PEER_VIEW };

struct peer;

/* A burst of operations that another program does, and what it took. */
struct peer_burst {
	bool puts; /* else gets */
	uint32_t rows, ops;
	double *latency_ns; /* of each operation */
	uint64_t client_cpu_ns, server_cpu_ns;
};

struct peer_kind {
	const char *name;
	bool copies_only; /* has nothing to clear or to attach to */
	/* Once a process, before any connect. */
	bool (*open)(struct peer *peer);
	void (*close)(struct peer *peer);
	/* One connection a thread, with room for batches of batch_max rows. fresh: shares nothing with
	 * what the process has open already. NULL: failed. */
	void *(*connect)(struct peer *peer, uint32_t batch_max, bool fresh);
	void (*disconnect)(void *connection);

	bool (*put)(void *connection, const struct batch *batch, enum peer_way way);
	bool (*get)(void *connection, const struct batch *batch, enum peer_way way);
	/* What the last get returned for the batch's i-th row; false: absent. */
	bool (*value)(void *connection, const struct batch *batch, uint32_t i, uint32_t column,
	              const void **ret_data, size_t *ret_bytes);
	/* Frees what the last get returned. */
	void (*release)(void *connection);
	bool (*clear)(void *connection, const struct batch *batch);
	/* Messages its servers have received and sent so far, and how many of them asking costs; NULL
	 * where nobody counts. */
	uint64_t (*messages)(void *connection);
	/* Not NULL: it draws rows, prepares, times and checks by itself, of plain puts and gets alone;
	 * what is between disconnect and here is NULL then. */
	bool (*burst)(void *connection, struct peer_burst *burst);
};

struct peer {
	const struct peer_kind *kind;
	char name[32];     /* as the table says it */
	char address[128]; /* unix:PATH, HOST:PORT, or a run directory */
	bool tuned;
	const struct payload *payload;
	uint32_t *held;    /* shared by all processes; see payload.h */
	pid_t *servers;
	size_t server_count;
	void *shared;      /* what the connections of one process share */
	void *connections[PEER_THREADS_MAX];
	char error[PEER_ERROR_BYTES];
};

extern const struct peer_kind peer_slabyard, peer_memcpy, peer_redis, peer_memcached, peer_wake,
	peer_outside;

/* Writes peer->error; returns false. */
bool peer_fail(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
