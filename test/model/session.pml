/* The unit's sessions, slots, notices and pins: session.c, session_end.c, slot.c, notice.c, pin.c.
 * An inline for what a function there does. */

/* blob.c: give_back. */
inline give_region(at)
{
	printf("unit: region %d is free\n", at);
	sy_move(region[at].state, SY_BLOB_FREE);
	CLAIM(I1, !TOUCHED(at) && region[at].pins == 0);
	region[at].owner = 0;
	region[at].session = 0;
	region[at].name = 0;
	region[at].generation = 0;
	region[at].blob = 0;
	region[at].early = 0;
	region[at].written = 0
}

/* sy_blob_settle */
inline settle(at)
{
	if
	:: region[at].state == SY_BLOB_RELEASED && mutant == FORGETS_PINS ->
		region[at].pins = 0;
		give_region(at)
	:: region[at].state == SY_BLOB_RELEASED && mutant != FORGETS_PINS && region[at].pins == 0 ->
		give_region(at)
	:: else
	fi
}

inline last_entry_gone(at)
{
	sy_move(region[at].state, SY_BLOB_RELEASED);
	settle(at)
}

/* pin.c: sy_pin_drop. */
inline drop_pin(q)
{
	if
	:: request[q].pin != 0 ->
		o = request[q].pin - 1;
		request[q].pin = 0;
		region[o].pins--;
		settle(o)
	:: else
	fi
}

/* A record of a request that can matter no more is all zero. */
inline tidy(q)
{
	if
	:: request[q].op == NO_OP ->
		request[q].told = 0;
		request[q].blob = 0;
		request[q].generation = 0;
		request[q].wants = 0;
		request[q].grant = 0;
		if
		:: !request[q].works -> request[q].slot = 0
		:: else
		fi;
		if
		:: request[q].pin == 0 -> request[q].session = 0
		:: else
		fi
	:: else
	fi
}

/* sy_slot_judge, and what run_request asks before it. What it refuses once it refuses for ever: a
 * slot's number only grows, and no ended session lives again. */
#define RUNS_IN(c, s) (SS(c, s).state == LIVE || (mutant == NO_SESSION_CHECK && EXISTS(c, s)))
#define WOULD_RUN(c, m) (RUNS_IN(c, RQ(c, m).session) && \
                         (m > SEQ(c, RQ(c, m).slot) || mutant == NO_SLOT || \
                          (mutant == RESOLVES_TWICE && RQ(c, m).op == RESOLVE)))

/* Copies that would be refused whenever they come are dropped; all others stay, however often
 * they were delivered. What notices a dropped one would bring, heartbeats bring as well. */
inline sweep(c)
{
	loop = 0;
	for (i : 1 .. REQUESTS) {
		if
		:: RQ(c, i).op != NO_OP && !WOULD_RUN(c, i) -> RQ(c, i).op = NO_OP
		:: RQ(c, i).op != NO_OP && WOULD_RUN(c, i) && loop == 0 -> loop = i
		:: else
		fi;
		tidy(ID(c, i))
	}
	/* A slot's number with which nothing under way is compared; `loop` is the first that is. */
	if
	:: loop == 0 || loop > slots[c].seq0 -> slots[c].seq0 = 0
	:: else
	fi;
	if
	:: loop == 0 || loop > slots[c].seq1 -> slots[c].seq1 = 0
	:: else
	fi
}

/* sy_slot_forget: a release that a slot waits for goes on and answers nobody. */
inline forget_waiting(c, in_slot)
{
	for (i : 1 .. REQUESTS) {
		if
		:: RQ(c, i).heard && RQ(c, i).slot == in_slot -> RQ(c, i).heard = 0
		:: else
		fi
	}
}

inline set_seq(c, in_slot, m)
{
	if
	:: in_slot == 0 -> slots[c].seq0 = m
	:: else -> slots[c].seq1 = m
	fi
}

/* sy_slot_give_up. A name of an older session is below all numbers of the live one, so that it
 * makes no difference there. */
inline slot_give_up(c, in_slot, m)
{
	if
	:: m >= SEQ(c, in_slot) && mutant != NO_GIVE_UP ->
		forget_waiting(c, in_slot);
		set_seq(c, in_slot, m)
	:: else
	fi
}

/* A notice leaves the queue, the oldest first, when no session can run it or run it again. */
#define PENDING_IN(c, s) (EXISTS(c, s) && SS(c, s).done == 0 && SS(c, s).last > 0)
#define PENDING(c) (PENDING_IN(c, 1) || (SESSIONS > 1 && PENDING_IN(c, 2 % (SESSIONS + 1))) || \
                    (SESSIONS > 2 && PENDING_IN(c, 3 % (SESSIONS + 1))) || \
                    (client[c].link == GREETING && client[c].done == 0) || \
                    (client[c].link == READY && client[c].session < SESSIONS_OF(c) && \
                     SS(c, client[c].session).done <= lag))
inline less(n)
{
	n = (n > 0 -> n - 1 : 0)
}

inline forget_notices(c)
{
	do
	:: client[c].queued > 0 && !PENDING(c) ->
		for (i : 1 .. NOTICES - 1) {
			NT(c, i).kind = NT(c, i + 1).kind;
			NT(c, i).name = NT(c, i + 1).name;
			NT(c, i).slot = NT(c, i + 1).slot
		}
		NT(c, NOTICES).kind = 0;
		NT(c, NOTICES).name = 0;
		NT(c, NOTICES).slot = 0;
		client[c].queued--;
		less(client[c].done);
		for (i : 1 .. SESSIONS) {
			less(SS(c, i).done);
			less(SS(c, i).last)
		}
		for (i : 1 .. REQUESTS) {
			less(RQ(c, i).told)
		}
	:: else -> break
	od;
	i = 0 /* a loop that ended a d_step would have nowhere to go to */
}

/* `o` is a region that session s of the client has reserved, or REGIONS. */
inline find_held(c, s, retired_too)
{
	o = 0;
	do
	:: o == REGIONS || (region[o].owner == c && region[o].session == s &&
	   (region[o].state == SY_BLOB_ALLOCATED ||
	    (retired_too && region[o].state == SY_BLOB_RETIRED))) -> break
	:: else -> o++
	od
}

/* `j` is a request of session s that holds a pin, or one past the client's last. */
inline find_pin(c, s)
{
	j = (c) * REQUESTS;
	do
	:: j == (c + 1) * REQUESTS || (request[j].pin != 0 && request[j].session == s) -> break
	:: else -> j++
	od
}

/* session_end.c: walk_done. A cursor that has nothing left to do is through. */
inline look(c, s)
{
	if
	:: SS(c, s).state == RETIRING ->
		find_held(c, s, 0);
		if
		:: o == REGIONS -> SS(c, s).state = ENDED
		:: else
		fi
	:: SS(c, s).state == FREEING ->
		find_held(c, s, 1);
		find_pin(c, s);
		if
		:: o == REGIONS && j == (c + 1) * REQUESTS ->
			SS(c, s).state = GONE;
			SS(c, s).bye = 0;
			SS(c, s).done = 0;
			SS(c, s).last = 0;
			if
			:: client[c].link == CLOSED -> client[c].link = DEAD
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

inline clean(c)
{
	sweep(c);
	forget_notices(c)
}

/* session_end.c: walk_blobs and walk_pins, one thing after the other. */
inline retire_one(c, s)
{
	find_held(c, s, 0);
	if
	:: mutant == SOCKET_FREES -> give_region(o)
	:: else -> sy_move(region[o].state, SY_BLOB_RETIRED)
	fi;
	look(c, s);
	clean(c)
}

inline free_one(c, s)
{
	find_held(c, s, 1);
	find_pin(c, s);
	if
	:: o < REGIONS -> give_region(o)
	:: else -> drop_pin(j)
	fi;
	look(c, s);
	clean(c)
}

/* sy_session_fenced; the grace is no part of the model. What is posted lands no more, but its
 * client may believe that it did: its commit is refused, since the session has ended. */
inline fence(c, s)
{
	printf("unit: session %d of client %d is fenced\n", s, c);
	if
	:: mutant != FREES_UNFENCED && client[c].stage == WRITING &&
	   region[client[c].region].owner == c && region[client[c].region].session == s &&
	   region[client[c].region].generation == client[c].generation ->
		SEEN(fenced_under_a_write)
		client[c].cut = 1
	:: mutant != FREES_UNFENCED && client[c].stage == SENT && client[c].reply == REGION &&
	   region[client[c].at].owner == c && region[client[c].at].session == s &&
	   region[client[c].at].generation == client[c].reply_generation ->
		SEEN(fenced_before_its_region_was_heard_of)
		client[c].cut = 1
	:: else
	fi;
	if
	:: mutant != FREES_UNFENCED && client[c].late != 0 &&
	   region[client[c].late_region].owner == c && region[client[c].late_region].session == s &&
	   region[client[c].late_region].generation == client[c].late_generation ->
		SEEN(fenced_under_a_late_write)
		client[c].late_cut = 1
	:: else
	fi;
	SS(c, s).state = FREEING;
	look(c, s);
	clean(c)
}

/* sy_session_end; what its slots wait for is forgotten at once. */
inline end_session(c, s, how)
{
	printf("unit: session %d of client %d ends: state=%d\n", s, c, how);
	if
	:: SS(c, s).state == LIVE ->
		forget_waiting(c, 0);
		forget_waiting(c, 1);
		slots[c].seq0 = 0;
		slots[c].seq1 = 0;
		SS(c, s).state = how
	:: EXISTS(c, s) && SS(c, s).state != LIVE && how == FREEING -> SS(c, s).state = FREEING
	:: else
	fi;
	look(c, s);
	clean(c)
}

/* handle_hello.c: one with a lower count than the newest session's is dropped. */
#define NO_NEWER(c, s) ((s >= SESSIONS || SS(c, (s >= SESSIONS -> 1 : s + 1)).state == NONE || \
                         SS(c, (s >= SESSIONS -> 1 : s + 1)).state == REFUSED_TOKEN))
inline hello(c, s)
{
	printf("unit: hello of client %d: session %d\n", c, s);
	for (its : 1 .. s - 1) {
		end_session(c, its, RETIRING)
	}
	SS(c, s).state = LIVE
}

/* serve_decode.c: no hello is let in with a token whose socket has ended. */
inline refuse_token(c, s)
{
	SEEN(token_ended_before_its_hello)
	SS(c, s).state = REFUSED_TOKEN
}

/* core.c: run_bye; about the connection's newest session. */
inline take_bye(c, s)
{
	if
	:: SS(c, s).done == SS(c, s).last -> end_session(c, s, FREEING)
	:: else ->
		SEEN(bye_before_its_notices)
		SS(c, s).bye = 1;
		end_session(c, s, RETIRING)
	fi
}

/* sy_reserve_find: `o` is the region reserved under this name, or REGIONS. */
inline find_reservation(c, m)
{
	o = 0;
	do
	:: o == REGIONS || (region[o].owner == c && region[o].name == m &&
	   (region[o].state == SY_BLOB_ALLOCATED || region[o].state == SY_BLOB_RETIRED)) -> break
	:: else -> o++
	od
}

/* notice.c: run_one, the next one of session s. */
inline run_notice(c, s)
{
	SS(c, s).done++;
	j = SS(c, s).done;
	named = NT(c, j).name;
	in = NT(c, j).slot;
	printf("unit: runs notice %d of client %d, session %d: kind=%d of request %d\n", j, c, s,
	       NT(c, j).kind, named);
	find_reservation(c, named);
	if
	:: NT(c, j).kind == UNPIN ->
		slot_give_up(c, in, named);
		drop_pin(ID(c, named))
	:: NT(c, j).kind == DRAINED ->
		if
		:: o < REGIONS && region[o].state == SY_BLOB_RETIRED ->
			SEEN(drained)
			give_region(o)
		:: else -> SEEN(drained_of_nothing)
		fi
	:: NT(c, j).kind == ABORT || (NT(c, j).kind == ABORT_IN_FLIGHT && mutant == FREES_IN_FLIGHT) ->
		slot_give_up(c, in, named);
		if
		:: o < REGIONS && (mutant != KEEPS_ABORTED_GRANT || !region[o].early) -> give_region(o)
		:: else -> SEEN(abort_of_nothing)
		fi
	:: NT(c, j).kind == ABORT_IN_FLIGHT && mutant != FREES_IN_FLIGHT ->
		slot_give_up(c, in, named);
		if
		:: o < REGIONS && region[o].state == SY_BLOB_ALLOCATED ->
			sy_move(region[o].state, SY_BLOB_RETIRED)
		:: else
		fi
	fi;
	if
	:: SS(c, s).bye && SS(c, s).done == SS(c, s).last -> /* finish_bye */
		SEEN(bye_completed_by_a_notice)
		SS(c, s).bye = 0;
		SS(c, s).state = FREEING
	:: else
	fi;
	for (all : 1 .. SESSIONS) {
		look(c, all)
	}
	clean(c)
}
