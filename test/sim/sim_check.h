/* The checkers, a file an invariant. Each looks at what just happened and calls sim_fail with its
 * invariant's number if it must not. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim.h"

/* I1: a region was granted; a piece of a write landed; a piece was read. */
void check_i1_grant(struct sim_life *life, uint64_t generation);
void check_i1_land(struct sim_life *life, const struct sim_put *put, uint64_t offset,
                   uint64_t bytes, uint64_t generation);
/* Is this range of the slab still what was granted under this generation? */
bool check_i1_same(const struct sim_life *life, uint64_t offset, uint64_t bytes,
                   uint64_t generation);

/* The disk: an operation begins; a region was granted; a good record was not found. */
void check_i1_disk(struct sim_life *life, const struct sim_disk_op *op);
void check_i1_disk_grant(struct sim_life *life, uint64_t offset, uint64_t nbytes,
                         uint64_t generation);
void check_i9_record(struct sim_life *life, const struct sy_disk_job *job);

/* I2: all keys of an accepted put are there; a row is answered from one of its states. */
void check_i2_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation);
/* Keys k and on of a resolve's answer, as the shadow has them. */
void check_i2_rows(struct sim_life *life, const struct sim_request *request,
                   const struct sy_request *wire, uint32_t space);
void check_i2_answer(struct sim_client *client, const struct sim_task *task,
                     const struct sim_request *request); /* as its client got it */

/* I3: right bytes, or a typed error. */
void check_i3_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation);
void check_resolve(struct sim_life *life, struct sim_request *request,
                   const struct sy_reply *reply); /* as it leaves the unit: I2, I3, I4, I8 */
void check_i3_scan(struct sim_life *life, struct sim_request *request,
                   const struct sy_reply *reply);
/* One request of a scan, as its client got it; at the last one, the whole scan. */
void check_i3_scanned(struct sim_client *client, struct sim_task *task);
void check_resolved(struct sim_client *client, struct sim_task *task); /* as its client got it */
void check_read_piece(struct sim_client *client, struct sim_task *task,
                      const struct sim_range *range, uint64_t from, uint64_t bytes);
/* What is left in flight touches memory that nobody else has. */
void check_i3_landing(struct sim *sim, const struct sim_stray *stray);
void check_i3_read(struct sim_client *client, struct sim_task *task); /* a read that counts */
void check_put_told(struct sim_client *client, struct sim_task *task);

/* What the parts of I3 share: equal shapes; a request's message, decoded once more; whose
 * namespace it is about (SIM_SPACES: the stranger's). */
bool check_shape_equal(const sy_shape *a, const sy_shape *b);
bool check_asked(struct sim *sim, const struct sim_request *request, struct sy_request *ret_wire);
uint32_t check_space_of(struct sim_life *life, const struct sim_request *request);

/* I4: once or never. */
void check_i4_granted(struct sim_life *life, struct sy_request_id name, uint64_t generation);
void check_i4_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation);
void check_i4_ran(struct sim_life *life, struct sim_request *request);
void check_i4_notices(struct sim_life *life);

/* I5: stale and strange actors change nothing. */
void check_sent(struct sim_client *client, uint32_t slot, const void *bytes, size_t count);
void check_i5_before(struct sim_life *life);
/* A request had an effect: its session must have been live. */
void check_i5_ran(struct sim_life *life, const struct sim_request *request);
void check_i5_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation);
void check_i5_after(struct sim_life *life);

/* I6: the audit. And what an ended incarnation has counted. */
void check_i6(struct sim_life *life);
void check_counts(struct sim_life *life);
void check_i6_buffers(struct sim_client *client); /* a client's pool and graveyard */
void check_i6_memories(struct sim_client *client); /* and who holds its registered memory */

/* I7: nothing is left behind. */
void check_i7_look(struct sim_life *life);
void check_i7_end(struct sim_life *life);

/* I8: what was released stays so. True: this answer is of a put that a release had cleared. */
bool check_i8_found(struct sim_life *life, const struct sim_key *key, const struct sim_put *put);
void check_i8_accepted(struct sim_life *life, const struct sim_put *put);

/* I9: lost only if gone: at a verdict; when the directory says dead, or what it said dead is
 * something else; at each reply. I10: in time. */
void check_i9_buried(struct sim_life *life, enum sy_unit_state state);
void check_i9_reply(struct sim_life *life, const struct sy_reply *reply);
void check_i9_verdict(struct sim_client *client, const struct sim_task *task, sy_status status);
void check_i10_done(struct sim_client *client, const struct sim_task *task,
                    const struct sy_machine_op *op);
void check_i10_ended(struct sim_client *client, const struct sim_task *task, uint64_t number);

#endif
