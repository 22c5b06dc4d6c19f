/* A get of the rows from 0 on, of the field "x", by each way there is, in a thread of its own: for
 * tests that hold its messages. */
#ifndef SY_TEST_SLOW_GET_H
#define SY_TEST_SLOW_GET_H

#include <pthread.h>
#include <slabyard/client.h>

enum { SLOW_GET_ROWS = 6 };

/* INLINE: a BATCH of values so small that they come with the answer. */
enum path { SINGLE, BATCH, COLUMNS, INLINE, VIEW, VIEW_OF_COLUMNS, PATHS };

struct slow_get {
	sy_client *client;
	enum path path;
	pthread_t thread;
	sy_status status;
	sy_error err;
	sy_result *result;
};

/* The thread's. */
static inline void *get_slowly(void *argument)
{
	struct slow_get *mine = argument;
	sy_key keys[SLOW_GET_ROWS];
	uint64_t rows[SLOW_GET_ROWS];
	const char *field = "x";
	bool columns = mine->path == COLUMNS || mine->path == VIEW_OF_COLUMNS;
	bool view = mine->path == VIEW || mine->path == VIEW_OF_COLUMNS;
	int flags = view ? SY_GET_VIEW : SY_GET_COPY;

	for (uint64_t r = 0; r < SLOW_GET_ROWS; r++) {
		keys[r] = (sy_key){r, "x", 1};
		rows[r] = r;
	}
	if (columns)
		mine->status = sy_client_get_columns(mine->client, rows, SLOW_GET_ROWS, &field, 1, flags,
		                                     0, &mine->result, &mine->err);
	else
		mine->status = sy_client_get(mine->client, keys, mine->path == SINGLE ? 1 : SLOW_GET_ROWS,
		                             flags, 0, &mine->result, &mine->err);
	return NULL;
}

#endif
