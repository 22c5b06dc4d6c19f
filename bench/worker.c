#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { CHECK_BYTES = 64 << 20, CHECK_OPS = 64, CHECK_EACH = 16 };

void worker_init(struct worker *worker, const struct run *run, const struct run_case *of,
                 size_t peer, uint32_t round, uint32_t thread)
{
	*worker = (struct worker){
		.run = run, .of = of, .round = round, .ok = true,
		.peer = (struct peer *)&run->peers[peer],
		.connection = run->peers[peer].connections[thread],
		.number = run->process * run->threads + thread,
	};
	worker->latency_ns = run_latencies(run, peer, round, worker->number);
	worker->positions = calloc(run->batch_max, sizeof *worker->positions);
	worker->rows = calloc(run->batch_max, sizeof *worker->rows);
	if (worker->positions == NULL || worker->rows == NULL) {
		perror("bench: memory");
		exit(1);
	}
}

void worker_done(struct worker *worker)
{
	free(worker->positions);
	free(worker->rows);
}

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

static struct batch batch_at(struct worker *worker, uint32_t first, uint32_t count, uint32_t slot)
{
	const struct payload *payload = &worker->run->payload;

	for (uint32_t i = 0; i < count; i++) {
		worker->positions[i] = count == 1 ? payload->order[first] : first + i;
		worker->rows[i] = payload->rows[worker->positions[i]];
	}
	return (struct batch){.payload = payload, .positions = worker->positions,
	                      .rows = worker->rows, .count = count, .slot = slot};
}

/* The rows of the worker's op-th operation. All contenders get the same ones. Workers share none,
 * and an operation repeats another's rows only after all others had their turn. */
static struct batch batch_of(struct worker *worker, uint32_t op)
{
	const struct payload *payload = &worker->run->payload;
	uint32_t rows = worker->of->rows, workers = run_workers(worker->run);
	uint64_t turn = (uint64_t)worker->round * worker->of->ops + op;
	uint64_t unit = turn % (payload->row_count / rows / workers) * workers + worker->number;
	uint64_t slot = mixed(turn * workers + worker->number + 1) % (payload->slot_count - rows + 1);

	return batch_at(worker, (uint32_t)(unit * rows), rows, (uint32_t)slot);
}

static void hold(const struct worker *worker, const struct batch *batch, bool empty)
{
	for (uint32_t i = 0; i < batch->count; i++)
		worker->peer->held[batch->positions[i]] = empty ? PAYLOAD_EMPTY : batch->slot + i;
}

static bool put(struct worker *worker, const struct batch *batch, enum peer_way way)
{
	if (!worker->peer->kind->put(worker->connection, batch, way))
		return false;
	hold(worker, batch, false);
	return true;
}

static uint64_t held_bytes(const struct worker *worker, const struct batch *batch)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < batch->count; i++) {
		uint32_t slot = worker->peer->held[batch->positions[i]];

		bytes += slot == PAYLOAD_EMPTY ? 0 : payload_bytes(batch->payload, slot, 1);
	}
	return bytes;
}

/* What the last get of this connection returned is what was put last, byte by byte. */
static bool check(const struct worker *worker, void *connection, const struct batch *batch)
{
	const struct payload *payload = batch->payload;

	for (uint32_t i = 0; i < batch->count; i++) {
		uint32_t slot = worker->peer->held[batch->positions[i]];

		for (uint32_t c = 0; c < payload->column_count; c++) {
			const void *got, *put_last;
			size_t got_bytes, bytes;
			bool found = worker->peer->kind->value(connection, batch, i, c, &got, &got_bytes);

			if (found != (slot != PAYLOAD_EMPTY))
				return peer_fail(worker->peer, "%s is %s", payload_key(payload,
				                 batch->positions[i], c), found ? "still there" : "absent");
			if (!found)
				continue;
			put_last = payload_value(payload, slot, c, &bytes);
			if (got_bytes != bytes || memcmp(got, put_last, bytes) != 0)
				return peer_fail(worker->peer, "wrong bytes of %s",
				                 payload_key(payload, batch->positions[i], c));
		}
	}
	return true;
}

static enum peer_way bulk_way(const struct worker *worker)
{
	return worker->of->way == PEER_VIEW ? PEER_KEYS : worker->of->way;
}

void *worker_prepare(void *context)
{
	struct worker *worker = context;
	enum run_op op = worker->of->op;

	if (op != RUN_PUT && op != RUN_CYCLE)
		return NULL;
	for (uint32_t i = 0; worker->ok && i < worker->of->ops; i++) {
		struct batch batch = batch_of(worker, i);

		worker->ok = worker->peer->kind->clear(worker->connection, &batch);
		hold(worker, &batch, true);
	}
	return NULL;
}

static bool get_timed(struct worker *worker, void *connection, const struct batch *batch,
                      bool checks, uint64_t *ret_ns)
{
	const struct peer_kind *kind = worker->peer->kind;
	uint64_t start_ns = measure_now_ns(), got_ns, check_cpu_ns;
	bool ok = kind->get(connection, batch, worker->of->way);

	got_ns = measure_now_ns();
	if (ok && checks) {
		check_cpu_ns = measure_thread_cpu_ns();
		ok = check(worker, connection, batch);
		worker->check_cpu_ns += measure_thread_cpu_ns() - check_cpu_ns;
	}
	uint64_t checked_ns = measure_now_ns();
	kind->release(connection);
	*ret_ns = got_ns - start_ns + (measure_now_ns() - checked_ns);
	return ok;
}

static bool attach_timed(struct worker *worker, const struct batch *batch, uint64_t *ret_ns)
{
	const struct peer_kind *kind = worker->peer->kind;
	uint64_t start_ns = measure_now_ns(), get_ns;
	void *connection = kind->connect(worker->peer, batch->count, true);

	start_ns = measure_now_ns() - start_ns;
	if (connection == NULL)
		return false;
	bool ok = get_timed(worker, connection, batch, true, &get_ns);
	*ret_ns = start_ns + get_ns;
	kind->disconnect(connection);
	return ok;
}

static bool time_one(struct worker *worker, const struct batch *batch, bool checks,
                     uint64_t *ret_ns)
{
	const struct peer_kind *kind = worker->peer->kind;
	uint64_t start_ns = measure_now_ns(), put_ns;
	bool ok = false;

	switch (worker->of->op) {
	case RUN_GET:
		worker->bytes += held_bytes(worker, batch);
		return get_timed(worker, worker->connection, batch, checks, ret_ns);
	case RUN_ATTACH:
		return attach_timed(worker, batch, ret_ns);
	case RUN_CLEAR:
		ok = kind->clear(worker->connection, batch);
		*ret_ns = measure_now_ns() - start_ns;
		hold(worker, batch, true);
		return ok;
	case RUN_PUT:
	case RUN_OVERWRITE:
	case RUN_CYCLE:
		break;
	}
	ok = kind->put(worker->connection, batch, worker->of->way);
	put_ns = measure_now_ns() - start_ns;
	*ret_ns = put_ns;
	hold(worker, batch, false);
	worker->bytes += payload_bytes(batch->payload, batch->slot, batch->count);
	if (!ok || worker->of->op != RUN_CYCLE)
		return ok;
	worker->bytes += held_bytes(worker, batch);
	ok = get_timed(worker, worker->connection, batch, checks, ret_ns);
	*ret_ns += put_ns;
	return ok;
}

/* Where several work at once, a check of one would slow the others: only some gets are checked. */
void *worker_time(void *context)
{
	struct worker *worker = context;
	bool alone = run_workers(worker->run) == 1;

	for (uint32_t i = 0; worker->ok && i < worker->of->ops; i++) {
		struct batch batch = batch_of(worker, i);
		uint64_t ns = 0;

		worker->ok = time_one(worker, &batch, alone || i % CHECK_EACH == 0, &ns);
		worker->latency_ns[i] = (double)ns;
	}
	return NULL;
}

static bool put_back(struct worker *worker, const struct batch *batch)
{
	uint32_t step = worker->run->populate_rows;
	bool ok = true;

	for (uint32_t i = 0; ok && i < batch->count; i += step) {
		struct batch part = *batch;

		part.positions += i;
		part.rows += i;
		part.slot += i;
		part.count = batch->count - i < step ? batch->count - i : step;
		ok = put(worker, &part, PEER_COLUMNS);
	}
	return ok;
}

/* What was put is got, and what was cleared is not. */
void *worker_check(void *context)
{
	struct worker *worker = context;
	const struct peer_kind *kind = worker->peer->kind;
	enum run_op op = worker->of->op;
	uint64_t bytes = 0;

	if (op == RUN_GET || op == RUN_CYCLE || op == RUN_ATTACH)
		return NULL;
	for (uint32_t i = 0; worker->ok && i < worker->of->ops; i++) {
		struct batch batch = batch_of(worker, i);

		if (op == RUN_CLEAR || (i < CHECK_OPS && bytes < CHECK_BYTES)) {
			bytes += held_bytes(worker, &batch);
			worker->ok = kind->get(worker->connection, &batch, bulk_way(worker)) &&
			             check(worker, worker->connection, &batch);
			kind->release(worker->connection);
		}
		if (op == RUN_CLEAR && worker->ok)
			worker->ok = put_back(worker, &batch);
	}
	return NULL;
}

bool worker_put_all(struct worker *worker)
{
	uint32_t count = worker->run->payload.row_count, rows = worker->of->rows;
	bool ok = true;

	for (uint32_t first = 0; ok && first < count; first += rows) {
		uint32_t part = count - first < rows ? count - first : rows;
		struct batch batch = batch_at(worker, first, part, first);

		ok = put(worker, &batch, PEER_COLUMNS);
	}
	return ok;
}
