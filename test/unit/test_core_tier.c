/* The tier's policy: what goes to disk, and when; reads where records, room or the queue are
 * short; who waits. */
#include "record.h"
#include "tier_driver.h"

enum { ROW_BYTES = 7000, INLINE_BYTES = 1000, FEW = 8, MANY = 1700, LOADED = 600,
       ENTRIES = 4096 };

/* As many blobs as there may be, most of them on disk: each can still be read. */
static void test_all_blobs_in_use(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(FEW, 64 << 10);
	for (uint64_t row = 0; row < FEW; row++)
		tier_put_row(&t, row, ROW_BYTES);
	assert_full_of(tier_try_row(&t, FEW, ROW_BYTES), SY_RESOURCE_BLOBS);
	assert_true(stats(t.d).ssd_demotions > 0);
	for (uint64_t row = 0; row < FEW; row++)
		assert_int_equal(tier_resolve(&t, row, 1, 0).fault, SY_FAULT_NONE);
	assert_true(stats(t.d).ssd_loads > 0);
	/* Copies take nobody's place. */
	release(t.d, &t.c, 1, 1, 0, 1);
	tier_drain(&t);
	tier_put_row(&t, FEW, ROW_BYTES);
	tier_close(&t);
}

/* Far more reads than wait at once are one answer all the same, and none is done twice. */
static void test_many_blobs_at_once(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 8 << 20);
	for (uint64_t row = 0; row < MANY; row++)
		tier_put_row(&t, row, ROW_BYTES);
	uint64_t on_disk = stats(t.d).ssd_demotions;
	assert_true(on_disk > LOADED);
	assert_int_equal(tier_resolve(&t, 0, LOADED, 0).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, LOADED);
	tier_close(&t);
}

/* What a resolve that is told Busy asked for stays as long as it comes back for it, however long
 * the last of it takes. */
static void test_copies_wait_for_the_last(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	for (uint64_t row = 0; row < 400; row++)
		tier_put_row(&t, row, ROW_BYTES);
	t.reads = 0;
	t.held = 1;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(tier_resolve(&t, 0, FEW, 0).fault, SY_FAULT_BUSY);
		advance(t.d, 1ull * SEC);
		tier_note(&t);
		tier_drain(&t);
		assert_int_equal(t.answer.busy, SY_BUSY_LOADING);
		advance(t.d, 2ull * SEC);
	}
	t.held = 0;
	tier_drain(&t);
	assert_int_equal(tier_resolve(&t, 0, FEW, 0).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, FEW);
	tier_close(&t);
}

static uint64_t put_until_full(struct tier_driver *t, uint64_t row, uint64_t nbytes)
{
	while (tier_try_row(t, row, nbytes).fault == SY_FAULT_NONE)
		row++;
	assert_true(t->answered);
	assert_full_of(t->answer, SY_RESOURCE_BYTES);
	return row;
}

/* A row, with nothing given back. */
static struct sy_outcome hold(struct tier_driver *t, uint32_t slot, uint64_t row)
{
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(t->d, &t->c, slot, ++t->seq, row, 1, &field, 1, 0);
	return tier_ask(t, &e);
}

/* Neither slab nor disk has room: more rows than there is room to read are refused at once, for
 * whoever copies asks for fewer, and so all can be had. Nothing is read over and over. */
static void test_full(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	(void)put_until_full(&t, 0, ROW_BYTES);
	t.reads = 0;
	assert_full_of(tier_resolve(&t, 0, 32, 1024), SY_RESOURCE_BYTES);
	assert_int_equal(tier_resolve(&t, 0, 16, 1024).fault, SY_FAULT_NONE);
	assert_int_equal(tier_resolve(&t, 16, 16, 1024).fault, SY_FAULT_NONE);
	/* One who wants views of all does not take from itself what it has, and is told. */
	assert_full_of(tier_resolve(&t, 64, 32, 0), SY_RESOURCE_BYTES);
	assert_true(t.reads <= 100);
	/* So is one who copies while another has some of the room in its hands. */
	assert_int_equal(hold(&t, 1, 64).fault, SY_FAULT_NONE);
	assert_full_of(tier_resolve(&t, 0, 32, 1024), SY_RESOURCE_BYTES);
	tier_close(&t);
}

/* Above 85 percent of the slab blobs go to disk, down to 75; those read longest ago first. */
static void test_watermarks_and_order(void **state)
{
	(void)state;
	enum { SLAB = 1 << 20, ROOM = SLAB - SLAB / 8 };
	struct tier_driver t = tier_open(ENTRIES, SLAB);
	uint64_t rows = 0, kept = 0;
	while (stats(t.d).ssd_demotions == 0) {
		kept = stats(t.d).bytes.published;
		tier_put_row(&t, rows, rows == 0 ? INLINE_BYTES : ROW_BYTES);
		rows++;
		t.d->now_ns++;
		/* The first is read by and by, with no pin; the others never. */
		assert_int_equal(tier_resolve(&t, 0, 1, INLINE_BYTES).fault, SY_FAULT_NONE);
	}
	assert_true(kept <= ROOM / 100 * 85 + 100 && kept + 2 * ROW_BYTES > ROOM / 100 * 85);
	kept = stats(t.d).bytes.published;
	assert_true(kept <= ROOM / 100 * 75 + 100 && kept + 2 * ROW_BYTES > ROOM / 100 * 75);
	assert_int_equal(tier_resolve(&t, 0, 1, INLINE_BYTES).fault, SY_FAULT_NONE);
	assert_int_equal(tier_resolve(&t, rows - 1, 1, 0).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, 0);
	assert_int_equal(tier_resolve(&t, 1, 1, 0).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, 1);
	tier_close(&t);
}

/* What fits no hole of the disk keeps nobody from going, and goes itself once there is room. */
static void test_one_that_does_not_fit(void **state)
{
	(void)state;
	enum { BIG_BYTES = 300000, SMALL_BYTES = 60000, BEFORE = 4, DISK = 400 << 10 };
	struct tier_driver t = tier_open_disk(ENTRIES, 1 << 20, DISK);
	for (uint64_t row = 0; row < BEFORE; row++)
		tier_put_row(&t, row, SMALL_BYTES);
	tier_put_row(&t, BEFORE, BIG_BYTES);
	uint64_t rows = put_until_full(&t, BEFORE + 1, SMALL_BYTES);
	assert_int_equal(stats(t.d).ssd_demotions, DISK / sy_record_bytes(SMALL_BYTES));
	assert_true(stats(t.d).ssd_full > 0);
	assert_int_equal(tier_resolve(&t, BEFORE, 1, 0).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, 0);
	/* One goes from the disk, and another has its place. */
	struct sy_event e = release_event(t.d, &t.c, 1, 1, 1, 1);
	tier_step(&t, &e);
	tier_drain(&t);
	tier_put_row(&t, rows++, SMALL_BYTES);
	/* The large one was looked at once more: again nothing is to be hoped for. */
	rows = put_until_full(&t, rows, SMALL_BYTES);
	/* All of them go: the large one is now older than what comes. */
	e = release_event(t.d, &t.c, 1, 2, 0, BEFORE);
	tier_step(&t, &e);
	e = release_event(t.d, &t.c, 1, 3, BEFORE + 1, (uint32_t)(rows - BEFORE - 1));
	tier_step(&t, &e);
	tier_drain(&t);
	uint64_t last = put_until_full(&t, rows, SMALL_BYTES);
	e = release_event(t.d, &t.c, 1, 4, rows, (uint32_t)(last - rows));
	tier_step(&t, &e);
	tier_drain(&t);
	assert_int_equal(tier_resolve(&t, BEFORE, 1, 1024).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, 1);
	tier_close(&t);
}

/* Slab and disk are full, and the blob on disk is larger than staging: it is refused at once. */
static void test_no_room_for_one(void **state)
{
	(void)state;
	enum { BIG_BYTES = 300000, SMALL_BYTES = 60000 };
	struct tier_driver t = tier_open_disk(ENTRIES, 1 << 20, 1 << 20);
	tier_put_row(&t, 0, BIG_BYTES);
	(void)put_until_full(&t, 1, SMALL_BYTES);
	/* Also while another reads from staging: it would not do. */
	assert_int_equal(hold(&t, 1, 1).fault, SY_FAULT_NONE);
	assert_int_equal(t.reads, 1);
	assert_full_of(tier_resolve(&t, 0, 1, 0), SY_RESOURCE_BYTES);
	assert_true(t.answered);
	assert_true(t.answer.need >= BIG_BYTES && t.answer.free < t.answer.need);
	tier_close(&t);
}

/* One that waits a while for what others have in their hands is told that there is no room if
 * nothing came back, and to ask again if something did. */
static void test_others_hold_the_room(void **state)
{
	(void)state;
	enum { BYTES = 60000 };
	for (int comes = 0; comes < 2; comes++) {
		struct tier_driver t = tier_open_disk(ENTRIES, 1 << 20, 1 << 20);
		uint64_t rows = put_until_full(&t, 0, BYTES);
		tier_put_row(&t, rows, INLINE_BYTES);
		assert_int_equal(hold(&t, 1, 0).fault, SY_FAULT_NONE);
		assert_int_equal(hold(&t, 2, 1).fault, SY_FAULT_NONE);
		assert_int_equal(t.reads, 2);
		(void)hold(&t, 3, 2);
		assert_false(t.answered);
		struct sy_event e = release_event(t.d, &t.c, 4, 1, rows, 1);
		if (comes > 0)
			step(t.d, &e);
		advance(t.d, 1ull * SEC);
		tier_note(&t);
		assert_true(t.answered);
		assert_int_equal(t.answer.fault, comes > 0 ? SY_FAULT_BUSY : SY_FAULT_UNIT_FULL);
		tier_close(&t);
	}
}

/* Many of them are looked at a few at a time, and then the put that waits is told, with no event
 * from outside. */
static void test_many_that_do_not_fit(void **state)
{
	(void)state;
	struct tier_driver t = tier_open_disk(ENTRIES, 4 << 20, 4096);
	for (uint64_t row = 0; row < 400; row++)
		tier_put_row(&t, row, ROW_BYTES);
	assert_full_of(tier_try_row(&t, 400, 1 << 20), SY_RESOURCE_BYTES);
	assert_true(t.answered);
	assert_int_equal(stats(t.d).ssd_demotions, 0);
	tier_close(&t);
}

/* Two commits, in slots 1 and 2, that ask for a region for the next put. */
static void two_commits(struct tier_driver *t, struct sy_event commits[2])
{
	static struct test_index indexes[2];
	for (uint32_t i = 0; i < 2; i++) {
		const sy_index *index = index_of(&indexes[i], 200 + i, 200 + i, 1, 1, 100);
		struct sy_outcome region = alloc(t->d, &t->c, 1 + i, 1, 200 + i, index->blob_bytes, 1);
		commits[i] = commit_event(&t->c, 1 + i, 2, 200 + i, region.generation, index);
		commits[i].request.commit.next_bytes = 4096;
	}
}

/* Room that another waits for is not granted to one who may need it. */
static void test_none_is_granted_while_another_waits(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	struct sy_event commits[2];
	two_commits(&t, commits);
	while (stats(t.d).largest_hole >= 500 << 10)
		tier_put_row(&t, stats(t.d).puts, ROW_BYTES);
	step(t.d, &commits[0]);
	assert_int_not_equal(answer(t.d).generation, 0);
	t.held = TIER_OPS_MAX;
	struct sy_event e = alloc_event(&t.c, 0, ++t.seq, 100000, 600 << 10, 1);
	e.request.alloc.ssd = true;
	(void)tier_ask(&t, &e);
	assert_int_equal(stats(t.d).parked, 1);
	step(t.d, &commits[1]);
	assert_int_equal(answer(t.d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(answer(t.d).generation, 0);
	tier_close(&t);
}

/* Nor is room for what another reads from the disk. */
static void test_none_is_granted_while_another_reads(void **state)
{
	(void)state;
	enum { ROOM_ROWS = 20 };
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	struct sy_event commits[2];
	uint64_t rows = 0;
	two_commits(&t, commits);
	while (stats(t.d).ssd_demotions == 0)
		tier_put_row(&t, rows++, ROW_BYTES);
	struct sy_event e = release_event(t.d, &t.c, 3, 1, rows - ROOM_ROWS, ROOM_ROWS);
	tier_step(&t, &e);
	tier_drain(&t);
	step(t.d, &commits[0]);
	assert_int_not_equal(answer(t.d).generation, 0);
	t.held = TIER_OPS_MAX;
	(void)hold(&t, 4, 0);
	assert_false(t.answered);
	assert_int_equal(stats(t.d).parked, 1);
	step(t.d, &commits[1]);
	assert_int_equal(answer(t.d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(answer(t.d).generation, 0);
	tier_close(&t);
}

/* As many resolves wait for the disk as the table takes; one more is told so, and has its turn
 * when another's client has moved on. */
static void test_queue_of_loads_full(void **state)
{
	(void)state;
	enum { FIRST_SLOT = 1 };
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	uint32_t most = t.d->params.max_parked;
	uint64_t rows = 0;
	while (stats(t.d).ssd_demotions <= most)
		tier_put_row(&t, rows++, ROW_BYTES);
	t.held = TIER_OPS_MAX;
	for (uint32_t i = 0; i < most; i++) {
		(void)hold(&t, FIRST_SLOT + i, i);
		assert_false(t.answered);
	}
	(void)hold(&t, FIRST_SLOT + most, most);
	assert_true(t.answered);
	assert_int_equal(t.answer.fault, SY_FAULT_BUSY);
	assert_int_equal(t.answer.busy, SY_BUSY_QUEUE_FULL);
	assert_int_equal(stats(t.d).parked, most);
	struct sy_event beat = request(&t.c, SY_OP_HEARTBEAT, FIRST_SLOT, ++t.seq);
	step(t.d, &beat);
	assert_int_equal(stats(t.d).parked, most - 1);
	(void)hold(&t, FIRST_SLOT + most, most);
	assert_false(t.answered);
	assert_int_equal(stats(t.d).parked, most);
	tier_close(&t);
}

static struct sy_event resolve_of(struct tier_driver *t, uint32_t slot, uint64_t row)
{
	static const struct sy_span field = {(const uint8_t *)"a00", 3};
	struct sy_event e = resolve_event(t->d, &t->c, slot, 1, row, 1, &field, 1, 0);
	e.request.message = 100 + slot;
	return e;
}

static void read_done(struct tier_driver *t, const struct sy_effect *read)
{
	struct sy_event e = {.kind = SY_EVENT_DISK};
	e.disk.blob = read->blob;
	e.disk.grant = read->grant;
	e.disk.result = SY_DISK_OK;
	step(t->d, &e);
}

/* A read wakes those that wait for it, and none who waits for another. */
static void test_a_read_wakes_its_own(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	struct sy_effect reads[2];
	while (stats(t.d).ssd_demotions < 2)
		tier_put_row(&t, stats(t.d).puts, ROW_BYTES);
	for (uint32_t slot = 1; slot <= 4; slot++) {
		struct sy_event e = resolve_of(&t, slot, slot % 2);
		step(t.d, &e);
		assert_int_equal(count_effects(t.d, SY_EFFECT_KEEP), 1);
		assert_int_equal(count_effects(t.d, SY_EFFECT_DISK_READ), slot <= 2);
		if (slot <= 2)
			reads[slot % 2] = *effect_of(t.d, SY_EFFECT_DISK_READ);
	}
	/* One of them moves on. */
	notify_one(t.d, &t.c, SY_NOTICE_UNPIN, name_of(&t.c, 2, 1), false);
	read_done(&t, &reads[0]);
	assert_int_equal(count_effects(t.d, SY_EFFECT_REDO), 1);
	assert_int_equal(effect_of(t.d, SY_EFFECT_REDO)->message, 104);
	struct sy_event e = resolve_of(&t, 4, 0);
	e.request.redo = true;
	step(t.d, &e);
	assert_int_equal(answer(t.d).fault, SY_FAULT_NONE);
	assert_int_equal(count_effects(t.d, SY_EFFECT_REDO), 0);
	/* The other one's blob goes while it is read. */
	release(t.d, &t.c, 5, 1, 1, 1);
	read_done(&t, &reads[1]);
	assert_int_equal(count_effects(t.d, SY_EFFECT_REDO), 2);
	assert_int_equal(stats(t.d).parked, 2);
	tier_close(&t);
}

/* Of those that wait for room to read the one that needs least goes where the first does not fit;
 * once it has what it needs the next one has its turn. */
static void test_room_for_the_smallest(void **state)
{
	(void)state;
	enum { FIRST = 500 << 10, OTHER = 140 << 10, CLEARED = 44 };
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	uint64_t rows = 3;
	tier_put_row(&t, 0, FIRST);
	tier_put_row(&t, 1, OTHER);
	tier_put_row(&t, 2, OTHER);
	while (stats(t.d).ssd_demotions < 3)
		tier_put_row(&t, rows++, ROW_BYTES);
	t.held = TIER_OPS_MAX;
	while (stats(t.d).largest_hole >= OTHER)
		tier_put_row(&t, rows++, ROW_BYTES);
	for (uint32_t slot = 1; slot <= 3; slot++) {
		struct sy_event e = resolve_of(&t, slot, slot - 1);
		step(t.d, &e);
		assert_int_equal(count_effects(t.d, SY_EFFECT_KEEP), 1);
		assert_int_equal(count_effects(t.d, SY_EFFECT_DISK_READ), 0);
	}
	uint32_t redone = 0;
	struct sy_event e = release_event(t.d, &t.c, 5, 1, rows - CLEARED, CLEARED);
	step(t.d, &e);
	for (int i = 0; i < 1000; i++) {
		redone += count_effects(t.d, SY_EFFECT_REDO);
		if (redone > 0 && effect_of(t.d, SY_EFFECT_REDO) != NULL)
			assert_int_equal(effect_of(t.d, SY_EFFECT_REDO)->message, 102);
		if (!t.d->fx.again)
			break;
		step_kind(t.d, SY_EVENT_CONTINUE);
	}
	assert_int_equal(redone, 1);
	assert_in_range(stats(t.d).largest_hole, 2 * OTHER + 1000, FIRST);
	e = resolve_of(&t, 2, 1);
	e.request.redo = true;
	step(t.d, &e);
	assert_int_equal(count_effects(t.d, SY_EFFECT_DISK_READ), 1);
	assert_int_equal(effect_of(t.d, SY_EFFECT_REDO)->message, 103);
	tier_close(&t);
}

/* Who did not ask for the tier is refused at once, whether another waits for room or not. */
static void test_without_the_tier(void **state)
{
	(void)state;
	struct tier_driver t = tier_open(ENTRIES, 1 << 20);
	while (stats(t.d).largest_hole >= 200 << 10)
		tier_put_row(&t, stats(t.d).puts, ROW_BYTES);
	t.held = TIER_OPS_MAX;
	struct sy_event e = alloc_event(&t.c, 0, ++t.seq, 100000, 300 << 10, 1);
	assert_full_of(tier_ask(&t, &e), SY_RESOURCE_BYTES);
	assert_true(t.answered);
	assert_int_equal(stats(t.d).parked, 0);
	e = alloc_event(&t.c, 0, ++t.seq, 100000, 300 << 10, 1);
	e.request.alloc.ssd = true;
	(void)tier_ask(&t, &e);
	assert_false(t.answered);
	assert_int_equal(stats(t.d).parked, 1);
	struct sy_event other = alloc_event(&t.c, 1, ++t.seq, 200000, 400 << 10, 1);
	step(t.d, &other);
	assert_full(t.d, SY_RESOURCE_BYTES);
	assert_int_equal(stats(t.d).parked, 1);
	t.held = 0;
	tier_drain(&t);
	assert_true(t.answered);
	assert_int_equal(t.answer.answer, SY_ANSWER_REGION);
	tier_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_blobs_in_use),
		cmocka_unit_test(test_many_blobs_at_once),
		cmocka_unit_test(test_copies_wait_for_the_last),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_watermarks_and_order),
		cmocka_unit_test(test_one_that_does_not_fit),
		cmocka_unit_test(test_many_that_do_not_fit),
		cmocka_unit_test(test_no_room_for_one),
		cmocka_unit_test(test_others_hold_the_room),
		cmocka_unit_test(test_none_is_granted_while_another_waits),
		cmocka_unit_test(test_none_is_granted_while_another_reads),
		cmocka_unit_test(test_queue_of_loads_full),
		cmocka_unit_test(test_a_read_wakes_its_own),
		cmocka_unit_test(test_room_for_the_smallest),
		cmocka_unit_test(test_without_the_tier),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
