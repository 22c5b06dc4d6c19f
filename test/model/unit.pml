/* The unit's events, one at a time: core.c. */

/* run_request */
inline deliver(c, m)
{
	its = RQ(c, m).session;
	if
	:: EXISTS(c, its) ->
		do
		:: SS(c, its).done < RQ(c, m).told ->
			SEEN(notice_rode_on_a_request)
			run_notice(c, its)
		:: else -> break
		od
	:: else
	fi;
	in = RQ(c, m).slot;
	if
	:: RQ(c, m).op != NO_OP && WOULD_RUN(c, m) -> run_in_slot(c, m)
	:: else -> SEEN(given_up_by_a_notice_it_brought)
	fi;
	sweep(c)
}

/* Each step of the unit: which event, of which client (c), and which request or session (n). */
#define DELIVER 1
#define WORK 2
#define HELLO 3
#define HEARTBEAT 4
#define SOCKET_END 5
#define BYE 6
#define PROCESS_GONE 7
#define WALK 8
#define FENCE 9

#define OUT(c, m) (m <= REQUESTS && RQ(c, (m <= REQUESTS -> m : 1)).op != NO_OP)
#define UNDONE(c, m) (m <= REQUESTS && RQ(c, (m <= REQUESTS -> m : 1)).works)
#define CAN_HELLO(c, s) (client[c].session >= s && SS(c, s).state == NONE && NO_NEWER(c, s))
#define CAN_HEAR(c, s) (EXISTS(c, s) && SS(c, s).done < SS(c, s).last)
/* Something of a client is out, held or queued. */
#define AT_STAKE(c) (client[c].stage != IDLE || client[c].view != 0 || client[c].late != 0 || \
                     client[c].queued > 0 || client[c].grant != 0 || \
                     OUT(c, 1) || OUT(c, 2) || OUT(c, 3) || OUT(c, 4) || OUT(c, 5) || OUT(c, 6))
#define CAN_END(c, s) (MAY(c, SOCKET_ENDS) && AT_STAKE(c) && client[c].session >= s && \
                       (SS(c, s).state == NONE || SS(c, s).state == LIVE))
#define CAN_BYE(c, s) (client[c].link == CLOSED && client[c].session == s && EXISTS(c, s) && \
                       SS(c, s).state != FREEING && !SS(c, s).bye)
#define CAN_GONE(c, s) (client[c].link == DEAD && client[c].session >= s && \
                        SS(c, s).state <= ENDED)
#define CAN_FENCE(c, s) (MAY(c, REMOTE) && SS(c, s).state == ENDED)
#define CAN_WALK(c, s) (SS(c, s).state == RETIRING || SS(c, s).state == FREEING)

#define OF_REQUEST(a, m) \
	:: OUT(a, m) -> event = DELIVER; c = a; n = m \
	:: UNDONE(a, m) -> event = WORK; c = a; n = m
#define OF_SESSION(a, s) \
	:: CAN_HELLO(a, s) -> event = HELLO; c = a; n = s \
	:: CAN_HEAR(a, s) -> event = HEARTBEAT; c = a; n = s \
	:: CAN_END(a, s) -> event = SOCKET_END; c = a; n = s \
	:: CAN_BYE(a, s) -> event = BYE; c = a; n = s \
	:: CAN_GONE(a, s) -> event = PROCESS_GONE; c = a; n = s \
	:: CAN_FENCE(a, s) -> event = FENCE; c = a; n = s \
	:: CAN_WALK(a, s) -> event = WALK; c = a; n = s

#define STEP(guard, what) :: d_step { (guard) -> what; event = 0; c = 0; n = 0 }

proctype Unit()
{
	byte event, c, n;
end:	do
	:: atomic {
		if
		OF_REQUEST(0, 1)
		OF_REQUEST(1, 1)
		OF_REQUEST(0, 2)
		OF_REQUEST(1, 2)
		OF_REQUEST(0, 3)
		OF_REQUEST(1, 3)
		OF_REQUEST(0, 4)
		OF_REQUEST(1, 4)
		OF_REQUEST(0, 5)
		OF_REQUEST(1, 5)
		OF_REQUEST(0, 6)
		OF_REQUEST(1, 6)
		OF_SESSION(0, 1)
		OF_SESSION(1, 1)
#if SESSIONS > 1
		OF_SESSION(0, 2)
		OF_SESSION(1, 2)
#endif
#if SESSIONS > 2
		OF_SESSION(0, 3)
		OF_SESSION(1, 3)
#endif
		fi;
		if
		STEP(event == DELIVER, deliver(c, n))
		STEP(event == WORK, work(c, n))
		STEP(event == HELLO, hello(c, n))
		STEP(event == HEARTBEAT, run_notice(c, n))
		STEP((event == SOCKET_END || event == PROCESS_GONE) && SS(c, n).state == NONE,
		     refuse_token(c, n))
		STEP(event == SOCKET_END && SS(c, n).state != NONE, end_session(c, n, RETIRING))
		STEP(event == PROCESS_GONE && SS(c, n).state != NONE, end_session(c, n, FREEING))
		STEP(event == BYE, take_bye(c, n))
		STEP(event == FENCE, fence(c, n))
		STEP(event == WALK && SS(c, n).state == RETIRING, retire_one(c, n))
		STEP(event == WALK && SS(c, n).state == FREEING, free_one(c, n))
		fi
	}
	od
}
