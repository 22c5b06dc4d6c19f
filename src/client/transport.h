/* One-sided transfers between this process and a unit's slab: what a transport must do.
 *
 * `shm` (shm.c) maps the slab and copies; `ucx` will put and get over RDMA. The hub attaches a
 * slab once an incarnation; transfers run in the caller's thread, many at once. */
#ifndef SY_TRANSPORT_H
#define SY_TRANSPORT_H

#include <slabyard/status.h>

#include "bytes.h"

/* One range of a transfer. Its offset counts from the base given to write or read. */
struct sy_range {
	uint64_t offset;
	uint64_t nbytes;
	union {
		const void *from; /* WRITE */
		void *to;         /* READ */
	};
};

struct sy_remote;

struct sy_transport {
	const char *name;
	uint32_t bit; /* SY_TRANSPORT_* */

	/* Copies every range. On failure *ret_in_flight says whether bytes may land later; if not,
	 * the transfer is proved finished. Checked against the deadline (CLOCK_BOOTTIME) between
	 * chunks. SY_E_TRANSFER. When write returns SY_OK, the bytes are there for everyone. */
	sy_status (*write)(struct sy_remote *remote, const struct sy_range *ranges, size_t count,
	                   uint64_t base_offset, uint64_t deadline_ns, bool *ret_in_flight,
	                   sy_error *err);
	sy_status (*read)(struct sy_remote *remote, const struct sy_range *ranges, size_t count,
	                  uint64_t base_offset, uint64_t deadline_ns, bool *ret_in_flight,
	                  sy_error *err);
	/* Lets go of the slab. Called when the last user of the remote is gone. */
	void (*detach)(struct sy_remote *remote);
};

/* One slab this process reaches: of one incarnation of one unit. Counted: the hub holds one
 * reference while the connection stands, every transfer and every view one while it lasts. */
struct sy_remote {
	const struct sy_transport *transport;
	uint64_t incarnation;
	uint64_t slab_bytes;
	const uint8_t *base;  /* the mapping, if this process can read the slab directly; else NULL */
	uint32_t refs;        /* atomic */
	uint32_t fork_count;  /* of the process that attached it */
	struct sy_copy_pool *pool; /* threads that help its copies; NULL: none */
};

struct sy_remote *sy_remote_ref(struct sy_remote *remote);
void sy_remote_unref(struct sy_remote *remote); /* NULL is a no-op */

/* Takes over the descriptor of a slab (closed in any case), maps and populates it up to
 * the deadline; pages not populated by then are faulted in by their first use.
 * The mapping is not inherited over fork. SY_E_SYS. */
sy_status sy_shm_attach(int descriptor, uint64_t slab_bytes, uint64_t incarnation,
                        uint64_t deadline_ns, struct sy_remote **ret_remote, sy_error *err);

#endif
