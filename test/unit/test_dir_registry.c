#include "harness.h"

#include <string.h>

#include "prng.h"
#include "registry.h"

static const struct sy_dir_times no_leases;
static const struct sy_dir_times leases = {5, 45, 60};

static struct sy_unit_info unit_of(const struct sy_registry *registry, uint32_t unit_id,
                                   uint64_t incarnation)
{
	const struct sy_unit_info *slot = sy_registry_slot(registry, unit_id);
	struct sy_unit_info unit = {
		.unit_id = unit_id,
		.incarnation = incarnation,
		.turn = slot != NULL ? slot->turn : 0,
		.pid = (uint32_t)incarnation + 1000,
		.slab_bytes = 64,
		.ipc_address = "ipc://x",
	};
	return unit;
}

static enum sy_dir_fault enter(struct sy_registry *registry, uint32_t unit_id,
                               uint64_t incarnation)
{
	struct sy_unit_info unit = unit_of(registry, unit_id, incarnation);
	return sy_registry_register(registry, &unit, 0);
}

static enum sy_unit_state state_of(const struct sy_registry *registry, uint32_t unit_id)
{
	return sy_registry_slot(registry, unit_id)->state;
}

static void test_size_is_checked(void **state)
{
	(void)state;
	assert_null(sy_registry_new(0, &no_leases));
	assert_null(sy_registry_new(SY_UNITS_MAX + 1, &no_leases));
	assert_null(sy_registry_new(1, &(struct sy_dir_times){5, 5, 60}));
	assert_null(sy_registry_new(1, &(struct sy_dir_times){5, 45, 45}));
	assert_null(sy_registry_new(1, &(struct sy_dir_times){0, 45, 60}));
	struct sy_registry *registry = sy_registry_new(SY_UNITS_MAX, &no_leases);
	assert_non_null(registry);
	assert_int_equal(sy_registry_slot_count(registry), SY_UNITS_MAX);
	assert_null(sy_registry_slot(registry, SY_UNITS_MAX));
	assert_int_equal(sy_registry_slot(registry, SY_UNITS_MAX - 1)->unit_id, SY_UNITS_MAX - 1);
	sy_registry_free(registry);
	sy_registry_free(NULL);
}

static void test_register_renew_exit(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(2, &no_leases);
	uint64_t epoch = sy_registry_epoch(registry);
	assert_int_equal(state_of(registry, 0), SY_UNIT_NONE);
	assert_int_equal(sy_registry_renew(registry, 0, 7, 0), SY_DIR_FAULT_EMPTY);
	assert_int_equal(sy_registry_slot(registry, 0)->starts, 0);
	assert_int_equal(enter(registry, 0, 7), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_slot(registry, 0)->starts, 1);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1);
	assert_int_equal(state_of(registry, 0), SY_UNIT_ACTIVE);
	assert_int_equal(state_of(registry, 1), SY_UNIT_NONE);
	assert_int_equal(sy_registry_renew(registry, 0, 7, 0), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_renew(registry, 1, 7, 0), SY_DIR_FAULT_EMPTY);
	assert_int_equal(sy_registry_renew(registry, 0, 8, 0), SY_DIR_FAULT_BURIED);
	assert_int_equal(sy_registry_renew(registry, 2, 7, 0), SY_DIR_FAULT_NO_SLOT);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1);

	assert_int_equal(sy_registry_exited(registry, 0, 7), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_DEAD);
	assert_int_equal(sy_registry_slot(registry, 0)->incarnation, 7);
	assert_int_equal(sy_registry_epoch(registry), epoch + 2);
	/* Twice is once. */
	assert_int_equal(sy_registry_exited(registry, 0, 7), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_epoch(registry), epoch + 2);
	assert_int_equal(enter(registry, 0, 8), SY_DIR_FAULT_NONE);
	assert_int_equal(enter(registry, 0, 8), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_slot(registry, 0)->starts, 2);
	assert_int_equal(sy_registry_slot(registry, 1)->starts, 0);
	sy_registry_free(registry);
}

static void test_bad_requests_change_nothing(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	struct sy_unit_info unit = unit_of(registry, 0, 7);
	unit.unit_id = 1;
	assert_int_equal(sy_registry_register(registry, &unit, 0), SY_DIR_FAULT_NO_SLOT);
	unit = unit_of(registry, 0, 0);
	assert_int_equal(sy_registry_register(registry, &unit, 0), SY_DIR_FAULT_MALFORMED);
	unit = unit_of(registry, 0, 7);
	memset(unit.tcp_address, 'x', sizeof unit.tcp_address);
	assert_int_equal(sy_registry_register(registry, &unit, 0), SY_DIR_FAULT_MALFORMED);
	assert_int_equal(sy_registry_exited(registry, 0, 0), SY_DIR_FAULT_MALFORMED);
	assert_int_equal(sy_registry_exited(registry, 1, 7), SY_DIR_FAULT_NO_SLOT);
	assert_int_equal(sy_registry_process_exited(registry, 1, 7), SY_DIR_FAULT_NO_SLOT);
	assert_int_equal(sy_registry_set_state(registry, 1, 7, SY_UNIT_ACTIVE), SY_DIR_FAULT_NO_SLOT);
	assert_int_equal(sy_registry_slot(registry, 0)->turn, 0);
	assert_int_equal(sy_registry_epoch(registry), 1);
	sy_registry_free(registry);
}

static void test_a_live_slot_is_held(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	static const enum sy_unit_state live[] = {SY_UNIT_ACTIVE, SY_UNIT_DRAINING};
	assert_int_equal(enter(registry, 0, 1), SY_DIR_FAULT_NONE);
	for (size_t i = 0; i < COUNT_OF(live); i++) {
		assert_int_equal(sy_registry_set_state(registry, 0, 1, live[i]), SY_DIR_FAULT_NONE);
		assert_int_equal(state_of(registry, 0), live[i]);
		assert_int_equal(enter(registry, 0, 2), SY_DIR_FAULT_HELD);
		/* The holder's own register, sent again, is no new one: whatever its turn was. */
		struct sy_unit_info again = unit_of(registry, 0, 1);
		again.turn = 0;
		uint64_t epoch = sy_registry_epoch(registry);
		assert_int_equal(sy_registry_register(registry, &again, 0), SY_DIR_FAULT_NONE);
		assert_int_equal(sy_registry_epoch(registry), epoch);
		assert_int_equal(state_of(registry, 0), live[i]);
	}
	assert_int_equal(sy_registry_exited(registry, 0, 1), SY_DIR_FAULT_NONE);
	assert_int_equal(enter(registry, 0, 2), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_slot(registry, 0)->incarnation, 2);
	sy_registry_free(registry);
}

static void test_states(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	enter(registry, 0, 1);
	uint64_t epoch = sy_registry_epoch(registry);
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_ACTIVE), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_epoch(registry), epoch); /* nothing changed */
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_DEAD), SY_DIR_FAULT_STATE);
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_NONE), SY_DIR_FAULT_STATE);
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_SUSPECT), SY_DIR_FAULT_STATE);
	assert_int_equal(sy_registry_set_state(registry, 0, 2, SY_UNIT_DRAINING),
	                 SY_DIR_FAULT_BURIED);
	assert_int_equal(sy_registry_epoch(registry), epoch);
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_DRAINING), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1);
	sy_registry_free(registry);
}

static void test_the_dead_never_answer_again(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	enter(registry, 0, 1);
	sy_registry_exited(registry, 0, 1);
	for (int successor = 0; successor < 3; successor++) {
		assert_int_equal(sy_registry_renew(registry, 0, 1, 0), SY_DIR_FAULT_BURIED);
		assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_ACTIVE),
		                 SY_DIR_FAULT_BURIED);
		struct sy_unit_info late = unit_of(registry, 0, 1);
		late.turn = 0; /* what it read when it lived */
		assert_int_not_equal(sy_registry_register(registry, &late, 0), SY_DIR_FAULT_NONE);
		if (successor == 1)
			sy_registry_exited(registry, 0, 2);
		else
			enter(registry, 0, (uint64_t)successor + 2);
	}
	sy_registry_free(registry);
}

/* A register under way when its sender dies: nobody had heard of that incarnation. */
static void test_a_late_register_of_a_dead_process_is_refused(void **state)
{
	(void)state;
	for (int by_pid = 0; by_pid < 2; by_pid++) {
		struct sy_registry *registry = sy_registry_new(1, &no_leases);
		struct sy_unit_info late = unit_of(registry, 0, 9);
		if (by_pid)
			assert_int_equal(sy_registry_process_exited(registry, 0, late.pid),
			                 SY_DIR_FAULT_NONE);
		else
			assert_int_equal(sy_registry_exited(registry, 0, 9), SY_DIR_FAULT_NONE);
		assert_int_equal(sy_registry_register(registry, &late, 0), SY_DIR_FAULT_TURN);
		/* Also after the slot's next unit came and went. */
		assert_int_equal(enter(registry, 0, 10), SY_DIR_FAULT_NONE);
		assert_int_equal(sy_registry_register(registry, &late, 0), SY_DIR_FAULT_HELD);
		sy_registry_exited(registry, 0, 10);
		assert_int_equal(sy_registry_register(registry, &late, 0), SY_DIR_FAULT_TURN);
		sy_registry_free(registry);
	}
}

static void test_exit_by_process(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	enter(registry, 0, 1);
	uint32_t pid = sy_registry_slot(registry, 0)->pid;
	/* Another child for the slot, which was refused and ended, is not its holder. */
	assert_int_equal(sy_registry_process_exited(registry, 0, pid + 1), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_ACTIVE);
	assert_int_equal(sy_registry_process_exited(registry, 0, pid), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_DEAD);
	sy_registry_free(registry);
}

static void test_units_since_an_epoch(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(3, &no_leases);
	struct sy_unit_info units[3];
	assert_int_equal(sy_registry_units(registry, 0, units), 3);
	enter(registry, 1, 5);
	uint64_t seen = sy_registry_epoch(registry);
	assert_int_equal(sy_registry_units(registry, seen + 1, units), 0);
	enter(registry, 2, 6);
	sy_registry_exited(registry, 1, 5);
	assert_int_equal(sy_registry_units(registry, seen + 1, units), 2);
	assert_int_equal(units[0].unit_id, 1);
	assert_int_equal(units[0].state, SY_UNIT_DEAD);
	assert_int_equal(units[1].unit_id, 2);
	assert_int_equal(units[1].incarnation, 6);
	uint64_t now = sy_registry_epoch(registry);
	assert_int_equal(sy_registry_units(registry, now, units), 1);
	assert_int_equal(sy_registry_units(registry, now + 1, units), 0);
	assert_int_equal(sy_registry_units(registry, now + 2, units), 3); /* not of this cluster */
	assert_int_equal(sy_registry_units(registry, UINT64_MAX, units), 3);
	sy_registry_free(registry);
}

static void assert_damaged(uint64_t epoch, const struct sy_unit_info *units, uint32_t count)
{
	struct sy_registry *none = NULL;
	assert_int_equal(sy_registry_restore(epoch, &no_leases, units, count, 0, &none),
	                 SY_E_PROTOCOL);
	assert_null(none);
}

static void test_a_restart_keeps_all_and_raises_the_epoch(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(3, &no_leases);
	enter(registry, 0, 1);
	enter(registry, 1, 2);
	sy_registry_exited(registry, 0, 1);
	struct sy_unit_info units[3];
	uint64_t epoch = sy_registry_epoch(registry);
	sy_registry_units(registry, 0, units);
	sy_registry_free(registry);

	struct sy_registry *restored = NULL;
	assert_int_equal(sy_registry_restore(epoch, &no_leases, units, 3, 0, &restored), SY_OK);
	assert_int_equal(sy_registry_epoch(restored), epoch + 1);
	assert_int_equal(sy_registry_units(restored, epoch + 1, units), 3);
	assert_int_equal(state_of(restored, 0), SY_UNIT_DEAD);
	assert_int_equal(sy_registry_renew(restored, 0, 1, 0), SY_DIR_FAULT_BURIED);
	assert_int_equal(enter(restored, 0, 1), SY_DIR_FAULT_BURIED);
	assert_int_equal(sy_registry_renew(restored, 1, 2, 0), SY_DIR_FAULT_NONE);
	assert_int_equal(enter(restored, 0, 3), SY_DIR_FAULT_NONE);
	sy_registry_free(restored);

	units[1].unit_id = 2;
	assert_damaged(epoch + 1, units, 3);
	units[1].unit_id = 1;
	units[2].incarnation = 4; /* of a slot that is NONE */
	assert_damaged(epoch + 1, units, 3);
	units[2].incarnation = 0;
	assert_damaged(epoch, units, 3); /* slots from the future */
	assert_damaged(epoch + 1, units, 0);
}

static struct sy_registry *with_leases(void)
{
	struct sy_registry *registry = sy_registry_new(2, &leases);
	struct sy_unit_info unit = unit_of(registry, 0, 1);
	assert_int_equal(sy_registry_register(registry, &unit, 100), SY_DIR_FAULT_NONE);
	return registry;
}

static enum sy_unit_state state_at(struct sy_registry *registry, uint64_t now_ns)
{
	(void)sy_registry_tick(registry, now_ns);
	return state_of(registry, 0);
}

/* Silence makes it suspect, and only much more of it dead; each change is told once. */
static void test_a_silent_unit_is_suspect_then_dead(void **state)
{
	(void)state;
	struct sy_registry *registry = with_leases();
	assert_int_equal(sy_registry_deadline(registry), 105);
	assert_int_equal(state_at(registry, 104), SY_UNIT_ACTIVE);
	uint64_t epoch = sy_registry_epoch(registry);
	struct sy_registry_ticked ticked = sy_registry_tick(registry, 105);
	assert_int_equal(ticked.suspects, 1);
	assert_int_equal(ticked.deaths, 0);
	assert_int_equal(state_of(registry, 0), SY_UNIT_SUSPECT);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1);
	assert_int_equal(sy_registry_deadline(registry), 160);
	ticked = sy_registry_tick(registry, 159);
	assert_int_equal(ticked.suspects + ticked.deaths, 0);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1);
	assert_int_equal(enter(registry, 0, 2), SY_DIR_FAULT_HELD); /* it is not dead */
	ticked = sy_registry_tick(registry, 160);
	assert_int_equal(ticked.deaths, 1);
	assert_int_equal(state_of(registry, 0), SY_UNIT_DEAD);
	assert_int_equal(sy_registry_epoch(registry), epoch + 2);
	assert_int_equal(sy_registry_deadline(registry), UINT64_MAX);
	/* For ever. */
	assert_int_equal(sy_registry_renew(registry, 0, 1, 161), SY_DIR_FAULT_BURIED);
	struct sy_unit_info again = unit_of(registry, 0, 1);
	assert_int_equal(sy_registry_register(registry, &again, 161), SY_DIR_FAULT_BURIED);
	assert_int_equal(state_at(registry, 161), SY_UNIT_DEAD);
	assert_int_equal(enter(registry, 0, 2), SY_DIR_FAULT_NONE);
	sy_registry_free(registry);
}

static void test_a_renewal_makes_it_whole_again(void **state)
{
	(void)state;
	struct sy_registry *registry = with_leases();
	for (uint64_t now = 104; now < 1000; now += 4) {
		assert_int_equal(sy_registry_renew(registry, 0, 1, now), SY_DIR_FAULT_NONE);
		assert_int_equal(state_at(registry, now + 4), SY_UNIT_ACTIVE);
	}
	for (uint64_t now = 1000; now < 2000; now += 59) {
		assert_int_equal(sy_registry_renew(registry, 0, 1, now), SY_DIR_FAULT_NONE);
		assert_int_equal(state_of(registry, 0), SY_UNIT_ACTIVE);
		assert_int_equal(state_at(registry, now + 58), SY_UNIT_SUSPECT);
	}
	/* Its own register, sent again, is as good. */
	struct sy_unit_info again = unit_of(registry, 0, 1);
	assert_int_equal(sy_registry_register(registry, &again, 2000), SY_DIR_FAULT_NONE);
	assert_int_equal(state_at(registry, 2004), SY_UNIT_ACTIVE);
	sy_registry_free(registry);
}

/* That it drains outlasts that it is suspect, and can be said while it is. */
static void test_draining_and_suspect(void **state)
{
	(void)state;
	struct sy_registry *registry = with_leases();
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_DRAINING), SY_DIR_FAULT_NONE);
	assert_int_equal(state_at(registry, 110), SY_UNIT_SUSPECT);
	assert_int_equal(sy_registry_renew(registry, 0, 1, 111), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_DRAINING);
	assert_int_equal(state_at(registry, 120), SY_UNIT_SUSPECT);
	uint64_t epoch = sy_registry_epoch(registry);
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_ACTIVE), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_SUSPECT);
	assert_int_equal(sy_registry_epoch(registry), epoch + 1); /* or it would not be stored */
	assert_int_equal(sy_registry_renew(registry, 0, 1, 121), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_ACTIVE);
	/* The slot's next unit does not inherit it. */
	assert_int_equal(sy_registry_set_state(registry, 0, 1, SY_UNIT_DRAINING), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_exited(registry, 0, 1), SY_DIR_FAULT_NONE);
	assert_int_equal(enter(registry, 0, 2), SY_DIR_FAULT_NONE);
	assert_int_equal(state_of(registry, 0), SY_UNIT_ACTIVE);
	assert_false(sy_registry_slot(registry, 0)->draining);
	sy_registry_free(registry);
}

/* What was not listened for does not count as silence: after a stop, and after a restart. */
static void test_no_death_for_what_was_not_heard(void **state)
{
	(void)state;
	struct sy_registry *registry = with_leases();
	assert_int_equal(state_at(registry, 110), SY_UNIT_SUSPECT);
	sy_registry_deaf(registry, 1000);
	assert_int_equal(state_at(registry, 1059), SY_UNIT_SUSPECT);
	struct sy_unit_info units[2];
	sy_registry_units(registry, 0, units);
	struct sy_registry *restored = NULL;
	assert_int_equal(sy_registry_restore(sy_registry_epoch(registry), &leases, units, 2, 5000,
	                                     &restored), SY_OK);
	assert_memory_equal(sy_registry_times(restored), &leases, sizeof leases);
	assert_int_equal(state_at(restored, 5059), SY_UNIT_SUSPECT);
	assert_int_equal(sy_registry_renew(restored, 0, 1, 5059), SY_DIR_FAULT_NONE);
	assert_int_equal(state_at(restored, 5060), SY_UNIT_ACTIVE);
	assert_int_equal(state_at(restored, 5119), SY_UNIT_DEAD);
	sy_registry_free(restored);
	assert_int_equal(state_at(registry, 1060), SY_UNIT_DEAD);
	sy_registry_free(registry);
}

/* Without times nobody dies of silence. */
static void test_no_leases_no_death(void **state)
{
	(void)state;
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	assert_int_equal(enter(registry, 0, 1), SY_DIR_FAULT_NONE);
	assert_int_equal(sy_registry_deadline(registry), UINT64_MAX);
	assert_int_equal(state_at(registry, UINT64_MAX), SY_UNIT_ACTIVE);
	sy_registry_free(registry);
}

/* Random histories, doubled and late messages included, against what is true of processes: an
 * incarnation whose process has ended never holds its slot again, and never does a slot change
 * hands while its holder lives. */
static void test_random_histories(void **state)
{
	(void)state;
	enum { PROCESSES = 400, SENT = 64 };
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	struct sy_registry *registry = sy_registry_new(1, &no_leases);
	bool ended[PROCESSES + 1] = {false};
	struct sy_unit_info under_way[SENT];
	uint32_t under_way_count = 0, started = 0, holders = 0;
	uint64_t holder = 0;
	for (uint32_t step = 0; step < 20000; step++) {
		uint64_t dice = sy_prng_next(&prng) % 8;
		uint64_t any = started == 0 ? 0 : 1 + sy_prng_next(&prng) % started;
		if (dice == 0 && started < PROCESSES && (started == 0 || ended[started])) {
			started++;
		} else if (dice <= 2 && started > 0 && !ended[started] && under_way_count < SENT) {
			under_way[under_way_count++] = unit_of(registry, 0, started);
		} else if (dice <= 5 && under_way_count > 0) {
			uint32_t pick = (uint32_t)(sy_prng_next(&prng) % under_way_count);
			struct sy_unit_info unit = under_way[pick];
			bool is_first = sy_registry_slot(registry, 0)->incarnation != unit.incarnation;
			enum sy_dir_fault fault = sy_registry_register(registry, &unit, 0);
			if (fault == SY_DIR_FAULT_NONE) {
				assert_false(ended[unit.incarnation]);
				holders += is_first;
			}
			if (sy_prng_next(&prng) % 2 == 0)
				under_way[pick] = under_way[--under_way_count];
		} else if (dice == 6 && any > 0 && (any == started || ended[any])) {
			if (sy_prng_next(&prng) % 4 == 0 || ended[any]) {
				ended[any] = true;
				sy_registry_exited(registry, 0, any);
			}
		} else if (dice == 7 && any > 0 && ended[any]) {
			bool is_empty = sy_registry_slot(registry, 0)->state == SY_UNIT_NONE;
			assert_int_equal(sy_registry_renew(registry, 0, any, 0),
			                 is_empty ? SY_DIR_FAULT_EMPTY : SY_DIR_FAULT_BURIED);
		}
		const struct sy_unit_info *slot = sy_registry_slot(registry, 0);
		if (holder != slot->incarnation && holder != 0)
			assert_true(ended[holder]);
		holder = slot->incarnation;
		if (holder != 0)
			assert_int_equal(slot->state == SY_UNIT_DEAD, ended[holder]);
	}
	assert_true(holders > 10);
	sy_registry_free(registry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size_is_checked),
		cmocka_unit_test(test_register_renew_exit),
		cmocka_unit_test(test_bad_requests_change_nothing),
		cmocka_unit_test(test_a_live_slot_is_held),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_the_dead_never_answer_again),
		cmocka_unit_test(test_a_late_register_of_a_dead_process_is_refused),
		cmocka_unit_test(test_exit_by_process),
		cmocka_unit_test(test_units_since_an_epoch),
		cmocka_unit_test(test_a_restart_keeps_all_and_raises_the_epoch),
		cmocka_unit_test(test_a_silent_unit_is_suspect_then_dead),
		cmocka_unit_test(test_a_renewal_makes_it_whole_again),
		cmocka_unit_test(test_draining_and_suspect),
		cmocka_unit_test(test_no_death_for_what_was_not_heard),
		cmocka_unit_test(test_no_leases_no_death),
		cmocka_unit_test(test_random_histories),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
