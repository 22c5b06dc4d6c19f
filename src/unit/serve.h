/* The pure part of the daemon: messages in, messages out, around the unit core.
 *
 * Decodes requests into events, copies and checks blob indexes before a commit, runs effects
 * that touch the slab, keeps parked messages, encodes replies. No socket, clock, thread or
 * file: the daemon (daemon.c) and the simulator hand it bytes and the time. */
#ifndef SY_SERVE_H
#define SY_SERVE_H

#include "core.h"
#include "message.h"
#include "tier_record.h"

/* What the shell around it does. Called during sy_serve_*; must not call back into it. */
struct sy_serve_io {
	void *context;
	/* Sends a reply over the route its request came by; lost if the route is gone. */
	void (*send)(void *context, uint64_t route, const void *message, size_t bytes);
	/* Asked right before each reply is sent, after all that made it: is this unit silent, for it
	 * may be dead by the directory? Then Busy(fenced) goes out in its place; what it answers has
	 * run. NULL where units hold no lease. */
	bool (*fenced)(void *context);
	/* The live local connection of this token? */
	bool (*token_lives)(void *context, uint64_t token);
	/* A session of another host begins (or asks again): where its transport connects to. NULL: it
	 * cannot be let in now. NULL where no transport tells. */
	const char *(*admit)(void *context, uint64_t session);
	bool allow_tcp; /* remote transports may use TCP: told in status */
	/* Stop session's remote writer, then sy_serve_fenced. NULL where no transport is remote. */
	void (*fence)(void *context, uint64_t session);
	/* Nothing of this local connection is left: stop watching its process. */
	void (*peer_done)(void *context, uint64_t token);
	/* Run this disk operation, then sy_serve_disk. The job is the caller's again afterwards. NULL
	 * where there is no disk tier. */
	void (*disk)(void *context, const struct sy_disk_job *job);
};

struct sy_serve;
struct sy_serve_room;

/* What a message needs while it is served, of as many units as one thread serves, in turns. NULL:
 * out of memory. */
struct sy_serve_room *sy_serve_room_new(void);
void sy_serve_room_free(struct sy_serve_room *room);

/* slab: params->slab_bytes long, mapped by the caller, as the clients write it. arena as for
 * sy_core_init. Both and the room outlive it. NULL if memory is short or a parameter is out of
 * range. */
struct sy_serve *sy_serve_new(void *arena, const struct sy_core_params *params, void *slab,
                              struct sy_serve_room *room, const struct sy_serve_io *io);
void sy_serve_free(struct sy_serve *serve);

void sy_serve_message(struct sy_serve *serve, uint64_t route, const void *message, size_t bytes,
                      uint64_t now_ns);
/* kind: SY_EVENT_PEER_BYE, _EOF or _GONE. */
void sy_serve_peer(struct sy_serve *serve, enum sy_event_kind kind, uint64_t token,
                   uint64_t last_notice, uint64_t now_ns);
void sy_serve_fenced(struct sy_serve *serve, uint64_t session, uint64_t now_ns);
void sy_serve_state(struct sy_serve *serve, enum sy_unit_state state, uint64_t now_ns);
void sy_serve_stalled(struct sy_serve *serve, uint64_t gap_ns, uint64_t now_ns);
/* A disk operation came to its end. full: there was no room on the disk. */
void sy_serve_disk(struct sy_serve *serve, uint32_t blob, uint64_t grant, uint8_t result,
                   uint64_t now_ns);
void sy_serve_tick(struct sy_serve *serve, uint64_t now_ns);

/* True while work goes on: call sy_serve_continue between messages until it is false. */
bool sy_serve_pending(const struct sy_serve *serve);
void sy_serve_continue(struct sy_serve *serve, uint64_t now_ns);
uint64_t sy_serve_deadline(const struct sy_serve *serve);

struct sy_core *sy_serve_core(struct sy_serve *serve); /* for status and for the checkers */
void sy_serve_stats(struct sy_serve *serve, struct sy_unit_stats *ret_stats);

#endif
