/* The client's side of UCX: transfers between this process and slabs of other hosts.
 *
 * Transfers run in their callers' threads, many at once: each has a lane (a worker of its own)
 * for its length. Bytes go through registered buffers of the mover: what a transfer that was given
 * up still does, it does to a buffer that nobody else gets. Only ranges that lie in memory which
 * the caller registered (ucx_memories.h), and are large enough, go straight from and to it; that
 * memory then is held until nothing can touch it any more.
 *
 * A transfer that ends otherwise than well closes its connection by force. Its buffer is finished
 * once the worker has flushed; of a WRITE the region is finished once the unit has answered the
 * lane's next connection (join.h). What is not finished lies in the graveyard: sy_ucx_mover_poll
 * looks after it. */
#ifndef SY_UCX_MOVER_H
#define SY_UCX_MOVER_H

#include "proto.h"
#include "range.h"
#include "ucx_memories.h"

struct sy_ucx_mover;
struct sy_ucx_peer;

struct sy_ucx_mover_config {
	bool allow_tcp;
	bool inet6;                   /* the units' addresses are of IPv6 */
	uint64_t buffer_bytes;        /* of a base buffer, of which there is one a lane; 0: 1 MiB */
	uint64_t large_max_bytes;     /* for more bytes a larger buffer, up to this; 0: 8 MiB */
	uint64_t pool_max_bytes;      /* of all larger ones; 0: 64 MiB */
	uint64_t direct_min_bytes;    /* of a range that goes straight; 0: 64 KiB */
	struct sy_ucx_memories *memories; /* a reference is taken; NULL: an empty one of its own */
	uint64_t graveyard_max_bytes; /* past it the mover is poisoned; 0: 4 GiB */
};

/* Checks the policy and starts UCX. SY_E_POLICY, SY_E_SYS. */
sy_status sy_ucx_mover_open(const struct sy_ucx_mover_config *config,
                            struct sy_ucx_mover **ret_mover, sy_error *err);
/* When no transfer runs; none may begin any more. Peers that are left are freed later. NULL is a
 * no-op. */
void sy_ucx_mover_close(struct sy_ucx_mover *mover);

/* A slab as one session of a unit reaches it; the address as the unit told it. One reference, the
 * caller's; transfers hold theirs. NULL: memory is short. */
struct sy_ucx_peer *sy_ucx_peer_new(struct sy_ucx_mover *mover, const char *address,
                                    uint64_t session, uint64_t incarnation, uint64_t slab_bytes);
/* No transfer of it runs, and none will. */
void sy_ucx_peer_free(struct sy_ucx_peer *peer);

struct sy_ucx_transfer {
	const struct sy_range *ranges;
	size_t count;
	uint64_t base_offset, deadline_ns;
	bool write;
	struct sy_request_id name; /* of a WRITE: comes back when a late end is proved */
};

/* Every operation and a flush of a WRITE are done when it returns SY_OK. Ranges lie inside the
 * slab (the caller checked). On failure *ret_in_flight says whether bytes may land later: in the
 * region of a WRITE, in registered memory of the caller's of a READ.
 * SY_E_TRANSFER (the deadline, or the connection), SY_E_FATAL (poisoned), SY_E_SYS. */
sy_status sy_ucx_move(struct sy_ucx_peer *peer, const struct sy_ucx_transfer *transfer,
                      bool *ret_in_flight, sy_error *err);

struct sy_ucx_account {
	uint64_t written_bytes, read_bytes; /* of transfers that ended well */
	uint64_t direct_bytes;              /* of both, without a copy here */
	uint64_t register_count;            /* of times that UCX was asked to register memory */
	uint64_t pool_bytes;                /* of buffers that are free or used */
	uint64_t grave_bytes, grave_count;  /* posted and not proved finished */
	bool poisoned;
};
void sy_ucx_mover_account(struct sy_ucx_mover *mover, struct sy_ucx_account *ret_account);

/* Looks after the graveyard, for a moment; to be called now and then while it is not empty. */
void sy_ucx_mover_poll(struct sy_ucx_mover *mover);

/* A WRITE that ended in flight and came to its end. */
struct sy_ucx_ended {
	struct sy_request_id name;
	uint64_t incarnation;
	bool drained; /* proved finished; else its session is over, and its unit's fence sees to it */
};
/* False: none, for now. */
bool sy_ucx_mover_ended(struct sy_ucx_mover *mover, struct sy_ucx_ended *ret_ended);

#endif
