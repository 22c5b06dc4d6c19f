/* The greeting of ZMTP, read by hand: it names the mechanism that a server speaks. ZeroMQ itself
 * hangs up on a client of another mechanism, mostly before it has said why, and tries again for
 * ever. */
#include <stdint.h>
#include <string.h>

#include "clock.h"
#include "control_parts.h"
#include "process.h"

enum { GREETING_BYTES = 64, GREETING_FDS = 4 /* of a socket that connects, and some more */ };

/* What a client has to say before it hears the whole of the server's. */
static const uint8_t hail[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0};

struct greeting {
	uint8_t bytes[GREETING_BYTES];
	size_t count;
	bool hailed, ended;
};

/* A connection's messages are its peer's name and some bytes; none when it begins and ends. */
static void greet(struct greeting *greeting, void *stream, zmq_msg_t *peer, zmq_msg_t *part)
{
	size_t bytes = zmq_msg_size(part), room = GREETING_BYTES - greeting->count;

	if (bytes == 0 && !greeting->hailed) {
		greeting->hailed = true;
		greeting->ended =
			!sy_control_give(stream, zmq_msg_data(peer), zmq_msg_size(peer), true) ||
			!sy_control_give(stream, hail, sizeof hail, false);
		return;
	}
	greeting->ended |= bytes == 0;
	bytes = bytes < room ? bytes : room;
	memcpy(greeting->bytes + greeting->count, zmq_msg_data(part), bytes);
	greeting->count += bytes;
}

static void hear(struct greeting *greeting, void *stream)
{
	zmq_msg_t peer, part;

	zmq_msg_init(&peer);
	while (!greeting->ended && greeting->count < GREETING_BYTES &&
	       sy_control_take(stream, &peer)) {
		zmq_msg_init(&part);
		if (sy_control_take(stream, &part))
			greet(greeting, stream, &peer, &part);
		zmq_msg_close(&part);
	}
	zmq_msg_close(&peer);
}

bool sy_control_hear_mechanism(void *context, const char *endpoint, uint64_t deadline_ns,
                               char ret_name[SY_CONTROL_MECHANISM_BYTES])
{
	struct greeting greeting = {0};
	void *stream =
		sy_process_has_descriptors(GREETING_FDS) ? zmq_socket(context, ZMQ_STREAM) : NULL;

	if (stream == NULL)
		return false;
	greeting.ended = !sy_control_setup(stream) || !sy_control_set_family(stream, endpoint) ||
	                 !sy_control_connect(stream, endpoint);
	for (uint64_t now_ns = sy_clock_now_ns();
	     !greeting.ended && greeting.count < GREETING_BYTES && now_ns < deadline_ns;
	     now_ns = sy_clock_now_ns()) {
		zmq_pollitem_t wait = {.socket = stream, .events = ZMQ_POLLIN};

		(void)zmq_poll(&wait, 1, sy_clock_poll_ms(now_ns, deadline_ns));
		hear(&greeting, stream);
	}
	zmq_close(stream);
	/* Signature, version, mechanism. */
	if (greeting.count < GREETING_BYTES || greeting.bytes[0] != hail[0] ||
	    greeting.bytes[9] != hail[9])
		return false;
	memcpy(ret_name, greeting.bytes + sizeof hail, SY_CONTROL_MECHANISM_BYTES - 1);
	ret_name[SY_CONTROL_MECHANISM_BYTES - 1] = '\0';
	return true;
}
