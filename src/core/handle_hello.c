/* hello: a client's standing with this incarnation. */
#include "handle.h"
#include "key.h"

static enum sy_why refusal(const struct sy_core *core, const struct sy_event_request *request)
{
	if (request->hello.version != SY_PROTOCOL_VERSION)
		return SY_WHY_VERSION;
	if (request->hello.slot_count != core->params.slot_count)
		return SY_WHY_CLUSTER_SIZE;
	if (sy_name_fault(request->hello.ns.data, request->hello.ns.bytes) != NULL)
		return SY_WHY_NAMESPACE;
	return SY_WHY_NONE;
}

static uint32_t make(struct sy_step *step, const struct sy_event_request *request,
                     struct sy_outcome *outcome)
{
	enum sy_resource resource = SY_RESOURCE_NONE;
	uint32_t session = sy_session_new(step->core, request, step->now_ns, &resource);
	if (session == 0) {
		outcome->fault = SY_FAULT_UNIT_FULL;
		outcome->resource = (uint8_t)resource;
		outcome->need = 1;
	}
	return session;
}

void sy_handle_hello(struct sy_step *step, const struct sy_event_request *request)
{
	struct sy_core *core = step->core;
	struct sy_outcome outcome = {.op = SY_OP_HELLO};
	uint32_t session = 0;
	enum sy_why why = refusal(core, request);
	if (why != SY_WHY_NONE) {
		outcome.fault = SY_FAULT_PROTOCOL;
		outcome.why = (uint8_t)why;
	} else {
		session = sy_session_newest(core, &request->hello.identity);
		const struct sy_session *s = session == 0 ? NULL : sy_session_at(core, session);
		if (s != NULL && request->hello.connection_count < s->connection_count) {
			core->volatiles.dropped++;
			return;
		}
		bool same = s != NULL && s->state == SY_SESSION_LIVE &&
		            request->hello.connection_count == s->connection_count;
		if (same) {
			sy_session_heard(core, session, step->now_ns);
		} else {
			/* The client has left the older one behind, whether a new one can be made or not. */
			if (s != NULL)
				sy_session_end(core, session, SY_END_REPLACED);
			session = make(step, request, &outcome);
		}
	}
	if (session != 0)
		outcome.count = sy_session_at(core, session)->number;
	sy_step_reply(step, request->route, request->id, session, &outcome);
}
