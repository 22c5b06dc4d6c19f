/* A client: src/client/machine*.c, and a caller that makes one call after the other. */

/* A place in the queue for each notice that what is held will need, and `more` for what begins
 * (machine_notices.c). */
#define HOLDS (ME.queued + (ME.view != 0) + (ME.late != 0) + (ME.grant != 0))
#define HAS_MORE (ME.last < REQUESTS_OF(c))
#define HAS_SESSIONS (ME.session < SESSIONS_OF(c))
#define MAY_ASK(more) (ME.link == READY && ME.stage == IDLE && HOLDS + more <= NOTICES && HAS_MORE)

inline tell(what, about, about_slot)
{
	ME.queued++;
	printf("client %d: notice %d: kind=%d of request %d\n", c, ME.queued, what, about);
	NT(c, ME.queued).kind = what;
	NT(c, ME.queued).name = about;
	NT(c, ME.queued).slot = about_slot;
	if
	:: ME.link == READY -> SS(c, ME.session).last = ME.queued
	:: else
	fi
}

/* A request goes out under its slot's next seq; what was queued before it rides on it. */
inline ask(what, in_slot)
{
	ME.last++;
	ME.stage = SENT;
	ME.op = what;
	ME.slot = in_slot;
	printf("client %d: request %d: op=%d, slot %d, session %d\n", c, ME.last, what, in_slot,
	       ME.session);
	RQ(c, ME.last).op = what;
	RQ(c, ME.last).slot = in_slot;
	RQ(c, ME.last).session = ME.session;
	RQ(c, ME.last).told = (mutant == BRINGS_OLDEST && ME.queued > 1 -> 1 : ME.queued)
}

/* A caller does its last put over, or asks for its fate, at once or never. */
inline forget_put()
{
	ME.generation = 0;
	ME.retries = 0
}

inline put(what, in_slot)
{
	forget_put();
	ask(what, in_slot);
	RQ(c, ME.last).blob = ME.blob
}

inline commit(in_slot)
{
	ask(COMMIT, in_slot);
	RQ(c, ME.last).blob = ME.blob;
	RQ(c, ME.last).generation = ME.generation;
	RQ(c, ME.last).wants = ME.wants;
	RQ(c, ME.last).grant = (ME.granted -> ME.name : 0)
}

inline new_put(in_slot)
{
	ME.blob = 1 - ME.blob;
	put(ALLOC, in_slot)
}

inline same_put(in_slot)
{
	put(ALLOC, in_slot)
}

inline new_put_inline(in_slot)
{
	ME.blob = 1 - ME.blob;
	put(PUT_INLINE, in_slot)
}

inline same_put_inline(in_slot)
{
	put(PUT_INLINE, in_slot)
}

inline resolve(in_slot)
{
	forget_put();
	ask(RESOLVE, in_slot)
}

inline release(in_slot)
{
	forget_put();
	ask(RELEASE, in_slot)
}

inline forget_reply()
{
	ME.reply = NO_REPLY;
	ME.at = 0;
	ME.reply_generation = 0
}

/* The call is over. What the next may do over is remembered if there can be one. */
inline finish(failed, fate)
{
	ME.stage = IDLE;
	ME.op = NO_OP;
	ME.slot = 0;
	ME.ending = 0;
	ME.cut = 0;
	ME.name = 0;
	ME.name_slot = 0;
	ME.region = 0;
	ME.granted = 0;
	ME.wants = 0;
	forget_reply();
	ME.retries = failed && HAS_MORE;
	ME.generation = (HAS_MORE -> fate : 0);
	ME.blob = (HAS_MORE -> ME.blob : 0)
}

/* sy_machine_op_give_up and _finish. The request that is out is overtaken by its notice. A put
 * aborts its reservation instead of its commit, whose fate is unknown. */
inline give_up()
{
	if
	:: ME.op == COMMIT ->
		if
		:: ME.wants -> tell(ABORT, ME.last, ME.slot)
		:: else
		fi;
		if
		:: ME.name != 0 -> tell(ABORT, ME.name, ME.name_slot)
		:: else
		fi;
		finish(1, ME.generation)
	:: ME.op == RESOLVE && mutant == RESOLVES_TWICE -> finish(0, 0)
	:: ME.op == RESOLVE && mutant != RESOLVES_TWICE ->
		tell(UNPIN, ME.last, ME.slot);
		finish(0, 0)
	:: else ->
		tell(ABORT, ME.last, ME.slot);
		finish(ME.op != RELEASE, 0)
	fi
}

/* machine_reply.c */
inline take_reply()
{
	printf("client %d: reply=%d to request %d, region %d\n", c, ME.reply, ME.last, ME.at);
	if
	:: ME.reply == REGION -> /* the write begins */
		CLAIM(I1, ME.cut || HELD(ME.at, ME.reply_generation));
		ME.name = ME.last;
		ME.name_slot = ME.slot;
		ME.region = ME.at;
		ME.generation = ME.reply_generation;
		ME.stage = WRITING;
		ME.op = NO_OP;
		ME.slot = 0;
		forget_reply()
	:: ME.reply == FOUND -> /* the read begins */
		CLAIM(I1, SHOWN(ME.at, ME.reply_generation));
		ME.view = ME.last;
		ME.view_slot = ME.slot;
		ME.view_region = ME.at;
		ME.view_generation = ME.reply_generation;
		finish(0, 0)
	:: ME.reply == PUBLISHED && ME.reply_generation != 0 ->
		SEEN(grant_kept)
		CLAIM(I1, HELD(ME.at, ME.reply_generation));
		ME.grant = ME.last;
		ME.grant_slot = ME.slot;
		ME.grant_region = ME.at;
		finish(0, 0)
	:: ME.reply == REFUSED ->
		if
		:: ME.name != 0 -> tell(ABORT, ME.name, ME.name_slot)
		:: else
		fi;
		finish(1, 0)
	:: else -> finish(0, 0)
	fi
}

/* machine_grant.c */
inline forget_grant()
{
	ME.grant = 0;
	ME.grant_slot = 0;
	ME.grant_region = 0
}

inline return_grant()
{
	tell(ABORT, ME.grant, ME.grant_slot);
	forget_grant()
}

/* A put begins with its write. */
inline put_granted()
{
	printf("client %d: writes to the grant of request %d\n", c, ME.grant);
	forget_put();
	ME.stage = WRITING;
	ME.name = ME.grant;
	ME.name_slot = ME.grant_slot;
	ME.region = ME.grant_region;
	ME.generation = ID(c, ME.grant) + 1;
	ME.granted = 1;
	CLAIM(I1, HELD(ME.region, ME.generation));
	if
	:: mutant != USES_GRANT_TWICE -> forget_grant()
	:: else
	fi
}

/* machine.c: sy_machine_written; too late, failed, or its session is gone. */
inline give_back()
{
	printf("client %d: gives up its write\n", c);
	CLAIM(I1, ME.cut || HELD(ME.region, ME.generation));
	tell(ABORT, ME.name, ME.name_slot);
	finish(1, 0)
}

inline write_done(in_slot)
{
	printf("client %d: has written\n", c);
	CLAIM(I1, ME.cut || HELD(ME.region, ME.generation));
	if
	:: !ME.cut -> region[ME.region].written = 1
	:: else
	fi;
	ME.cut = 0;
	commit(in_slot)
}

inline write_done_asking(in_slot)
{
	ME.wants = 1;
	write_done(in_slot)
}

/* It failed, or its time is over, and nobody knows whether it lands yet. */
inline write_unknown()
{
	SEEN(write_left_in_flight)
	printf("client %d: leaves its write in flight\n", c);
	if
	:: mutant == LATE_IS_OVER -> tell(ABORT, ME.name, ME.name_slot)
	:: else -> tell(ABORT_IN_FLIGHT, ME.name, ME.name_slot)
	fi;
	ME.late = ME.name;
	ME.late_region = ME.region;
	ME.late_generation = ME.generation;
	ME.late_cut = ME.cut;
	finish(1, 0)
}

inline forget_late()
{
	ME.late = 0;
	ME.late_region = 0;
	ME.late_generation = 0;
	ME.late_cut = 0
}

/* It lands, and is seen to be over. */
inline land()
{
	SEEN(write_landed_late)
	printf("client %d: its late write has landed\n", c);
	CLAIM(I1, ME.late_cut || HELD(ME.late_region, ME.late_generation));
	tell(DRAINED, ME.late, 0);
	forget_late()
}

inline forget_view()
{
	ME.view = 0;
	ME.view_slot = 0;
	ME.view_region = 0;
	ME.view_generation = 0
}

inline drop_view()
{
	CLAIM(I1, SHOWN(ME.view_region, ME.view_generation));
	tell(UNPIN, ME.view, ME.view_slot);
	forget_view()
}

/* machine_link.c: end_session. `behind` of the notices executed were not acknowledged, and go out
 * again in the next session. */
inline leave(behind)
{
	printf("client %d: its session %d is gone\n", c, ME.session);
	ME.done = SS(c, ME.session).done - behind;
	ME.link = GREETING;
	ME.session++;
	if
	:: ME.stage == SENT -> give_up()
	:: ME.stage == WRITING -> ME.ending = 1
	:: else
	fi;
	if
	:: ME.grant != 0 -> return_grant()
	:: else
	fi
}

/* begin_session, and sy_machine_notices_renumber: here the queue goes on. */
inline enter()
{
	printf("client %d: enters session %d\n", c, ME.session);
	ME.link = READY;
	SS(c, ME.session).done = ME.done;
	SS(c, ME.session).last = ME.queued;
	ME.done = 0
}

inline say_bye()
{
	printf("client %d: says bye\n", c);
	ME.link = CLOSED;
	ME.last = 0;
	ME.blob = 0;
	forget_put()
}

/* The kernel ends the process: it writes and reads no more. */
inline die()
{
	printf("client %d: dies\n", c);
	finish(0, 0);
	forget_late();
	forget_view();
	forget_grant();
	ME.link = DEAD;
	ME.done = 0;
	ME.last = 0;
	ME.blob = 0
}

#define IN_A_SLOT(guard, what) \
	:: d_step { (any_slot || (ME.last & 1)) && (guard) -> what(0) } \
	:: d_step { (any_slot || !(ME.last & 1)) && (guard) -> what(1) }

proctype Process(byte c)
{
end:	do
	IN_A_SLOT(MAY(c, PUTS) && MAY_ASK(2), new_put)
	IN_A_SLOT(MAY(c, PUTS) && MAY_ASK(2) && ME.retries, same_put)
	IN_A_SLOT(MAY(c, PUTS_INLINE) && MAY_ASK(1), new_put_inline)
	IN_A_SLOT(MAY(c, PUTS_INLINE) && MAY_ASK(1) && ME.retries, same_put_inline)
	IN_A_SLOT(MAY(c, RESOLVES) && MAY_ASK(1) && ME.view == 0, resolve)
	IN_A_SLOT(MAY(c, RELEASES) && MAY_ASK(1), release)
	IN_A_SLOT(MAY_ASK(0) && ME.generation != 0, commit)
	:: d_step { ME.stage == SENT && ME.reply != NO_REPLY -> take_reply() }
	:: d_step { MAY(c, GIVES_UP) && ME.stage == SENT -> give_up() }
	IN_A_SLOT(ME.stage == WRITING && !ME.ending && HAS_MORE, write_done)
	IN_A_SLOT(MAY(c, GRANTS) && ME.stage == WRITING && !ME.ending && HAS_MORE && ME.grant == 0,
	          write_done_asking)
	:: d_step { ME.stage == WRITING -> give_back() }
	:: d_step { ME.grant != 0 && ME.link == READY && ME.stage == IDLE && HAS_MORE &&
		HOLDS + 1 <= NOTICES -> ME.blob = 1 - ME.blob; put_granted() }
	:: d_step { ME.grant != 0 && ME.link == READY && ME.stage == IDLE && HAS_MORE &&
		HOLDS + 1 <= NOTICES && ME.retries -> put_granted() }
	:: d_step { ME.grant != 0 -> return_grant() }
	:: d_step { MAY(c, LATE_WRITES) && ME.stage == WRITING && ME.late == 0 -> write_unknown() }
	:: d_step { ME.late != 0 -> land() }
	:: d_step { ME.view != 0 -> drop_view() }
	/* by itself, or because the unit said NoSession */
	:: d_step { MAY(c, SOCKET_ENDS) && AT_STAKE(c) && ME.link == READY && HAS_SESSIONS ->
		leave(0) }
	:: d_step { MAY(c, SOCKET_ENDS) && AT_STAKE(c) && ME.link == READY && HAS_SESSIONS &&
		lag > 0 && SS(c, ME.session).done > 0 -> leave(1) }
	:: d_step { ME.link == GREETING && EXISTS(c, ME.session) -> enter() }
	:: d_step { ME.link == GREETING && HAS_SESSIONS && SS(c, ME.session).state >= GONE ->
		ME.session++ }
	:: d_step { MAY(c, SAYS_BYE) && AT_STAKE(c) && ME.link == READY && ME.stage == IDLE &&
		ME.view == 0 && ME.late == 0 && ME.grant == 0 -> say_bye() }
	:: d_step { MAY(c, DIES) && AT_STAKE(c) && ME.link != DEAD -> die() }
	od
}
