#include "dir_client.h"
#include "clock.h"
#include "control.h"
#include "fail.h"
#include "local.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

/* One try's wait for a reply, doubled at each: a lost message costs little, a directory that is
 * slow for a while (its disk) is not asked over and over. */
static const uint64_t FIRST_TRY_NS = 500000000u;
static const uint64_t LONGEST_TRY_NS = 8000000000u;
static const uint64_t INTERRUPT_LOOK_NS = 100000000u;

struct sy_dir_client {
	struct sy_control_context *context;
	uint32_t fork_count;
	_Atomic uint64_t next_id;
	bool (*interrupted)(void *context); /* or NULL */
	void *interrupted_context;
	char address[];
};

/* One call under way. */
struct asking {
	struct sy_dir_client *client;
	enum sy_dir_op op;
	uint64_t request_id;
	struct sy_control_addresses found; /* of the directory's name, as last heard */
	bool is_sent;     /* in this try */
	uint64_t sent_ns; /* of the try that was answered */
	struct sy_buf message;
	struct sy_unit_info *units; /* lent for the reply's list */
	uint32_t unit_capacity;
	struct sy_dir_reply reply;
};

sy_status sy_dir_client_open(const char *address, struct sy_dir_client **ret_client, sy_error *err)
{
	size_t bytes = strlen(address) + 1;
	if (strncmp(address, "ipc://", 6) != 0 && strncmp(address, "tcp://", 6) != 0)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "\"%.80s\" is no directory's address: write ipc://PATH or tcp://HOST:PORT",
		               address);
	struct sy_dir_client *client = calloc(1, sizeof *client + bytes);
	if (client == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	memcpy(client->address, address, bytes);
	client->fork_count = sy_local_fork_count();
	sy_status status = sy_control_context_open(&client->context, err);
	if (status != SY_OK) {
		free(client);
		return status;
	}
	*ret_client = client;
	return SY_OK;
}

void sy_dir_client_set_interrupt(struct sy_dir_client *client, bool (*interrupted)(void *context),
                                 void *context)
{
	client->interrupted = interrupted;
	client->interrupted_context = context;
}

sy_status sy_dir_client_use_keys(struct sy_dir_client *client, const char *keys_dir,
                                 sy_error *err)
{
	struct sy_control_keys keys;
	if (keys_dir == NULL)
		return SY_OK;
	sy_status status = sy_control_keys_client(keys_dir, &keys, err);
	if (status == SY_OK)
		sy_control_context_set_keys(client->context, &keys);
	return status;
}

void sy_dir_client_close(struct sy_dir_client *client)
{
	if (client == NULL)
		return;
	/* In a fork child ZeroMQ's threads are not there: closing would wait for them for ever. */
	if (client->fork_count == sy_local_fork_count())
		sy_control_context_close(client->context);
	free(client);
}

/* A name is looked up for each try, since its host may have moved. SY_OK: addresses are there, or
 * not to be had; SY_E_BUSY: they were not by deadline_ns; else the call was interrupted. */
static sy_status find(struct asking *asking, uint64_t deadline_ns, sy_error *err)
{
	const struct sy_dir_client *client = asking->client;
	if (!sy_control_is_name(client->address)) {
		sy_control_look_up(client->address, &asking->found);
		return SY_OK;
	}
	struct sy_control_lookup *lookup = sy_control_lookup_start(client->address);
	sy_status status = lookup != NULL ? SY_E_BUSY : SY_OK;
	for (uint64_t now = sy_clock_now_ns(); status == SY_E_BUSY && now < deadline_ns;
	     now = sy_clock_now_ns()) {
		uint64_t until_ns = sy_min_u64(deadline_ns, now + INTERRUPT_LOOK_NS);
		if (sy_control_lookup_wait(lookup, until_ns, &asking->found))
			status = SY_OK;
		else if (client->interrupted != NULL && client->interrupted(client->interrupted_context))
			status = sy_fail(err, SY_E_TIMEOUT, __func__, "interrupted");
	}
	sy_control_lookup_leave(lookup);
	return status;
}

/* The request goes to whichever of the addresses is reached first. True: it went just now. */
static bool send_once(struct asking *asking, struct sy_control_client *socket)
{
	if (asking->is_sent)
		return false;
	asking->sent_ns = sy_clock_now_ns();
	asking->is_sent =
		sy_control_client_send(socket, asking->message.data, asking->message.bytes);
	return asking->is_sent;
}

/* SY_E_BUSY: no reply by try_deadline_ns. What else it may be is the call's outcome. */
static sy_status reply_await(struct asking *asking, struct sy_control_client *socket,
                             uint64_t try_deadline_ns, sy_error *err)
{
	const struct sy_dir_client *client = asking->client;
	struct pollfd wait = {.fd = sy_control_client_fd(socket), .events = POLLIN};
	uint64_t look_ns =
		client->interrupted != NULL ? sy_clock_now_ns() + INTERRUPT_LOOK_NS : UINT64_MAX;
	for (;;) {
		const void *message;
		size_t bytes;
		while (sy_control_client_receive(socket, &message, &bytes)) {
			uint64_t id;
			if (sy_dir_reply_peek(message, bytes, &id, err) != SY_OK)
				return SY_E_PROTOCOL;
			if (id == asking->request_id)
				return sy_dir_reply_decode(message, bytes, asking->op, asking->units,
				                           asking->unit_capacity, &asking->reply, err);
		}
		if (send_once(asking, socket))
			continue; /* sending may have eaten what the descriptor says */
		uint64_t now = sy_clock_now_ns();
		if (now >= try_deadline_ns)
			return SY_E_BUSY;
		if (now >= look_ns) {
			look_ns = now + INTERRUPT_LOOK_NS;
			if (client->interrupted(client->interrupted_context))
				return sy_fail(err, SY_E_TIMEOUT, __func__, "interrupted");
		}
		uint64_t until_ns = sy_min_u64(try_deadline_ns, look_ns);
		if (poll(&wait, 1, sy_clock_poll_ms(now, until_ns)) < 0 && errno != EINTR)
			return sy_fail(err, SY_E_SYS, __func__, "cannot wait for the directory: error %d",
			               errno);
	}
}

static sy_status try_once(struct asking *asking, uint64_t try_deadline_ns, sy_error *err)
{
	struct sy_control_client *socket;
	sy_status status = sy_control_client_open_any(asking->client->context, &asking->found,
	                                              &socket, err);
	if (status != SY_OK)
		return status;
	asking->is_sent = false;
	status = reply_await(asking, socket, try_deadline_ns, err);
	sy_control_client_close(socket, 0);
	return status;
}

/* Nothing came in a try. Who has no keys that are asked for would wait in vain; where nothing is
 * heard, as of a directory that is slow, that is for a later try. */
static sy_status look_why(const struct asking *asking, uint64_t deadline_ns, sy_error *err)
{
	const struct sy_control_addresses *found = &asking->found;
	uint64_t end_ns = sy_min_u64(deadline_ns, sy_clock_now_ns() + FIRST_TRY_NS);
	sy_status status = SY_OK;
	for (uint32_t i = 0; i < found->count && status == SY_OK; i++) {
		uint64_t now = sy_clock_now_ns();
		uint64_t share_ns = now < end_ns ? (end_ns - now) / (found->count - i) : 0;
		status = sy_control_context_check(asking->client->context, found->endpoints[i],
		                                  now + share_ns, err);
	}
	return status == SY_OK ? SY_E_BUSY : status;
}

static sy_status fault_status(enum sy_dir_fault fault)
{
	switch (fault) {
	case SY_DIR_FAULT_NONE:
		return SY_OK;
	case SY_DIR_FAULT_HELD:
	case SY_DIR_FAULT_TURN:
		return SY_E_BUSY;
	case SY_DIR_FAULT_BURIED:
		return SY_E_FATAL;
	case SY_DIR_FAULT_NO_SLOT:
	case SY_DIR_FAULT_STATE:
	case SY_DIR_FAULT_EMPTY:
		return SY_E_INVALID;
	case SY_DIR_FAULT_STORE:
		return SY_E_SYS;
	case SY_DIR_FAULT_MALFORMED:
	default:
		return SY_E_PROTOCOL;
	}
}

static sy_status refused(const struct asking *asking, sy_error *err)
{
	const char *more = asking->reply.text;
	return sy_fail(err, fault_status(asking->reply.fault), __func__,
	               "the directory refused %s: %s%s%s", sy_dir_op_name((uint8_t)asking->op),
	               sy_dir_fault_text((uint8_t)asking->reply.fault), more[0] != '\0' ? ", " : "",
	               more);
}

/* Sends request until it is answered or the deadline comes; asking->reply is set on SY_OK and,
 * with its fault, where the directory refused. */
static sy_status ask(struct asking *asking, const struct sy_dir_request *request,
                     uint64_t deadline_ns, sy_error *err)
{
	struct sy_dir_client *client = asking->client;
	if (client->fork_count != sy_local_fork_count())
		return sy_fail(err, SY_E_FATAL, __func__,
		               "this process is a fork of the one that opened the directory's client");
	struct sy_dir_request sent = *request;
	sent.request_id = atomic_fetch_add(&client->next_id, 1) + 1;
	asking->op = sent.op;
	asking->request_id = sent.request_id;
	asking->reply = (struct sy_dir_reply){0};
	sy_dir_request_encode(&sent, &asking->message);
	sy_status status = asking->message.failed
	                       ? sy_fail(err, SY_E_SYS, __func__, "out of memory")
	                       : SY_E_BUSY;
	uint64_t try_ns = FIRST_TRY_NS;
	for (uint64_t now = sy_clock_now_ns(); status == SY_E_BUSY && now < deadline_ns;
	     now = sy_clock_now_ns()) {
		status = find(asking, deadline_ns, err);
		if (status == SY_OK)
			status = try_once(asking, sy_min_u64(deadline_ns, sy_clock_now_ns() + try_ns), err);
		if (status == SY_E_BUSY)
			status = look_why(asking, deadline_ns, err);
		try_ns = sy_min_u64(try_ns * 2, LONGEST_TRY_NS);
	}
	sy_buf_free(&asking->message);
	if (status == SY_E_BUSY)
		return sy_fail(err, SY_E_TIMEOUT, __func__,
		               "the directory at %.120s did not answer in time%s", client->address,
		               asking->found.count == 0 ? ": no address of its name was found" : "");
	if (status == SY_OK && asking->reply.fault != SY_DIR_FAULT_NONE)
		return refused(asking, err);
	return status;
}

/* The slot in a list of all; NULL: the cluster has no such slot (or the list is not one). */
static const struct sy_unit_info *slot_of(const struct sy_unit_list *list, uint32_t unit_id)
{
	bool is_slot = unit_id < list->count && list->units[unit_id].unit_id == unit_id;
	return is_slot ? &list->units[unit_id] : NULL;
}

static void renewal_fill(const struct asking *asking, enum sy_unit_state state,
                         const struct sy_dir_times *times, struct sy_dir_renewal *ret_renewal)
{
	if (ret_renewal != NULL)
		*ret_renewal = (struct sy_dir_renewal){
			.sent_ns = asking->sent_ns, .answered_ns = sy_clock_now_ns(), .state = state,
			.times = *times};
}

sy_status sy_dir_client_register(struct sy_dir_client *client, const struct sy_unit_info *unit,
                                 uint64_t deadline_ns, struct sy_dir_renewal *ret_renewal,
                                 sy_error *err)
{
	struct sy_unit_list list = {0};
	struct sy_dir_request request = {.op = SY_DIR_OP_REGISTER, .unit = *unit};
	struct asking asking = {.client = client};
	if (sy_unit_address_fault(unit->ipc_address) != NULL ||
	    sy_unit_address_fault(unit->tcp_address) != NULL ||
	    sy_unit_address_fault(unit->local_path) != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "an address of the unit is at fault");
	/* The turn may move between reading it and registering, as when the slot's former unit is
	 * reported dead just then; then it is read again. */
	for (;;) {
		sy_status status = sy_dir_client_units(client, 0, deadline_ns, &list, err);
		if (status != SY_OK)
			return status;
		const struct sy_unit_info *slot = slot_of(&list, unit->unit_id);
		bool is_slot = slot != NULL;
		request.unit.turn = is_slot ? slot->turn : 0;
		uint32_t slot_count = list.slot_count;
		const struct sy_dir_times times = list.times;
		sy_unit_list_done(&list);
		if (!is_slot)
			return sy_fail(err, SY_E_INVALID, __func__,
			               "no slot for unit %u in a cluster of %u units", unit->unit_id,
			               slot_count);
		status = ask(&asking, &request, deadline_ns, err);
		bool moved = status == SY_E_BUSY && asking.reply.fault == SY_DIR_FAULT_TURN;
		if (status == SY_OK)
			renewal_fill(&asking, SY_UNIT_ACTIVE, &times, ret_renewal);
		if (!moved)
			return status;
		if (sy_clock_now_ns() >= deadline_ns)
			return sy_fail(err, SY_E_TIMEOUT, __func__, "slot %u kept changing hands",
			               unit->unit_id);
	}
}

sy_status sy_dir_client_renew(struct sy_dir_client *client, uint32_t unit_id, uint64_t incarnation,
                              uint64_t deadline_ns, struct sy_dir_renewal *ret_renewal,
                              sy_error *err)
{
	static const struct sy_dir_times no_times;
	struct asking asking = {.client = client};
	struct sy_dir_request request = {
		.op = SY_DIR_OP_RENEW, .unit = {.unit_id = unit_id, .incarnation = incarnation}};
	sy_status status = ask(&asking, &request, deadline_ns, err);
	if (status == SY_OK)
		renewal_fill(&asking, asking.reply.unit_state, &no_times, ret_renewal);
	return status;
}

sy_status sy_dir_client_set_state(struct sy_dir_client *client, uint32_t unit_id,
                                  uint64_t incarnation, enum sy_unit_state state,
                                  uint64_t deadline_ns, sy_error *err)
{
	struct asking asking = {.client = client};
	struct sy_dir_request request = {
		.op = SY_DIR_OP_SET_STATE,
		.unit = {.unit_id = unit_id, .incarnation = incarnation, .state = state},
	};
	return ask(&asking, &request, deadline_ns, err);
}

sy_status sy_dir_client_exited(struct sy_dir_client *client, uint32_t unit_id,
                               uint64_t incarnation, uint64_t deadline_ns, sy_error *err)
{
	struct asking asking = {.client = client};
	struct sy_dir_request request = {
		.op = SY_DIR_OP_EXITED, .unit = {.unit_id = unit_id, .incarnation = incarnation}};
	return ask(&asking, &request, deadline_ns, err);
}

sy_status sy_dir_client_units(struct sy_dir_client *client, uint64_t min_epoch,
                              uint64_t deadline_ns, struct sy_unit_list *ret_list, sy_error *err)
{
	struct sy_unit_info *units = calloc(SY_UNITS_MAX, sizeof *units);
	if (units == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	struct asking asking = {.client = client, .units = units, .unit_capacity = SY_UNITS_MAX};
	struct sy_dir_request request = {.op = SY_DIR_OP_UNITS, .min_epoch = min_epoch};
	sy_status status = ask(&asking, &request, deadline_ns, err);
	if (status != SY_OK) {
		free(units);
		return status;
	}
	*ret_list = (struct sy_unit_list){
		.epoch = asking.reply.epoch,
		.slot_count = asking.reply.slot_count,
		.times = asking.reply.times,
		.count = asking.reply.unit_count,
		.units = units,
	};
	return SY_OK;
}

void sy_unit_list_done(struct sy_unit_list *list)
{
	if (list == NULL)
		return;
	free(list->units);
	*list = (struct sy_unit_list){0};
}

sy_status sy_dir_client_is_dead(struct sy_dir_client *client, uint32_t unit_id,
                                uint64_t incarnation, uint64_t deadline_ns, bool *ret_is_dead,
                                sy_error *err)
{
	struct sy_unit_list list = {0};
	sy_status status = sy_dir_client_units(client, 0, deadline_ns, &list, err);
	if (status != SY_OK)
		return status;
	const struct sy_unit_info *slot = slot_of(&list, unit_id);
	if (slot == NULL || slot->state == SY_UNIT_NONE || incarnation == 0)
		status = sy_fail(err, SY_E_INVALID, __func__, "no unit %u was ever registered", unit_id);
	else /* whoever was met and is not in the slot now had to be dead for another to enter */
		*ret_is_dead = slot->incarnation != incarnation || slot->state == SY_UNIT_DEAD;
	sy_unit_list_done(&list);
	return status;
}

sy_status sy_dir_client_epoch(struct sy_dir_client *client, uint64_t deadline_ns,
                              uint64_t *ret_epoch, sy_error *err)
{
	struct asking asking = {.client = client};
	struct sy_dir_request request = {.op = SY_DIR_OP_EPOCH};
	sy_status status = ask(&asking, &request, deadline_ns, err);
	if (status == SY_OK)
		*ret_epoch = asking.reply.epoch;
	return status;
}

sy_status sy_dir_client_stats(struct sy_dir_client *client, uint64_t deadline_ns,
                              struct sy_dir_stats *ret_stats, sy_error *err)
{
	struct asking asking = {.client = client};
	struct sy_dir_request request = {.op = SY_DIR_OP_STATS};
	sy_status status = ask(&asking, &request, deadline_ns, err);
	if (status == SY_OK)
		*ret_stats = asking.reply.stats;
	return status;
}
