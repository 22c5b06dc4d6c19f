/* One-sided transfers between this process and a unit's slab: what a transport must do.
 *
 * `shm` (shm.c) maps the slab and copies; `ucx` (ucx.c) puts and gets over RDMA. The hub attaches
 * a slab once a connection (shm) or a session (ucx); transfers run in the caller's thread, many at
 * once. */
#ifndef SY_TRANSPORT_H
#define SY_TRANSPORT_H

#include <slabyard/status.h>

#include "bytes.h"
#include "proto.h"
#include "range.h"

struct sy_remote;

struct sy_transfer {
	const struct sy_range *ranges;
	size_t count;
	uint64_t base_offset;      /* that the ranges' offsets count from */
	uint64_t deadline_ns;      /* CLOCK_BOOTTIME */
	struct sy_request_id name; /* of a WRITE's reservation */
};

struct sy_transport {
	const char *name;
	uint32_t bit; /* SY_TRANSPORT_* */

	/* Copies every range. On failure *ret_in_flight says whether bytes may land later; if not,
	 * the transfer is proved finished. SY_E_TRANSFER, also at the deadline; SY_E_FATAL,
	 * SY_E_POLICY. When write returns SY_OK, the bytes are there for everyone. */
	sy_status (*write)(struct sy_remote *remote, const struct sy_transfer *transfer,
	                   bool *ret_in_flight, sy_error *err);
	sy_status (*read)(struct sy_remote *remote, const struct sy_transfer *transfer,
	                  bool *ret_in_flight, sy_error *err);
	/* A READ of about so many bytes follows in some microseconds. NULL: there is nothing to make
	 * ready for one. */
	void (*expect)(struct sy_remote *remote, uint64_t nbytes);
	/* Lets go of the slab. Called when the last user of the remote is gone. */
	void (*detach)(struct sy_remote *remote);
};

/* One slab this process reaches: of one incarnation of one unit. Counted: the hub holds one
 * reference while the connection stands, every transfer and every view one while it lasts. */
struct sy_remote {
	const struct sy_transport *transport;
	uint64_t incarnation;
	uint64_t slab_bytes;
	const uint8_t *base;  /* the mapping, if this process can write the slab directly; else NULL */
	const uint8_t *view_base; /* the slab mapped once more, where views point: nobody can write
	                           * there. NULL: it gives no views */
	uint32_t refs;        /* atomic */
	uint32_t fork_count;  /* of the process that attached it */
	struct sy_copy_pool *pool; /* threads that help its copies; NULL: none */
	struct sy_remote *next; /* of those whose pages are to be mapped, or unmapped */
	uint64_t populated_bytes; /* of base: whoever calls sy_shm_populate */
};

struct sy_remote *sy_remote_ref(struct sy_remote *remote);
void sy_remote_unref(struct sy_remote *remote); /* NULL is a no-op */
/* The unit told us these offsets; a unit that tells nonsense must not make us write elsewhere.
 * False: the range of this number lies outside. */
bool sy_transfer_lies_in(const struct sy_remote *remote, const struct sy_transfer *transfer,
                         size_t *ret_outside);

/* Takes over the descriptor of a slab (closed in any case) and maps it; its pages are faulted in
 * by their first use, or mapped before that by sy_shm_populate. The mappings are not inherited
 * over fork. SY_E_SYS. */
sy_status sy_shm_attach(int descriptor, uint64_t slab_bytes, uint64_t incarnation,
                        struct sy_remote **ret_remote, sy_error *err);
/* Maps the next pages of a slab, which take a third of a second a GiB if they have 4 KiB: a few
 * MiB at once, for who maps something else meanwhile waits for that, and the first 8 GiB of it.
 * False: there are no more, this system cannot, or nobody but the caller holds the slab. Of one
 * caller at a time. */
bool sy_shm_populate(struct sy_remote *remote);

/* A slab that was let go of stays mapped until it is unmapped here: to give back its pages takes a
 * quarter of a second a GiB, and who let go of it may hold a lock, or have a deadline. */
struct sy_remote *sy_shm_left(void); /* takes all of this process; NULL: there are none */
bool sy_shm_has_left(void);
void sy_shm_unmap(struct sy_remote *left);

struct sy_ucx_mover;
struct sy_hello_result;

/* The slab of a session's unit over UCX. mover NULL: every transfer fails with `fault`. NULL: out
 * of memory. */
struct sy_remote *sy_ucx_attach(struct sy_ucx_mover *mover, const sy_error *fault,
                                const struct sy_hello_result *hello);

#endif
