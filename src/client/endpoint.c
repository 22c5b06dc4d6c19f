/* What a store moves bytes with, as far as its owner sees it: memory that is registered. */
#include <stdlib.h>

#include "fail.h"
#include "local.h"
#include "store_inner.h"
#include "ucx_memories.h"

struct sy_endpoint {
	struct sy_ucx_memories *memories;
	uint32_t fork_count;
};

sy_status sy_endpoint_open(sy_endpoint **ret_endpoint, sy_error *err)
{
	sy_endpoint *endpoint = calloc(1, sizeof *endpoint);

	if (endpoint != NULL)
		endpoint->memories = sy_ucx_memories_new();
	if (endpoint == NULL || endpoint->memories == NULL) {
		free(endpoint);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	endpoint->fork_count = sy_local_fork_count();
	*ret_endpoint = endpoint;
	return SY_OK;
}

void sy_endpoint_close(sy_endpoint *endpoint)
{
	if (endpoint == NULL)
		return;
	if (endpoint->fork_count == sy_local_fork_count())
		sy_ucx_memories_unref(endpoint->memories);
	free(endpoint);
}

struct sy_ucx_memories *sy_endpoint_memories(const sy_endpoint *endpoint)
{
	return endpoint != NULL ? endpoint->memories : NULL;
}

/* Whoever held the lock at the fork is not there to give it up. */
static sy_status check(const sy_endpoint *endpoint, sy_error *err)
{
	if (endpoint == NULL)
		return sy_fail(err, SY_E_INVALID, "register", "no endpoint is given");
	if (endpoint->fork_count != sy_local_fork_count())
		return sy_fail(err, SY_E_FATAL, "register",
		               "this process was forked: it needs an endpoint of its own");
	return SY_OK;
}

sy_status sy_endpoint_register(sy_endpoint *endpoint, void *addr, size_t bytes, sy_error *err)
{
	sy_status status = check(endpoint, err);

	if (status == SY_OK && bytes > 0)
		status = sy_ucx_memories_add(endpoint->memories, (uintptr_t)addr, bytes, err);
	return status;
}

sy_status sy_endpoint_deregister(sy_endpoint *endpoint, void *addr, size_t bytes, sy_error *err)
{
	sy_status status = check(endpoint, err);

	if (status == SY_OK && bytes > 0)
		status = sy_ucx_memories_remove(endpoint->memories, (uintptr_t)addr, bytes, err);
	return status;
}
