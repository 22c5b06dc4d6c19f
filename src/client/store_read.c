/* The store's resolves and reads: a range is read only under a resolve that is held.
 *
 * Lock order: store->lock, then the hub's (inside sy_hub_unpin). Neither is held while copying. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fail.h"
#include "guard.h"
#include "local.h"
#include "store_inner.h"

/* The keeper calls about once a second; later than this, the whole process stood still. */
static const uint64_t STOPPED_NS = 3u * 1000000000ull / 2;
static const uint64_t READ_PIN_NS = 60u * 1000000000ull; /* where no unit has told its own */

static int compare_ranges(const void *a, const void *b)
{
	const struct sy_held_range *x = a, *y = b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Takes over the answers of one part. False: they are of another incarnation than those of the
 * unit's parts before: one place could then mean two things. */
static bool take_part(struct sy_resolved_keys *resolved, size_t unit,
                      const struct sy_lookup_part *part)
{
	const struct sy_resolved *in = &part->call.op.reply.resolved;
	struct sy_held_unit *held = &resolved->units[unit];

	if (held->incarnation != 0 && held->incarnation != part->call.op.incarnation)
		return false;
	held->incarnation = part->call.op.incarnation;
	for (size_t i = part->first, k = 0; i < part->last; i++) {
		k = sy_lookup_key(part, i, k);
		sy_located *key =
			&resolved->keys[held->first_key + part->items->items[i].source];

		if (in->found[k] == SY_FOUND_ABSENT)
			continue;
		*key = (sy_located){
			.found = true, .slab_offset = in->offset[k], .nbytes = in->nbytes[k],
			.dim0 = in->dim0[k], .dtype = (sy_dtype)in->dtype[k], .kind = (sy_kind)in->kind[k],
			.shape = in->shapes[in->tail[k]],
		};
		resolved->ranges[resolved->range_count++] = (struct sy_held_range){
			key->slab_offset, key->slab_offset + key->nbytes, unit, &part->call,
		};
	}
	return true;
}

static struct sy_resolved_keys *resolved_new(const sy_unit_keys *units, size_t unit_count)
{
	struct sy_resolved_keys *resolved = calloc(1, sizeof *resolved);
	size_t keys = 0;

	if (resolved == NULL)
		return NULL;
	for (size_t u = 0; u < unit_count; u++)
		keys += units[u].key_count;
	resolved->unit_count = unit_count;
	resolved->units = calloc(unit_count + 1, sizeof *resolved->units);
	resolved->keys = calloc(keys + 1, sizeof *resolved->keys);
	resolved->ranges = calloc(keys + 1, sizeof *resolved->ranges);
	if (resolved->units == NULL || resolved->keys == NULL || resolved->ranges == NULL) {
		free(resolved->units);
		free(resolved->keys);
		free(resolved->ranges);
		free(resolved);
		return NULL;
	}
	for (size_t u = 0, first = 0; u < unit_count; u++) {
		resolved->units[u] = (struct sy_held_unit){units[u].unit_id, 0, first,
		                                           units[u].key_count};
		first += units[u].key_count;
	}
	return resolved;
}

static void resolved_delete(struct sy_resolved_keys *resolved)
{
	sy_lookup_done(&resolved->lookup);
	sy_store_unref(resolved->store);
	free(resolved->units);
	free(resolved->keys);
	free(resolved->ranges);
	free(resolved);
}

/* Its pins go back, and it covers no read any more. Lock held. */
static void give_back(struct sy_store *store, struct sy_resolved_keys *resolved)
{
	if (resolved->prev != NULL)
		resolved->prev->next = resolved->next;
	else
		store->held = resolved->next;
	if (resolved->next != NULL)
		resolved->next->prev = resolved->prev;
	resolved->prev = resolved->next = NULL;
	resolved->held = false;
	sy_lookup_unpin(store->hub, &resolved->lookup);
}

static void hold(struct sy_store *store, struct sy_resolved_keys *resolved)
{
	__atomic_add_fetch(&store->refs, 1, __ATOMIC_RELAXED);
	resolved->store = store;
	resolved->since_ns = sy_clock_now_ns();
	pthread_mutex_lock(&store->lock);
	resolved->next = store->held;
	if (store->held != NULL)
		store->held->prev = resolved;
	store->held = resolved;
	resolved->held = true;
	pthread_mutex_unlock(&store->lock);
}

static sy_status make_sets(struct sy_store *store, const sy_unit_keys *units, size_t unit_count,
                           struct sy_items *sets, size_t *ret_made, sy_error *err)
{
	uint32_t first = 0;

	for (size_t u = 0; u < unit_count; u++) {
		sy_status status;

		status = sy_items_from_keys(units[u].keys, units[u].key_count, 1, false, &sets[u], err);
		if (status != SY_OK)
			return status;
		sets[u].unit_base = units[u].unit_id;
		sets[u].index_base = first;
		first += (uint32_t)units[u].key_count;
		*ret_made = u + 1;
		if (units[u].unit_id >= sy_hub_unit_count(store->hub)) {
			sy_fail(err, SY_E_LOST, "get", "there is no unit %u", units[u].unit_id);
			sy_items_blame(&sets[u], 0, sets[u].count, err);
			return SY_E_LOST;
		}
	}
	return SY_OK;
}

/* The answers point into sets no longer once they are taken over. */
static sy_status take_all(struct sy_hub *hub, struct sy_resolved_keys *resolved,
                          const struct sy_items *sets, sy_error *err)
{
	for (size_t p = 0; p < resolved->lookup.part_count; p++) {
		struct sy_lookup_part *part = &resolved->lookup.parts[p];
		const struct sy_items *set = part->items;
		bool taken = take_part(resolved, (size_t)(set - sets), part);

		part->items = NULL;
		if (taken)
			continue;
		sy_lookup_unpin(hub, &resolved->lookup);
		sy_fail(err, SY_E_TRANSFER_FAILED, "get", "unit %u: another one came in its place",
		        part->call.unit_id);
		sy_items_blame(set, 0, set->count, err);
		return SY_E_TRANSFER_FAILED;
	}
	qsort(resolved->ranges, resolved->range_count, sizeof *resolved->ranges, compare_ranges);
	return SY_OK;
}

static sy_status resolve_keys(sy_store *store, const sy_unit_keys *units, size_t unit_count,
                              uint64_t deadline_ns, sy_resolved_keys **ret_resolved,
                              sy_error *err)
{
	uint64_t end_ns = sy_store_deadline(store, deadline_ns);
	struct sy_items *sets = calloc(unit_count + 1, sizeof *sets);
	struct sy_resolved_keys *resolved = NULL;
	size_t made = 0;
	sy_status status = SY_OK;

	if (sets == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = make_sets(store, units, unit_count, sets, &made, err);
	if (status == SY_OK) {
		resolved = resolved_new(units, unit_count);
		if (resolved == NULL)
			status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	if (status == SY_OK)
		status = sy_lookup_run(store->hub, sets, unit_count, 0, end_ns, &resolved->lookup, err);
	if (status == SY_OK)
		status = take_all(store->hub, resolved, sets, err);
	if (status == SY_OK) {
		hold(store, resolved);
		*ret_resolved = resolved;
	} else if (resolved != NULL) {
		resolved_delete(resolved);
	}
	for (size_t u = 0; u < made; u++)
		sy_items_done(&sets[u]);
	free(sets);
	return status;
}

sy_status sy_store_resolve_keys(sy_store *store, const sy_unit_keys *units, size_t unit_count,
                                uint64_t deadline_ns, sy_resolved_keys **ret_resolved,
                                sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = resolve_keys(store, units, unit_count, deadline_ns, ret_resolved, err);
	sy_hub_leave(store->hub);
	return status;
}

void sy_resolved_keys_free(sy_resolved_keys *resolved)
{
	if (resolved == NULL)
		return;
	struct sy_store *store = resolved->store;

	/* In a fork child the lock may be held by a thread that is not there; the pins are the
	 * parent's, and the memory is let be. */
	if (store->fork_count != sy_local_fork_count())
		return;
	pthread_mutex_lock(&store->lock);
	bool busy = resolved->readers > 0;

	resolved->freed = true;
	if (resolved->held && !busy)
		give_back(store, resolved);
	pthread_mutex_unlock(&store->lock);
	if (!busy) /* else the last reader frees it */
		resolved_delete(resolved);
}

void sy_store_let_all_go(struct sy_store *store)
{
	pthread_mutex_lock(&store->lock);
	for (struct sy_resolved_keys *held = store->held, *next; held != NULL; held = next) {
		next = held->next;
		give_back(store, held);
	}
	pthread_mutex_unlock(&store->lock);
}

/* A resolve that nobody reads gives its pins back after read_pin_s, whoever forgot it. */
void sy_store_expire(void *context, uint64_t now_ns)
{
	struct sy_store *store = context;
	/* A process that was stopped had no chance to read: the time does not count. */
	uint64_t since_ns = store->ticked_ns == 0 ? 0 : now_ns - store->ticked_ns;

	store->stopped_ns += since_ns > STOPPED_NS ? since_ns : 0;
	store->ticked_ns = now_ns;
	/* Who has it may look through much, and the keeper has deadlines to look at: next time. */
	if (pthread_mutex_trylock(&store->lock) != 0)
		return;
	uint64_t stopped_ns = store->stopped_ns;
	store->stopped_ns = 0;
	for (struct sy_resolved_keys *held = store->held, *next; held != NULL; held = next) {
		uint64_t pin_ns = 0;

		next = held->next;
		if (now_ns <= held->since_ns)
			continue;
		held->since_ns += sy_min_u64(stopped_ns, now_ns - held->since_ns);
		for (size_t u = 0; u < held->unit_count && pin_ns == 0; u++)
			pin_ns = sy_hub_read_pin_ns(store->hub, held->units[u].unit_id);
		if (pin_ns == 0)
			pin_ns = READ_PIN_NS;
		if (held->readers == 0 && now_ns - held->since_ns >= pin_ns)
			give_back(store, held);
	}
	pthread_mutex_unlock(&store->lock);
}

uint64_t sy_resolved_incarnation(const sy_resolved_keys *resolved, size_t unit)
{
	return unit < resolved->unit_count ? resolved->units[unit].incarnation : 0;
}

bool sy_resolved_at(const sy_resolved_keys *resolved, size_t unit, size_t key,
                    sy_located *ret_located)
{
	if (unit >= resolved->unit_count || key >= resolved->units[unit].key_count)
		return false;
	*ret_located = resolved->keys[resolved->units[unit].first_key + key];
	return ret_located->found;
}

/* The last range of the unit that starts at or before the offset covers it, or none does: NULL. */
static const struct sy_held_range *covering(const struct sy_resolved_keys *resolved, size_t unit,
                                            const sy_read *read)
{
	size_t low = 0, high = resolved->range_count;
	struct sy_held_range wanted = {read->slab_offset, 0, unit, NULL};

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_ranges(&resolved->ranges[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	const struct sy_held_range *range = &resolved->ranges[low - 1];
	bool covers = range->unit == unit && read->slab_offset <= range->end &&
	              read->nbytes <= range->end - read->slab_offset;
	return covers ? range : NULL;
}

/* What one read found to stand on. */
struct cover {
	struct sy_resolved_keys *resolved;
	const struct sy_call *call; /* the request that pinned it, and the slab it was about */
};

/* A resolve of the incarnation that was talked to last goes before one of an earlier one: the
 * same place may mean something else there. Lock held. */
static bool find_cover(struct sy_store *store, const sy_read *read, struct cover *ret_cover)
{
	bool found = false;

	if (read->unit_id >= sy_hub_unit_count(store->hub))
		return false;
	uint64_t incarnation = sy_hub_incarnation(store->hub, read->unit_id);

	for (struct sy_resolved_keys *held = store->held; held != NULL; held = held->next) {
		for (size_t u = 0; !held->freed && u < held->unit_count; u++) {
			const struct sy_held_unit *unit = &held->units[u];
			const struct sy_held_range *range =
				unit->unit_id == read->unit_id ? covering(held, u, read) : NULL;

			if (range == NULL || range->call->remote == NULL ||
			    (found && unit->incarnation != incarnation))
				continue;
			*ret_cover = (struct cover){held, range->call};
			found = true;
			if (unit->incarnation == incarnation)
				return true;
		}
	}
	return found;
}

/* Lock held on entry, dropped on return: whoever was freed under its last reader goes now. */
static void let_go(struct sy_store *store, struct cover *covers_of, size_t count)
{
	struct sy_resolved_keys *dead = NULL;

	for (size_t i = 0; i < count; i++) {
		struct sy_resolved_keys *resolved = covers_of[i].resolved;

		if (--resolved->readers > 0 || !resolved->freed)
			continue;
		give_back(store, resolved);
		resolved->next = dead;
		dead = resolved;
	}
	pthread_mutex_unlock(&store->lock);
	while (dead != NULL) {
		struct sy_resolved_keys *next = dead->next;

		resolved_delete(dead);
		dead = next;
	}
}

static void blame(size_t first, size_t last, sy_error *err)
{
	for (size_t i = first; err != NULL && i < last; i++) {
		if (err->index_count < err->index_capacity)
			err->indexes[err->index_count] = (uint32_t)i;
		err->index_count++;
	}
}

static sy_status cover_all(struct sy_store *store, const sy_read *reads, size_t count,
                           struct cover *ret_covers, sy_error *err)
{
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < count; i++) {
		if (find_cover(store, &reads[i], &ret_covers[i])) {
			ret_covers[i].resolved->readers++;
			continue;
		}
		let_go(store, ret_covers, i);
		sy_fail(err, SY_E_STALE_READ, "read",
		        "no resolve that is still held covers read %zu (unit %u): resolve again", i,
		        reads[i].unit_id);
		blame(i, i + 1, err);
		return SY_E_STALE_READ;
	}
	pthread_mutex_unlock(&store->lock);
	return SY_OK;
}

/* What the directory says of an incarnation that was resolved from: SY_OK, it lives. */
static sy_status ask(struct sy_store *store, uint32_t unit_id, uint64_t incarnation,
                     uint64_t end_ns, sy_error *err)
{
	struct sy_unit_info slot;

	if (sy_hub_ask_slot(store->hub, unit_id, end_ns, &slot, NULL) != SY_OK)
		return sy_fail(err, sy_clock_now_ns() >= end_ns ? SY_E_TIMEOUT : SY_E_TRANSFER_FAILED,
		               "read", "unit %u: its connection ended, and the directory does not say "
		               "whether it lives", unit_id);
	if (slot.state == SY_UNIT_DEAD) {
		sy_fail(err, SY_E_LOST, "read", "unit %u: the unit is dead, and its rows are lost",
		        unit_id);
		if (err != NULL)
			err->reason = "dead";
		return SY_E_LOST;
	}
	if (slot.incarnation != incarnation)
		return sy_fail(err, SY_E_STALE_READ, "read",
		               "unit %u: another one came in its place: resolve again", unit_id);
	return SY_OK;
}

/* Whether what a resolve pinned may still be read, and if not why. Of a dead unit the bytes are
 * mapped here yet, but who reads them would go on with rows that are gone; so where the
 * connection has ended the directory says what became of the unit. Where it lives the pins stand,
 * and its slab is as it was. */
static sy_status judge(struct sy_store *store, uint32_t unit_id, uint64_t incarnation,
                       uint64_t end_ns, sy_error *err)
{
	if (sy_hub_stands(store->hub, unit_id, incarnation))
		return SY_OK;
	return ask(store, unit_id, incarnation, end_ns, err);
}

/* What a READ that failed with err comes to: the other host may be gone with its unit. */
static sy_status judge_failed(struct sy_store *store, uint32_t unit_id, uint64_t incarnation,
                              uint64_t end_ns, sy_error *err)
{
	sy_error said = {0};

	if (sy_clock_now_ns() >= end_ns)
		return SY_E_TIMEOUT;
	sy_status status = ask(store, unit_id, incarnation, end_ns, &said);
	if (status != SY_E_LOST && status != SY_E_STALE_READ)
		return SY_E_TRANSFER_FAILED;
	said.in_flight = err != NULL && err->in_flight;
	sy_error_copy(err, &said);
	return status;
}

/* Reads that follow each other and were pinned by one request are one READ. */
static size_t run_end(const struct cover *covers_of, size_t first, size_t count)
{
	size_t last = first;

	while (last < count && covers_of[last].call == covers_of[first].call)
		last++;
	return last;
}

static sy_status judge_all(struct sy_store *store, const sy_read *reads, size_t count,
                           const struct cover *covers_of, uint64_t end_ns, sy_error *err)
{
	for (size_t first = 0, last; first < count; first = last) {
		last = run_end(covers_of, first, count);
		sy_status status = judge(store, reads[first].unit_id,
		                         covers_of[first].call->op.incarnation, end_ns, err);
		if (status == SY_OK)
			continue;
		blame(first, last, err);
		return status;
	}
	return SY_OK;
}

static sy_status read_all(struct sy_store *store, const sy_read *reads, size_t count,
                          const struct cover *covers_of, uint64_t end_ns, sy_error *err)
{
	struct sy_range *ranges = calloc(count + 1, sizeof *ranges);
	sy_status status = SY_OK;

	if (ranges == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct sy_range){.offset = reads[i].slab_offset,
		                              .nbytes = reads[i].nbytes, .to = reads[i].addr};
	for (size_t first = 0, last; status == SY_OK && first < count; first = last) {
		last = run_end(covers_of, first, count);
		status = sy_hub_read(store->hub, &covers_of[first].call, 1, ranges + first,
		                     last - first, end_ns, err);
		if (status == SY_E_TRANSFER)
			status = judge_failed(store, reads[first].unit_id,
			                      covers_of[first].call->op.incarnation, end_ns, err);
		if (status != SY_OK && err != NULL) {
			err->status = status;
			/* What comes after it was not read either, but may be there. */
			blame(first, status == SY_E_LOST ? last : count, err);
		}
	}
	free(ranges);
	return status;
}

static sy_status read_entries(sy_store *store, const sy_read *reads, size_t read_count,
                              uint64_t deadline_ns, sy_error *err)
{
	uint64_t end_ns = sy_store_deadline(store, deadline_ns);
	struct cover *covers_of = calloc(read_count + 1, sizeof *covers_of);
	sy_status status = SY_OK;

	if (covers_of == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = cover_all(store, reads, read_count, covers_of, err);
	if (status != SY_OK) {
		free(covers_of);
		return status;
	}
	status = judge_all(store, reads, read_count, covers_of, end_ns, err);
	if (status == SY_OK)
		status = read_all(store, reads, read_count, covers_of, end_ns, err);
	pthread_mutex_lock(&store->lock);
	let_go(store, covers_of, read_count);
	free(covers_of);
	return status;
}

sy_status sy_store_read_entries(sy_store *store, const sy_read *reads, size_t read_count,
                                uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = read_entries(store, reads, read_count, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}
