/* The faults that the build of mutants plants, each where SY_MUTANT(number) stands in the code,
 * and the invariant (DESIGN's I1 to I10) whose checker in the simulator must catch it. */
#ifndef SY_MUTANTS_H
#define SY_MUTANTS_H

/* X(number, name, invariant, where it stands) */
#define SY_MUTANT_LIST(X) \
	X(1, reuse_pinned_region, 1, core) \
	X(2, free_on_in_flight_abort, 1, core) \
	X(3, skip_quarantine, 1, core) \
	X(4, free_at_session_end, 1, core) \
	X(5, publish_half_the_rows, 2, core) \
	X(6, resolve_row_in_two_states, 2, client) \
	X(7, publish_before_index_copied, 3, core) \
	X(8, ignore_field_in_lookup, 3, core) \
	X(9, commit_before_write_done, 3, client) \
	X(10, execute_old_seq, 4, core) \
	X(11, execute_resend_again, 4, core) \
	X(12, resend_a_resolve, 4, client) \
	X(13, skip_generation_check, 5, core) \
	X(14, skip_session_check, 5, core) \
	X(15, carry_mutation_over_hello, 5, client) \
	X(16, forget_rounding, 6, core) \
	X(17, leak_entry_on_overwrite, 6, core) \
	X(18, forget_unpin_notice, 7, client) \
	X(19, leak_pin_at_session_end, 7, core) \
	X(20, forget_abort_notice, 7, client) \
	X(21, release_acked_before_done, 8, core) \
	X(22, late_commit_resurrects, 8, core) \
	X(23, ignore_until, 8, core) \
	X(24, lost_for_stopped_unit, 9, client) \
	X(25, absent_for_no_session, 9, client) \
	X(26, wait_past_deadline, 10, client) \
	X(27, backoff_ignores_deadline, 10, client) \
	X(28, notices_out_of_order, 4, core) \
	X(29, pin_half_the_blobs, 1, core) \
	X(30, old_entry_shadows_new, 3, core) \
	X(31, free_while_writing, 1, core) \
	X(32, publish_failed_write, 3, core) \
	X(33, failed_write_hides_older, 3, core) \
	X(34, drop_copy_before_written, 3, core) \
	X(35, reuse_record_while_reading, 1, core) \
	X(36, count_disk_twice, 6, core) \
	X(37, demote_pinned, 1, core) \
	X(38, publish_after_until, 8, core) \
	X(39, ignore_abort_of_committing, 4, core) \
	X(40, forget_run_of_pinned, 6, core) \
	X(41, fenced_unit_answers, 9, unit) \
	X(42, fence_from_the_answer, 9, unit) \
	X(43, restart_buries_at_once, 9, directory) \
	X(44, resurrect_the_buried, 9, directory) \
	X(45, believe_a_late_answer, 9, client) \
	X(46, suspect_is_dead, 9, directory) \
	X(47, free_at_the_fence, 1, core) \
	X(48, grace_before_the_fence, 1, core) \
	X(49, late_write_is_finished, 1, client) \
	X(50, forced_close_is_finished, 1, base) \
	X(51, flushed_is_drained, 1, base) \
	X(52, reuse_buffer_in_flight, 3, base) \
	X(53, believe_an_old_read, 3, client) \
	X(54, unpin_the_expired, 1, core) \
	X(55, forget_the_fence, 7, core) \
	X(56, forget_drained_notice, 7, client) \
	X(57, forget_returned_buffer, 6, base) \
	X(58, endless_graveyard, 6, base) \
	X(59, believe_a_lost_pin, 3, client) \
	X(60, keep_remote_of_the_dead, 3, client) \
	X(61, deregister_in_flight, 3, base) \
	X(62, let_memory_go_at_burial, 3, base) \
	X(63, hold_memory_for_ever, 6, base) \
	X(64, read_over_a_doubt, 3, base) \
	X(65, call_a_landing_read_over, 3, base) \
	X(66, keep_aborted_grant, 7, core) \
	X(67, write_past_a_grant, 1, client) \
	X(68, use_a_grant_twice, 3, client) \
	X(69, forget_grants_at_session_end, 7, client) \
	X(70, forget_who_waits_for_a_copy, 6, core) \
	X(71, forget_who_was_passed, 6, core) \
	X(72, follow_the_overwritten, 3, core)

#endif
