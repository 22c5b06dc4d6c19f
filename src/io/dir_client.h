/* Asking the directory: one call, one answer, by a deadline.
 *
 * Every call may be made from many threads at once: each opens a connection of its own, so no
 * call waits for another's. A reply that does not come is asked for again over a new connection,
 * within the deadline; the directory does twice what it does once. Deadlines are instants of
 * sy_clock_now_ns. */
#ifndef SY_DIR_CLIENT_H
#define SY_DIR_CLIENT_H

#include "dir_message.h"

struct sy_dir_client;

/* Connects to nothing yet. address: ipc://path or tcp://host:port, copied. Owned by the caller.
 * SY_E_INVALID: no such address; SY_E_SYS. */
sy_status sy_dir_client_open(const char *address, struct sy_dir_client **ret_client,
                             sy_error *err);
/* From now on a call that waits asks this ten times a second; true ends it as SY_E_TIMEOUT. Not
 * while a call runs. */
void sy_dir_client_set_interrupt(struct sy_dir_client *client, bool (*interrupted)(void *context),
                                 void *context);
/* The client's keys in keys_dir (NULL: none) are shown from now on where the directory's address
 * is tcp. Not while a call runs. The errors of sy_control_keys_client. */
sy_status sy_dir_client_use_keys(struct sy_dir_client *client, const char *keys_dir,
                                 sy_error *err);
/* No call may be running. NULL is a no-op. */
void sy_dir_client_close(struct sy_dir_client *client);

/* All calls below fail with SY_E_TIMEOUT (nothing answered), SY_E_PROTOCOL (something else
 * answered), SY_E_AUTH (it asks for keys and there are none, or the other way round), SY_E_SYS
 * (out of descriptors or memory, or the directory cannot write its state), SY_E_FATAL (this
 * process is a fork child of the one that opened the client), and with what is named at each. */

/* An answered register or renew: the unit's lease begins when it was sent. Who holds none passes
 * NULL below. */
struct sy_dir_renewal {
	uint64_t sent_ns, answered_ns;
	enum sy_unit_state state;  /* of the unit, as the directory has it */
	struct sy_dir_times times; /* of register */
};

/* Enters the unit into its slot. state, draining, turn and epoch of `unit` are not read. Call it
 * when the unit can serve, and let it answer no client before this returned: an incarnation that a
 * client has met and that the directory does not know is taken for dead.
 * SY_E_BUSY: the slot is held by a unit that is not dead; SY_E_INVALID: no such slot, or an
 * address at fault; SY_E_FATAL: this incarnation was declared dead. */
sy_status sy_dir_client_register(struct sy_dir_client *client, const struct sy_unit_info *unit,
                                 uint64_t deadline_ns, struct sy_dir_renewal *ret_renewal,
                                 sy_error *err);
/* SY_E_FATAL: this incarnation is dead; SY_E_INVALID: no unit ever registered in the slot. */
sy_status sy_dir_client_renew(struct sy_dir_client *client, uint32_t unit_id, uint64_t incarnation,
                              uint64_t deadline_ns, struct sy_dir_renewal *ret_renewal,
                              sy_error *err);
/* To ACTIVE or DRAINING. SY_E_FATAL as above; SY_E_INVALID: another state, or no unit there. */
sy_status sy_dir_client_set_state(struct sy_dir_client *client, uint32_t unit_id,
                                  uint64_t incarnation, enum sy_unit_state state,
                                  uint64_t deadline_ns, sy_error *err);
/* Says that the incarnation's process has ended. Only who knows that for certain may say it. */
sy_status sy_dir_client_exited(struct sy_dir_client *client, uint32_t unit_id,
                               uint64_t incarnation, uint64_t deadline_ns, sy_error *err);

/* Slots of the directory, those that changed at min_epoch or later. */
struct sy_unit_list {
	uint64_t epoch;
	uint32_t slot_count; /* N */
	struct sy_dir_times times;
	uint32_t count;
	struct sy_unit_info *units; /* ascending; owned: sy_unit_list_done */
};

/* min_epoch 0: all slots, those where nobody ever registered included (state NONE). */
sy_status sy_dir_client_units(struct sy_dir_client *client, uint64_t min_epoch,
                              uint64_t deadline_ns, struct sy_unit_list *ret_list, sy_error *err);
void sy_unit_list_done(struct sy_unit_list *list); /* NULL and a zeroed list are no-ops */

/* What has become of an incarnation that this process has met (through the directory, a welcome
 * or a hello). *ret_is_dead is written only on SY_OK; on any failure nothing is known.
 * SY_E_INVALID: no such slot, incarnation 0, or nobody ever registered in the slot. */
sy_status sy_dir_client_is_dead(struct sy_dir_client *client, uint32_t unit_id,
                                uint64_t incarnation, uint64_t deadline_ns, bool *ret_is_dead,
                                sy_error *err);

sy_status sy_dir_client_epoch(struct sy_dir_client *client, uint64_t deadline_ns,
                              uint64_t *ret_epoch, sy_error *err);
sy_status sy_dir_client_stats(struct sy_dir_client *client, uint64_t deadline_ns,
                              struct sy_dir_stats *ret_stats, sy_error *err);

#endif
