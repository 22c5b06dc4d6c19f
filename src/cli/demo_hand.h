/* What a worker of the demo does: producers put, trainers read, check, write back and read
 * again. Each runs in a process and with a client of its own. */
#ifndef SY_DEMO_HAND_H
#define SY_DEMO_HAND_H

#include "demo_source.h"

/* The phases of a step, in order. The last is the controller's. */
enum sy_demo_phase {
	SY_DEMO_PUT,
	SY_DEMO_READ,
	SY_DEMO_WRITE_BACK,
	SY_DEMO_READ_AGAIN,
	SY_DEMO_CLEAR,
	SY_DEMO_PHASE_COUNT,
};

/* What was moved. The time is that spent in calls of the client; making rows and comparing them
 * is not in it. */
struct sy_demo_tally {
	uint64_t rows, values, bytes;
	uint64_t checked_bytes;
	uint64_t call_ns;
};

enum { SY_DEMO_MESSAGE_BYTES = 640 };

struct sy_demo_answer {
	bool ok;
	struct sy_demo_tally tally;
	char message[SY_DEMO_MESSAGE_BYTES]; /* what went wrong, one line */
};

/* One worker in its process. */
struct sy_demo_hand {
	const struct sy_demo_source *source;
	sy_client *client;
	const char *role;       /* "producer" or "trainer" */
	uint32_t number, count; /* of those of the role */
	struct sy_text scratch; /* for the values that are made to compare */
	struct sy_demo_answer *answer;
};

/* Does one phase of a step; false after a failure, which the answer tells. */
bool sy_demo_hand_produce(struct sy_demo_hand *hand, uint32_t step);
bool sy_demo_hand_train(struct sy_demo_hand *hand, enum sy_demo_phase phase, uint32_t step);

/* Keeps the first failure for the answer and returns false. */
bool sy_demo_hand_fail(struct sy_demo_hand *hand, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool sy_demo_hand_no_memory(struct sy_demo_hand *hand);

/* Compares a value that was got (NULL: none) with what the source says. False: they differ, and
 * the answer names row, field and byte. */
bool sy_demo_hand_check(struct sy_demo_hand *hand, uint32_t step, uint32_t row, uint32_t column,
                        const sy_value *got);

/* The name of a column, that which is written back included. */
const char *sy_demo_hand_column(const struct sy_demo_hand *hand, uint32_t column);

/* CLOCK_MONOTONIC. */
uint64_t sy_demo_now_ns(void);

#endif
