/* In place of all the others where there is no UCX to build with: this host alone. */
#include <string.h>

#include "fail.h"
#include "ucx_mover.h"
#include "ucx_target.h"

static const char NONE[] = "this slabyard was built without UCX, and reaches no other host's slab";

sy_status sy_ucx_is_there(sy_error *err)
{
	return sy_fail(err, SY_E_SYS, __func__, "%s", NONE);
}

sy_status sy_ucx_target_open(const struct sy_ucx_target_config *config,
                             struct sy_ucx_target **ret_target, sy_error *err)
{
	(void)config;
	(void)ret_target;
	return sy_fail(err, SY_E_SYS, __func__, "%s", NONE);
}

void sy_ucx_target_close(struct sy_ucx_target *target)
{
	(void)target;
}

const char *sy_ucx_target_address(const struct sy_ucx_target *target)
{
	(void)target;
	return "";
}

bool sy_ucx_target_admit(struct sy_ucx_target *target, uint64_t session, const char *host)
{
	(void)target;
	(void)session;
	(void)host;
	return false;
}

void sy_ucx_target_fence(struct sy_ucx_target *target, uint64_t session)
{
	(void)target;
	(void)session;
}

int sy_ucx_target_fd(const struct sy_ucx_target *target)
{
	(void)target;
	return -1;
}

bool sy_ucx_target_next(struct sy_ucx_target *target, uint64_t *ret_session)
{
	(void)target;
	(void)ret_session;
	return false;
}

sy_status sy_ucx_mover_open(const struct sy_ucx_mover_config *config,
                            struct sy_ucx_mover **ret_mover, sy_error *err)
{
	(void)config;
	(void)ret_mover;
	return sy_fail(err, SY_E_SYS, __func__, "%s", NONE);
}

void sy_ucx_mover_close(struct sy_ucx_mover *mover)
{
	(void)mover;
}

struct sy_ucx_peer *sy_ucx_peer_new(struct sy_ucx_mover *mover, const char *address,
                                    uint64_t session, uint64_t incarnation, uint64_t slab_bytes)
{
	(void)mover;
	(void)address;
	(void)session;
	(void)incarnation;
	(void)slab_bytes;
	return NULL;
}

void sy_ucx_peer_free(struct sy_ucx_peer *peer)
{
	(void)peer;
}

sy_status sy_ucx_move(struct sy_ucx_peer *peer, const struct sy_ucx_transfer *transfer,
                      bool *ret_in_flight, sy_error *err)
{
	(void)peer;
	(void)transfer;
	*ret_in_flight = false;
	return sy_fail(err, SY_E_SYS, __func__, "%s", NONE);
}

void sy_ucx_mover_account(struct sy_ucx_mover *mover, struct sy_ucx_account *ret_account)
{
	(void)mover;
	memset(ret_account, 0, sizeof *ret_account);
}

void sy_ucx_mover_poll(struct sy_ucx_mover *mover)
{
	(void)mover;
}

bool sy_ucx_mover_ended(struct sy_ucx_mover *mover, struct sy_ucx_ended *ret_ended)
{
	(void)mover;
	(void)ret_ended;
	return false;
}
