/* The hub and its mover: made when a unit of another host is first connected to. */
#include <string.h>

#include "clock.h"
#include "fail.h"
#include "hub_inner.h"

static const uint64_t TEND_NS = 50 * 1000 * 1000;
static const uint64_t ASK_NS = 900 * 1000 * 1000; /* the keeper looks once a second */
/* Meanwhile nobody looks at the time for the others. */
static const uint64_t ASK_WAIT_NS = 30 * 1000 * 1000;

sy_status sy_hub_need_mover(struct sy_hub *hub, const char *address, sy_error *err)
{
	const struct sy_ucx_mover_config config = {
		.allow_tcp = hub->config.policy == SY_POLICY_ALLOW_TCP,
		.inet6 = strncmp(address, "tcp://[", strlen("tcp://[")) == 0,
		.graveyard_max_bytes = hub->config.graveyard_max_bytes,
		.memories = hub->config.memories,
	};
	struct sy_ucx_mover *mover = NULL;
	sy_error fault = {0};
	sy_status status = SY_OK;

	pthread_mutex_lock(&hub->lock);
	bool made = hub->mover != NULL;
	pthread_mutex_unlock(&hub->lock);
	if (made)
		return SY_OK;
	if (hub->config.policy == SY_POLICY_SAME_HOST)
		status = sy_fail(&fault, SY_E_POLICY, __func__,
		                 "policy same-host starts no UCX, and no other path leads to the slab of "
		                 "a unit: set the policy to rdma");
	else
		status = sy_ucx_mover_open(&config, &mover, &fault);
	pthread_mutex_lock(&hub->lock);
	if (hub->mover == NULL) {
		hub->mover = mover;
		mover = NULL;
		hub->mover_fault = fault;
	}
	pthread_mutex_unlock(&hub->lock);
	sy_ucx_mover_close(mover); /* another thread was faster */
	if (status != SY_OK)
		sy_error_copy(err, &fault);
	return status;
}

static bool has_waited(const struct sy_link *link, uint64_t now_ns)
{
	for (const struct sy_call *call = link->calls; call != NULL; call = call->next_on_link) {
		if (call->op.stage != SY_OP_STAGE_WRITING && now_ns - call->waits_since_ns >= ASK_NS)
			return true;
	}
	return false;
}

bool sy_hub_ask_after_remote(struct sy_hub *hub)
{
	uint64_t now_ns = sy_clock_now_ns();
	bool waited = false;

	for (uint32_t i = 0; i < hub->unit_count && !waited; i++)
		waited = hub->links[i] != NULL && sy_link_is_remote(hub->links[i]) &&
		         has_waited(hub->links[i], now_ns);
	if (!waited || now_ns - hub->asked_ns < ASK_NS)
		return false;
	hub->asked_ns = now_ns;
	pthread_mutex_unlock(&hub->lock);
	sy_status status = sy_hub_refresh(hub, now_ns + ASK_WAIT_NS, NULL);
	pthread_mutex_lock(&hub->lock);
	for (uint32_t i = 0; status == SY_OK && i < hub->unit_count; i++) {
		struct sy_link *link = hub->links[i];

		if (link != NULL && sy_link_is_remote(link) &&
		    (hub->units[i].state == SY_UNIT_DEAD ||
		     hub->units[i].incarnation != link->incarnation))
			sy_link_drop(link);
	}
	return true;
}

bool sy_hub_is_poisoned(const struct sy_hub *hub)
{
	struct sy_ucx_account account = {0};

	if (hub->mover != NULL)
		sy_ucx_mover_account(hub->mover, &account);
	return account.poisoned;
}

/* Its unit is told, if it is still there; else what was kept for telling it is let go. */
static void tell_end(struct sy_hub *hub, const struct sy_ucx_ended *ended)
{
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		struct sy_link *link = hub->links[i];

		if (link == NULL || sy_machine_incarnation(link->machine) != ended->incarnation)
			continue;
		if (ended->drained)
			sy_machine_drained(link->machine, ended->name, sy_clock_now_ns());
		else
			sy_machine_never_drained(link->machine);
		sy_link_pump(link, sy_clock_now_ns());
	}
}

void sy_hub_tend_graves(struct sy_hub *hub)
{
	struct sy_ucx_mover *mover = hub->mover;
	struct sy_ucx_account account = {0};
	struct sy_ucx_ended ended;

	if (mover == NULL)
		return;
	sy_ucx_mover_account(mover, &account);
	if (account.grave_count == 0)
		return;
	pthread_mutex_unlock(&hub->lock);
	sy_ucx_mover_poll(mover);
	pthread_mutex_lock(&hub->lock);
	while (sy_ucx_mover_ended(mover, &ended))
		tell_end(hub, &ended);
	sy_hub_keep_by(hub, sy_clock_now_ns() + TEND_NS);
}
