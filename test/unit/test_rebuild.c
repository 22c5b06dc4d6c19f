/* The rebuild: of a running unit, where nothing that can be seen may change; of one that was
 * stopped; and of one killed after any instruction of a commit, a release or a spill. */
#include "core_world.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_MAX 64

/* Blobs that only a session or a pin holds, beside the model's. */
static void hold_step(struct world *world)
{
	struct sy_core *core = world->core;
	struct sy_prng *prng = &world->prng;
	enum sy_resource lack;
	uint32_t i = 1 + (uint32_t)sy_prng_below(prng, core->tables.blobs.touched + 1);
	if (i > core->tables.blobs.touched) {
		sy_blob_id id = {{0}};
		sy_store_u64(id.bytes, ++world->next_id); /* the model's numbers: no two alike */
		if (world_extra(core) < HELD_MAX)
			sy_blob_alloc(core, 1, id, SY_SPACE_SLAB, 100, 1, &lack);
		return;
	}
	struct sy_blob *blob = sy_blob_at(core, i);
	switch (blob->state) {
	case SY_BLOB_ALLOCATED:
	case SY_BLOB_RETIRED:
		sy_blob_move(core, i, blob->state == SY_BLOB_ALLOCATED && sy_prng_chance(prng, 50)
			? SY_BLOB_RETIRED : SY_BLOB_FREE);
		break;
	case SY_BLOB_PUBLISHED:
		blob->pin_count = (uint32_t)sy_prng_below(prng, 2);
		blob->quarantine_until_ns = sy_prng_below(prng, 3);
		break;
	case SY_BLOB_RELEASED:
		blob->pin_count = 0;
		sy_blob_settle(core, i, 1);
		break;
	case SY_BLOB_QUARANTINED:
		sy_chain_remove(core, &core->tables.blobs, offsetof(struct sy_blob, timer_link),
		                &core->volatiles.quarantined_blobs, i);
		sy_blob_move(core, i, SY_BLOB_FREE);
		break;
	default:
		break;
	}
}

/* Everything of the blobs but what the rebuild is there to find anew in another order. */
static void check_blobs_same(struct sy_core *core, struct sy_core *before)
{
	assert_int_equal(core->tables.blobs.touched, before->tables.blobs.touched);
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		struct sy_blob now = *sy_blob_at(core, i), then = *sy_blob_at(before, i);
		now.id_next = then.id_next = 0;
		now.region = then.region = 0;
		now.disk_region = then.disk_region = 0;
		assert_memory_equal(&now, &then, sizeof now);
	}
}

static void check_keep(struct world *world)
{
	struct sy_core *core = world->core;
	struct sy_core *before = arena_map(core->arena_bytes);
	memcpy(before, core, core->arena_bytes);
	sy_core_rebuild(core, true);
	tables_check(core);
	world_check(world);
	check_blobs_same(core, before);
	assert_memory_equal(core->tables.bytes, before->tables.bytes, sizeof core->tables.bytes);
	assert_int_equal(core->tables.rounding_bytes, before->tables.rounding_bytes);
	for (int i = SY_SPACE_SLAB; i < SY_SPACE_COUNT; i++) {
		enum sy_space_id id = (enum sy_space_id)i;
		assert_int_equal(sy_region_hole_count(core, id), sy_region_hole_count(before, id));
		assert_int_equal(sy_region_largest_hole(core, id), sy_region_largest_hole(before, id));
	}
	assert_int_equal(core->tables.next_generation, before->tables.next_generation);
	assert_int_equal(core->tables.next_accept_seq, before->tables.next_accept_seq);
	assert_memory_equal(&core->volatiles, &before->volatiles, sizeof core->volatiles);
	tables_close(before);
}

/* What a restart forgets is taken out of the model. */
static void model_restart(struct world *world)
{
	for (uint32_t i = 0; i < world->entry_count;) {
		if (world->entries[i].pending)
			world->entries[i] = world->entries[--world->entry_count];
		else
			i++;
	}
	for (uint32_t i = 0; i < world->blob_count;) {
		if (world->blobs[i].pending)
			world->blobs[i] = world->blobs[--world->blob_count];
		else
			i++;
	}
}

static void check_cold(struct world *world)
{
	uint64_t generation = world->core->tables.next_generation;
	sy_core_rebuild(world->core, false);
	tables_check(world->core);
	world_check(world);
	assert_int_equal(world_extra(world->core), 0);
	assert_true(world->core->tables.next_generation >= generation);
	for (uint32_t i = 1; i <= world->core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(world->core, i);
		assert_true(blob->pin_count == 0 && blob->quarantine_until_ns == 0);
	}
	const struct sy_volatile *volatiles = &world->core->volatiles;
	assert_int_equal(volatiles->sessions.touched + volatiles->pins.touched
	                 + volatiles->quarantined_blobs.count, 0);
}

static void test_running(void **state)
{
	(void)state;
	static struct world world;
	struct sy_core_params params = tables_params(800, 256 * 1024);
	world_open(&world, &params, harness_seed());
	for (int i = 0; i < 8000; i++) {
		world_step(&world);
		hold_step(&world);
		if (sy_prng_chance(&world.prng, 5))
			check_keep(&world);
		if (sy_prng_chance(&world.prng, 1)) {
			model_restart(&world);
			check_cold(&world);
			world_sessions(&world);
			tables_check(world.core);
		}
	}
	world_close(&world);
}

/* Two rebuilds give what one gives, bit for bit. */
static void test_twice(void **state)
{
	(void)state;
	static struct world world;
	struct sy_core_params params = tables_params(500, 256 * 1024);
	world_open(&world, &params, harness_seed());
	for (int i = 0; i < 500; i++)
		world_step(&world);
	struct sy_core *once = arena_map(world.core->arena_bytes);
	for (int keep = 1; keep >= 0; keep--) {
		sy_core_rebuild(world.core, keep == 1);
		memcpy(once, world.core, once->arena_bytes == 0 ? world.core->arena_bytes
			: once->arena_bytes);
		sy_core_rebuild(world.core, keep == 1);
		assert_memory_equal(world.core, once, once->arena_bytes);
	}
	tables_close(once);
	world_close(&world);
}

/* Instructions are counted by the processor's trap flag. Another machine has none, and the thread
 * sanitizer, for which one thread holds nothing to find, keeps signals to itself. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIGNALS_HELD 1
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(SIGNALS_HELD)
#define CAN_COUNT 1
#endif

#ifdef CAN_COUNT

#ifdef __SANITIZE_ADDRESS__
enum { CHANGES = 2 }; /* of ten times as many instructions */
#else
enum { CHANGES = 8 };
#endif

enum { TRAP_FLAG = 0x100, OP_COMMIT = 0, OP_RELEASE, OP_SPILL, OP_COUNT };

/* One change of the tables that may be cut short. */
struct op {
	uint32_t kind, ns, blob, blob_at;
	uint64_t id, row;
	struct draft draft;
};

static uint64_t *steps_left; /* shared with the child; counts down */

static void on_trap(int number)
{
	(void)number;
	if (--*steps_left == 0)
		_exit(0);
}

static void op_run(struct sy_core *core, const struct op *op)
{
	uint32_t next;
	switch (op->kind) {
	case OP_COMMIT:
		draft_commit(core, &op->draft, op->ns, op->id, false, NULL);
		break;
	case OP_RELEASE:
		for (uint32_t i = sy_entry_row_first(core, op->ns, op->row); i != 0; i = next) {
			next = sy_entry_row_next(core, i);
			sy_entry_kill(core, i, 1);
		}
		break;
	default:
		sy_blob_move(core, op->blob, SY_BLOB_ON_SSD);
		sy_entry_show_all(core, op->blob, 1);
		break;
	}
}

/* Runs it in a process that is gone after so many instructions, or when it is done. */
static void run_cut(struct sy_core *core, const struct op *op, uint64_t steps)
{
	*steps_left = steps;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(60); /* a child that is not done by then never is */
		struct sigaction action = { .sa_handler = on_trap };
		sigaction(SIGTRAP, &action, NULL);
		unsigned long long flags = __builtin_ia32_readeflags_u64();
		__builtin_ia32_writeeflags_u64(flags | TRAP_FLAG);
		op_run(core, op);
		__builtin_ia32_writeeflags_u64(flags);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool has_blob(struct sy_core *core, uint32_t ns, uint64_t id)
{
	sy_blob_id blob_id = {{0}};
	memcpy(blob_id.bytes, &id, sizeof id);
	return sy_blob_find(core, ns, blob_id) != 0;
}

/* A release that was cut has cleared some of its entries: the model follows. */
static void model_follow_release(struct world *world, const struct op *op)
{
	for (uint32_t i = 0; i < world->entry_count;) {
		struct world_entry entry = world->entries[i];
		uint32_t field = sy_name_find(world->core, &world->core->tables.fields,
		                              world_field(entry.field));
		if (entry.ns == op->ns && entry.row == op->row
		    && (field == 0 || sy_entry_find(world->core, op->ns, op->row, field) == 0))
			world->entries[i] = world->entries[--world->entry_count];
		else
			i++;
	}
	world_drop_dead(world);
}

static void model_spill(struct world *world, const struct op *op)
{
	world->blobs[op->blob_at].pending = false;
	for (uint32_t i = 0; i < world->entry_count; i++) {
		if (world->entries[i].id == op->id)
			world->entries[i].pending = false;
	}
	for (uint32_t i = 0; i < world->entry_count; i++) {
		struct world_entry shown = world->entries[i];
		if (shown.id == op->id
		    && world_kill(world, shown.ns, shown.row, shown.field, shown.seq) > 0)
			i = UINT32_MAX; /* the array has moved: from the start */
	}
	world_drop_dead(world);
}

/* True if the change is there after the restart; a commit and a spill are there whole or not. */
static bool check_cut(const struct world *world, struct sy_core *core, const struct op *op)
{
	static struct world after;
	after = *world;
	after.core = core;
	sy_core_rebuild(core, false);
	bool done = op->kind == OP_RELEASE || has_blob(core, op->ns, op->id);
	if (op->kind == OP_COMMIT && done)
		world_apply(&after, &op->draft, op->ns, op->id, false);
	else if (op->kind == OP_SPILL && done)
		model_spill(&after, op);
	model_restart(&after);
	if (op->kind == OP_RELEASE)
		model_follow_release(&after, op);
	tables_check(core);
	world_check(&after);
	return done;
}

static bool draw_op(struct world *world, struct op *op)
{
	struct sy_prng *prng = &world->prng;
	*op = (struct op){ .kind = (uint32_t)sy_prng_below(prng, OP_COUNT) };
	op->ns = 1 + (uint32_t)sy_prng_below(prng, WORLD_SPACES);
	op->id = world->next_id + 1;
	op->row = world_row((uint32_t)sy_prng_below(prng, WORLD_ROWS));
	if (op->kind == OP_COMMIT)
		world_draft(world, &op->draft);
	if (op->kind != OP_SPILL)
		return true;
	for (uint32_t i = 0; i < world->blob_count; i++) {
		const struct world_blob *blob = &world->blobs[i];
		if (!blob->pending || world_live(world, blob->id) == 0)
			continue;
		op->blob_at = i;
		op->blob = blob->index;
		op->id = blob->id;
		op->ns = blob->ns;
		return true;
	}
	return false;
}

/* Cuts the change short after so many instructions. True: it is there after the restart. */
static bool cut_at(struct world *world, struct sy_core *cut, const struct op *op, uint64_t steps)
{
	memcpy(cut, world->core, world->core->arena_bytes);
	run_cut(cut, op, steps);
	return check_cut(world, cut, op);
}

/* Kind: crash between data and index.
 * At random places, and from both sides towards the one instruction that makes it visible: there
 * it is whole or not at all. */
static void test_killed(void **state)
{
	(void)state;
	enum { CUTS = 2 };
	static struct world world;
	struct sy_core_params params = tables_params(300, 128 * 1024);
	params.max_jobs = params.max_sessions = 2; /* a small arena is copied faster */
	params.max_fields = 16;
	steps_left = arena_map(sizeof *steps_left);
	world_open(&world, &params, harness_seed());
	struct sy_core *cut = arena_map(world.core->arena_bytes);
	uint32_t done = 0, undone = 0;
	for (int i = 0; i < CHANGES;) {
		struct op op;
		for (int k = 0; k < 20; k++)
			world_step(&world);
		if (!draw_op(&world, &op))
			continue;
		i++;
		memcpy(cut, world.core, world.core->arena_bytes);
		run_cut(cut, &op, UINT64_MAX);
		uint64_t total = UINT64_MAX - *steps_left;
		assert_true(total > 10);
		check_cut(&world, cut, &op);
		for (int k = 0; k < CUTS; k++)
			cut_at(&world, cut, &op, 1 + sy_prng_below(&world.prng, total));
		if (op.kind == OP_RELEASE)
			continue; /* there it is as far as it came */
		for (uint64_t low = 0, high = total; high - low > 1;) {
			uint64_t middle = low + (high - low) / 2;
			bool is_done = cut_at(&world, cut, &op, middle);
			*(is_done ? &high : &low) = middle;
			done += is_done;
			undone += !is_done;
		}
	}
	print_message("cut short: %u found whole, %u found undone\n", done, undone);
	munmap(steps_left, sizeof *steps_left);
	tables_close(cut);
	world_close(&world);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_running),
		cmocka_unit_test(test_twice),
#ifdef CAN_COUNT
		cmocka_unit_test(test_killed),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
