/* How a client and a unit wake each other over a lane: ring.c, lane.c, bell.c, daemon_attend.c,
 * link.c. Every access of shared memory is a step of its own, in one order for all (the code has
 * them sequentially consistent).
 *
 * The claim is the end: the client has its answers, and the unit sleeps. A wake-up that is missed
 * is a state in which both sleep before. MUTANT leaves out one look each. */

#ifndef MUTANT
#define MUTANT 0
#endif
#define NO_LOOK_AFTER 1   /* the unit looks no more at the ring once it attends nobody */
#define NO_ROOM_AFTER 2   /* nor at the room for what waits */
#define NO_STALL_LOOK 3   /* a writer looks no more for room once it has said that it waits */
#define NO_WORD_LOOK 4    /* the client sleeps on the bell's word as it is, not as it was */
#define NO_ROOM_DOOR 5    /* the client tells nobody that it made room */

#define MESSAGES 4
#define PARTS 3 /* of each reply: one is more than the ring takes */
#define ROOM 2  /* parts, or requests, that a ring takes */

byte requests, replies;                /* in the rings */
bool requests_stalled, replies_stalled; /* their writers wait for room */
bool attended, door;                   /* door: what epoll will report once */
byte word;                             /* of the bell; too many moves for it to come round */
bool sleeping;

/* sy_ring_write: `waiting` messages go while there is room; then the writer says that it waits. */
inline write_all(ring, stalled, waiting, due)
{
	do
	:: waiting == 0 -> break
	:: waiting > 0 ->
		if
		:: atomic { ring < ROOM -> ring++; waiting--; due = true }
		:: ring == ROOM ->
			stalled = true;
			if
			:: MUTANT == NO_STALL_LOOK -> break
			:: MUTANT != NO_STALL_LOOK ->
				if
				:: ring < ROOM -> skip
				:: ring == ROOM -> break
				fi
			fi
		fi
	od
}

/* move_tail: the reader makes room, then looks whether somebody waits for it. */
inline take_one(ring, stalled, due)
{
	ring--;
	if
	:: atomic { stalled -> stalled = false; due = true }
	:: !stalled -> skip
	fi
}

active proctype client()
{
	byte left = MESSAGES, got = 0, seen;
	bool due = false;

	do
	:: seen = word;
		write_all(requests, requests_stalled, left, due);
		/* wake_unit, and again for room that was made */
		if
		:: due -> due = false; if :: attended -> skip :: !attended -> door = true fi
		:: !due -> skip
		fi;
		do
		:: replies > 0 -> take_one(replies, replies_stalled, due); got++
		:: replies == 0 -> break
		od;
		if
		:: due && MUTANT != NO_ROOM_DOOR ->
			due = false; if :: attended -> skip :: !attended -> door = true fi
		:: else -> due = false
		fi;
		if
		:: got == MESSAGES * PARTS -> break
		:: got < MESSAGES * PARTS ->
			sleeping = true;
			if
			:: MUTANT == NO_WORD_LOOK -> seen = word
			:: MUTANT != NO_WORD_LOOK -> skip
			fi;
			/* The futex compares once more; a wake-up that moved nothing ends it, too. */
			(word != seen);
			sleeping = false
		fi
	od
}

active proctype unit()
{
	byte waiting = 0, heard, i;
	bool due = false, work, in_list = false;

end_sleep:
	do
	:: door -> door = false; /* edge-triggered: reported once */
serve:
		heard = 0;
		write_all(replies, replies_stalled, waiting, due);
		do
		:: waiting == 0 && requests > 0 ->
			take_one(requests, requests_stalled, due);
			heard++;
			waiting = waiting + PARTS;
			write_all(replies, replies_stalled, waiting, due)
		:: waiting > 0 || requests == 0 -> break
		od;
		if
		:: due -> due = false; word++
		:: !due -> skip
		fi;
		if
		:: heard > 0 && !in_list -> in_list = true; attended = true
		:: else -> skip
		fi;
		/* sy_daemon_spin, as long as it likes */
		do
		:: !in_list -> break
		:: in_list && waiting == 0 && requests > 0 -> goto serve
		:: in_list ->
			attended = false;
			in_list = false;
			work = (requests > 0 && MUTANT != NO_LOOK_AFTER) ||
			       (waiting > 0 && MUTANT != NO_ROOM_AFTER);
			if
			:: work -> goto serve
			:: !work -> break
			fi
		od
	od
}
