#include "control_zap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "control_parts.h"
#include "fail.h"

enum { KEY_BYTES = 32, FRAMES = 7, FRAME_MAX_BYTES = 255 };
enum { FRAME_VERSION = 0, FRAME_ID = 1, FRAME_MECHANISM = 5, FRAME_CREDENTIALS = 6 };

struct sy_control_zap {
	void *socket;
	uint8_t allowed[KEY_BYTES];
	pthread_t thread;
};

/* A question: its frames as ZAP 1.0 has them; those that are too long are as if absent. */
struct question {
	uint8_t frames[FRAMES][FRAME_MAX_BYTES];
	size_t bytes[FRAMES];
	size_t count;
};

/* False: the context ends. */
static bool question_read(void *socket, struct question *question)
{
	question->count = 0;
	for (bool more = true; more;) { /* ZeroMQ hands out whole messages */
		zmq_msg_t frame;
		zmq_msg_init(&frame);
		int got = zmq_msg_recv(&frame, socket, 0);
		if (got < 0 && zmq_errno() == EINTR)
			continue;
		if (got < 0)
			return false;
		size_t bytes = zmq_msg_size(&frame);
		if (question->count < FRAMES) {
			bool fits = bytes <= FRAME_MAX_BYTES;
			question->bytes[question->count] = fits ? bytes : 0;
			if (fits && bytes > 0)
				memcpy(question->frames[question->count], zmq_msg_data(&frame), bytes);
			question->count++;
		}
		more = zmq_msg_more(&frame);
		zmq_msg_close(&frame);
	}
	return true;
}

static bool is_text(const struct question *question, size_t frame, const char *text)
{
	return frame < question->count && question->bytes[frame] == strlen(text) &&
	       memcmp(question->frames[frame], text, strlen(text)) == 0;
}

static bool is_allowed(const struct sy_control_zap *zap, const struct question *question)
{
	return question->count == FRAMES && is_text(question, FRAME_MECHANISM, "CURVE") &&
	       question->bytes[FRAME_CREDENTIALS] == KEY_BYTES &&
	       memcmp(question->frames[FRAME_CREDENTIALS], zap->allowed, KEY_BYTES) == 0;
}

static void frame_send(void *socket, const void *data, size_t bytes, bool more)
{
	while (zmq_send(socket, data, bytes, more ? ZMQ_SNDMORE : 0) < 0 && zmq_errno() == EINTR)
		;
}

static void *answer_all(void *context)
{
	struct sy_control_zap *zap = context;
	struct question question;
	while (question_read(zap->socket, &question)) { /* until the context ends */
		const char *code = is_allowed(zap, &question) ? "200" : "400";
		bool has_id = question.count > FRAME_ID;
		frame_send(zap->socket, "1.0", 3, true);
		frame_send(zap->socket, question.frames[FRAME_ID], has_id ? question.bytes[FRAME_ID] : 0,
		           true);
		frame_send(zap->socket, code, 3, true);
		frame_send(zap->socket, "", 0, true); /* no words, no name, no more */
		frame_send(zap->socket, "", 0, true);
		frame_send(zap->socket, "", 0, false);
	}
	zmq_close(zap->socket);
	return NULL;
}

sy_status sy_control_zap_start(void *context, const char *client_public,
                               struct sy_control_zap **ret_zap, sy_error *err)
{
	struct sy_control_zap *zap = calloc(1, sizeof *zap);
	if (zap == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	zap->socket = zmq_z85_decode(zap->allowed, client_public) != NULL
	                      ? zmq_socket(context, ZMQ_REP)
	                      : NULL;
	if (zap->socket == NULL || !sy_control_set(zap->socket, ZMQ_LINGER, 0) ||
	    !sy_control_bind(zap->socket, "inproc://zeromq.zap.01") ||
	    pthread_create(&zap->thread, NULL, answer_all, zap) != 0) {
		if (zap->socket != NULL)
			zmq_close(zap->socket);
		free(zap);
		return sy_fail(err, SY_E_SYS, __func__, "cannot check who connects: %s", strerror(errno));
	}
	*ret_zap = zap;
	return SY_OK;
}

void sy_control_zap_join(struct sy_control_zap *zap)
{
	if (zap == NULL)
		return;
	pthread_join(zap->thread, NULL);
	free(zap);
}
