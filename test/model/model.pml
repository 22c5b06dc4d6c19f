/* slabyard in Promela: a unit of two regions, two clients of its host, the network between.
 *
 * test/model/run_model.py builds the verifier, runs it to its end and judges what it says.
 * client.pml mirrors src/client/machine*.c; session.pml, request.pml and unit.pml mirror src/core;
 * this file holds the state and the claims. Every move of a region goes through sy_move, which
 * print_arrows.c makes from src/core/states.h.
 *
 * Claimed, each where it could break (grep CLAIM):
 *   I1  a region is neither freed nor handed out while a write that has begun, or a read under a
 *       pin, may touch it; such a write or read finds the grant it was told of to its end
 *   I4  a request runs at most once, and has no effect after a later one of the same client ran:
 *       what a caller gave up and went on from stays undone
 *   I5  only a live session's requests run; what is published holds the bytes that were written
 *       under that very grant, so that a commit of an older generation publishes nothing
 *   I8  a release clears nothing that was accepted after it; a resolve finds what was accepted
 *       last, which after an acknowledged release is nothing unless a commit came later
 *   TABLE  every move is one of the core's table
 *
 * The network. A request stays deliverable, so it may be lost (delivered never), late, doubled
 * without bound and passed by any other; it goes only when the unit would refuse it whenever it
 * came (sweep). A reply stays readable until its client goes on, and may come never. A notice may
 * arrive as soon as it is queued, as with a heartbeat, and every later request brings it along
 * and runs it first: it is this that I4 rests on (mutant BRINGS_OLDEST), which is why the machine
 * holds requests back when a message has no room for all notices (machine_send.c: pick).
 *
 * Left out, and why that hides nothing of the claims:
 *   time            is choice: a client may give a request up at any moment, resends are copies,
 *                   and `until_ns` only refuses some commits that run here
 *   other hosts     leases, the grace, pins that expire, QUARANTINED: all depend on time; the
 *                   simulator (test/sim) has them. A lease's end is a socket's end here, and the
 *                   fence is modelled: from then on nothing that was posted lands
 *   parking         a parked request is one not yet delivered, and is forgotten exactly where its
 *                   slot would refuse that one
 *   loose pins      (pin.c) one that was given back holds on for some steps: as if its notice had
 *                   come later, but for the slot, which gives up at once here as well
 *   the disk tier   its moves are not in sy_move
 *   batches         one row, one field; what holds between rows (I2) is the simulator's
 *   a unit's death  another incarnation knows no session and no name of this one
 *   hello           each client begins in its first session; later ones are modelled. A session
 *                   is named by its connection's count: a token's hello is refused once its
 *                   socket has ended, so that a count has one session at most
 *   generations     are made of the number of the alloc, which runs once (I4), and not counted
 *   full tables     only regions run out; every other refusal is like that one
 *   the write due   the answer to an alloc begins the write and its end sends the commit: a
 *                   session that ends in between queues the same abort
 *   grants          sizes, how many a client keeps, when a unit gives none; one of a client on
 *                   another host, whose fence is like that of any region it has
 *   close           with nothing under way, to which the hub sees
 *   an idle client  neither ends nor takes another session while nothing of it is out, held or
 *                   queued: nobody could tell
 * Bounded are the requests and sessions a client has, and the notices it has open at a time: see
 * SCOPES in run_model.py.
 *
 * A state is bit fields, and what can matter no more is zero in it, so that pasts with the same
 * future are one state. Arrays are as large as REQUESTS, SESSIONS and NOTICES say; the rest of
 * the bounds, and the mutant, the verifier takes from its environment. */

#ifndef REQUESTS
#define REQUESTS 4
#endif
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef NOTICES
#define NOTICES 3
#endif
#define CLIENTS 2
#define REGIONS 2

/* Bounds of a run: how many requests and sessions each client has, and, as bits, what each may do
 * and what may befall it. */
#define PUTS 1
#define PUTS_INLINE 2
#define RESOLVES 4
#define RELEASES 8
#define GIVES_UP 16          /* a request, or a write that took too long */
#define LATE_WRITES 32
#define SOCKET_ENDS 64
#define SAYS_BYE 128
#define DIES 256
#define REMOTE 512           /* of another host: its ended sessions are fenced */
#define GRANTS 1024          /* its commits may ask for a region for the next put */
hidden byte requests_0, requests_1, sessions_0, sessions_1;
hidden short may_0, may_1;
hidden byte any_slot;        /* a request takes either slot; otherwise they take turns */
hidden byte lag;             /* how many notices the last acknowledgement may be behind */
#define REQUESTS_OF(c) (c == 0 -> requests_0 : requests_1)
#define SESSIONS_OF(c) (c == 0 -> sessions_0 : sessions_1)
#define MAY(c, what) (((c == 0 -> may_0 : may_1) & what) != 0)

/* A mutant takes one rule away; the search must find what that rule is for. */
hidden byte mutant;
#define FREES_IN_FLIGHT 1    /* an abort frees a region whose write is in flight */
#define NO_GENERATION 2      /* a commit's generation is not looked at */
#define NO_SLOT 3            /* a request runs whatever its slot has seen */
#define NO_SESSION_CHECK 4   /* requests of ended sessions run */
#define NO_GIVE_UP 5         /* notices leave their slot's number as it is */
#define CLEARS_LATER 6       /* a release clears what was accepted after it, too */
#define ANSWERS_EARLY 7      /* a release is acknowledged before it is done */
#define FORGETS_PINS 8       /* the last entry gone frees a pinned region */
#define SOCKET_FREES 9       /* a socket's end frees reservations */
#define BRINGS_OLDEST 10     /* a request brings not all notices queued before it */
#define LATE_IS_OVER 11      /* a client takes a write in flight for a finished one */
#define RESOLVES_TWICE 12    /* a resolve given up is sent again under its seq */
#define FREES_UNFENCED 13    /* regions of an ended session are free before its fence is done */
#define USES_GRANT_TWICE 14  /* a client writes a second put to the region of the first */
#define KEEPS_ABORTED_GRANT 15 /* an abort leaves a grant where it is */

/* Zero, but where the runner sets a claim aside; they name it in the verifier's message. */
hidden byte I1, I4, I5, I8, TABLE;
#define CLAIM(name, e) assert(name || (e))

c_decl {
	extern int atexit(void (*)(void));
	extern char *getenv(const char *);
	extern int atoi(const char *);
	static struct { const char *name; unsigned long count; } sy_seen[64];
	static unsigned long *sy_count_of(const char *name)
	{
		int i = 0;
		while (sy_seen[i].name && strcmp(sy_seen[i].name, name) != 0)
			i++;
		sy_seen[i].name = name;
		return &sy_seen[i].count;
	}
}
/* Counts how often the search came by: the runner wants to have been everywhere. */
#define SEEN(what) c_code { \
	static unsigned long *sy_at; \
	if (!sy_at) sy_at = sy_count_of(#what); \
	++*sy_at; };

#include "arrows.pml"

c_code {
	static void sy_print_counts(void)
	{
		for (int i = 0; i < SY_ARROW_COUNT; i++)
			printf("arrow %s %lu\n", sy_arrow_names[i], sy_arrow_taken[i]);
		for (int i = 0; sy_seen[i].name; i++)
			printf("seen %s %lu\n", sy_seen[i].name, sy_seen[i].count);
	}
	static int sy_option(const char *name)
	{
		const char *value = getenv(name);
		if (!value) {
			printf("no %s in the environment\n", name);
			exit(2);
		}
		return atoi(value);
	}
}

/* Requests, by client and number. The number grows over slots and sessions: a slot's seq, of
 * which only the order counts, and with the client a name. */
#define NO_OP 0
#define ALLOC 1
#define COMMIT 2
#define PUT_INLINE 3
#define RESOLVE 4
#define RELEASE 5
typedef Request {
	unsigned op : 3;         /* NO_OP: no copy of it that would run is under way */
	unsigned slot : 1;
	unsigned session : 2;
	unsigned told : 3;       /* the notices it brings: all up to this one */
	unsigned blob : 1;
	unsigned generation : 4;
	unsigned wants : 1;      /* a commit that asks for a grant */
	unsigned grant : 3;      /* a commit of what was written to the grant of this request */
	/* at the unit */
	unsigned pin : 2;        /* its resolve holds region pin - 1 */
	unsigned works : 1;      /* its release is accepted and not yet done */
	unsigned heard : 1;      /* ... and its slot waits for the answer */
	unsigned older : 2;      /* ... regions, as bits, whose entry was accepted before it */
};
Request request[CLIENTS * REQUESTS];
#define ID(c, m) ((c) * REQUESTS + (m) - 1)
#define RQ(c, m) request[ID(c, m)]

#define ABORT 1              /* not in flight */
#define ABORT_IN_FLIGHT 2
#define UNPIN 3
#define DRAINED 4
typedef Notice {
	unsigned kind : 3;
	unsigned name : 3;       /* the request it names, and that one's slot */
	unsigned slot : 1;
};
/* What each client has queued, over all its sessions: a new one goes on in it. */
Notice notice[CLIENTS * NOTICES];
#define NT(c, i) notice[(c) * NOTICES + (i) - 1]

/* Replies. */
#define NO_REPLY 0
#define REGION 1
#define PUBLISHED 2
#define REFUSED 3
#define FOUND 4
#define ABSENT 5
#define CLEARED 6

#define READY 0
#define GREETING 1           /* its session is gone; hello is out */
#define CLOSED 2             /* it said bye */
#define DEAD 3               /* its process is gone */

#define IDLE 0
#define SENT 1               /* a request is out */
#define WRITING 2
typedef Client {
	unsigned link : 2;
	unsigned session : 2;    /* its connection's count */
	unsigned last : 3;       /* number of its last request */
	unsigned queued : 3;     /* notices open */
	unsigned done : 3;       /* GREETING: those of them known to be executed */
	unsigned stage : 2;
	unsigned op : 3;         /* SENT */
	unsigned slot : 1;
	unsigned reply : 3;      /* SENT: what the unit answered, for region `at` */
	unsigned at : 1;
	unsigned reply_generation : 4;
	unsigned ending : 1;     /* WRITING: its session has ended under it */
	unsigned cut : 1;        /* its session is fenced: no byte lands, and it is not told */
	/* the put under way; name 0: it has no reservation that it knows of */
	unsigned name : 3;
	unsigned name_slot : 1;
	unsigned region : 1;
	unsigned generation : 4; /* IDLE: of a put of unknown fate, which may be asked for */
	unsigned blob : 1;       /* id of its last put, one of two */
	unsigned retries : 1;    /* that one failed: the next may be the same blob again */
	unsigned granted : 1;    /* its region is a grant */
	unsigned wants : 1;      /* its commit asks for one */
	/* a grant for the next put; 0: none */
	unsigned grant : 3;
	unsigned grant_slot : 1;
	unsigned grant_region : 1;
	/* a write that was posted and not seen done */
	unsigned late : 3;
	unsigned late_region : 1;
	unsigned late_generation : 4;
	unsigned late_cut : 1;
	/* a pin it reads under */
	unsigned view : 3;
	unsigned view_slot : 1;
	unsigned view_region : 1;
	unsigned view_generation : 4;
};
Client client[CLIENTS];
#define ME client[c]

/* A blob has one region for as long as it lives: they are one record. */
typedef Region {
	unsigned state : 4;
	unsigned owner : 1;
	unsigned session : 2;    /* with name: the alloc that reserved it; 0 once published */
	unsigned name : 3;
	unsigned generation : 4;
	unsigned blob : 1;
	unsigned pins : 3;
	unsigned written : 1;    /* the bytes of this grant are all there */
	unsigned early : 1;      /* ALLOCATED or RETIRED for a put that is still to come */
};
Region region[REGIONS];

#define NONE 0               /* no hello came */
#define LIVE 1
#define RETIRING 2           /* its reservations become RETIRED, one after the other */
#define ENDED 3              /* it keeps its pins and retired regions */
#define FREEING 4            /* all it holds is given back, one after the other */
#define GONE 5
#define REFUSED_TOKEN 6      /* its socket ended before its hello came */
typedef Session {
	unsigned state : 3;
	unsigned done : 3;       /* notices executed */
	unsigned last : 3;       /* notices it may be told of: queued while the client was in it */
	unsigned bye : 1;        /* a bye came before the last notices */
};
Session session[CLIENTS * SESSIONS];
#define SS(c, s) session[(c) * SESSIONS + (s) - 1]
#define EXISTS(c, s) (SS(c, s).state >= LIVE && SS(c, s).state <= FREEING)

/* The last number that each slot of a client's live session has seen. */
typedef Slots {
	unsigned seq0 : 3;
	unsigned seq1 : 3;
};
Slots slots[CLIENTS];
#define SEQ(c, slot) (slot == 0 -> slots[c].seq0 : slots[c].seq1)

/* What a resolve has to find, by the order in which commits and releases were accepted: region
 * truth - 1, or nothing. No part of the unit. */
unsigned truth : 2;

/* Scratch of one step, no part of a state. */
hidden byte i, j, k, r, o, in, its, all, named, loop, late;

#define WRITES(c, r) ((client[c].stage == WRITING && client[c].region == r && !client[c].cut) || \
                      (client[c].late != 0 && client[c].late_region == r && !client[c].late_cut))
#define READS(c, r) (client[c].view != 0 && client[c].view_region == r)
#define TOUCHED(r) (WRITES(0, r) || WRITES(1, r) || READS(0, r) || READS(1, r))
#define HELD(r, g) (region[r].generation == g && \
                    (region[r].state == SY_BLOB_ALLOCATED || region[r].state == SY_BLOB_RETIRED))
#define SHOWN(r, g) (region[r].generation == g && region[r].written && \
                     (region[r].state == SY_BLOB_PUBLISHED || region[r].state == SY_BLOB_RELEASED))

#include "session.pml"
#include "request.pml"
#include "unit.pml"
#include "client.pml"

init {
	c_code {
		atexit(sy_print_counts);
		requests_0 = sy_option("REQUESTS_0");
		requests_1 = sy_option("REQUESTS_1");
		sessions_0 = sy_option("SESSIONS_0");
		sessions_1 = sy_option("SESSIONS_1");
		may_0 = sy_option("MAY_0");
		may_1 = sy_option("MAY_1");
		any_slot = sy_option("ANY_SLOT");
		lag = sy_option("LAG");
		mutant = sy_option("MUTANT");
		arrow_missing = sy_option("ARROW_MISSING");
		/* A claim that is set aside holds by itself. */
		I1 = sy_option("ASIDE_I1");
		I4 = sy_option("ASIDE_I4");
		I5 = sy_option("ASIDE_I5");
		I8 = sy_option("ASIDE_I8");
	};
	assert(requests_0 <= REQUESTS && requests_1 <= REQUESTS);
	assert(sessions_0 <= SESSIONS && sessions_1 <= SESSIONS);
	d_step {
		client[0].session = 1;
		client[1].session = 1;
		SS(0, 1).state = LIVE;
		SS(1, 1).state = LIVE
	};
	atomic { run Unit(); run Process(0); run Process(1) }
}
