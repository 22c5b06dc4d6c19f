/* Where a test build (-Dfailpoints=true) can kill, stop or hold a process: at every effect and
 * message of client and unit, and at every message and change of the directory. In every other
 * build these macros are nothing.
 *
 * A process whose environment names a control file (SLABYARD_FAILPOINTS) maps it and does what it
 * says at the nth hit of the point it names; see test/integration/kill_loop.c. */
#ifndef SY_FAILPOINTS_H
#define SY_FAILPOINTS_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, text, where): CLIENT_ stands in src/client, UNIT_ in src/unit, DIRECTORY_ in
 * src/directory, each in one place. */
#define SY_FAILPOINT_LIST(X) \
	X(CLIENT_UNITS_ASKED, "client_units_asked", "before it asks the directory for the units") \
	X(CLIENT_UNITS_TOLD, "client_units_told", "after") \
	X(CLIENT_EFFECT_CONNECT, "client_effect_connect", "before it connects to a unit") \
	X(CLIENT_WELCOMED, "client_welcomed", "it has the slab's descriptor, not yet mapped") \
	X(CLIENT_ATTACHED, "client_attached", "the slab is mapped, no channel for messages") \
	X(CLIENT_CONNECTED, "client_connected", "all of it is in place") \
	X(CLIENT_EFFECT_WRITE, "client_effect_write", "a region was granted, nothing is written") \
	X(CLIENT_WRITING, "client_writing", "a part of it is written") \
	X(CLIENT_WRITTEN, "client_written", "all is written, nobody was told") \
	X(CLIENT_READING, "client_reading", "in the middle of a copy out of the slab") \
	X(CLIENT_RINGING, "client_ringing", "messages lie in the ring, the unit's door was not rung") \
	X(CLIENT_EFFECT_DONE, "client_effect_done", "an operation has ended, its caller sleeps") \
	X(CLIENT_BYE, "client_bye", "all is given back, bye not yet said") \
	X(UNIT_EFFECT_STORE, "unit_effect_store", "before an inline blob goes into its region") \
	X(UNIT_STORED, "unit_stored", "after") \
	X(UNIT_EFFECT_KEEP, "unit_effect_keep", "before a message is kept") \
	X(UNIT_EFFECT_REDO, "unit_effect_redo", "before a kept message is queued again") \
	X(UNIT_EFFECT_DROP, "unit_effect_drop", "before a kept message is forgotten") \
	X(UNIT_EFFECT_PEER_DONE, "unit_effect_peer_done", "before a client is watched no more") \
	X(UNIT_EFFECT_DISK_WRITE, "unit_effect_disk_write", "before a blob's record is written") \
	X(UNIT_EFFECT_DISK_READ, "unit_effect_disk_read", "before one is read back") \
	X(UNIT_DISK_ASKED, "unit_disk_asked", "a request is made, the system was not asked") \
	X(UNIT_DISK_ANSWERED, "unit_disk_answered", "the system has done it, nobody was told") \
	X(UNIT_DISK_DONE, "unit_disk_done", "a disk operation is over, its blob not moved") \
	X(UNIT_RINGING, "unit_ringing", "replies lie in the ring, the client's bell was not rung") \
	X(UNIT_ACCEPTED, "unit_accepted", "a client has connected and was told nothing") \
	X(UNIT_WELCOMED, "unit_welcomed", "it was told all") \
	X(UNIT_BYE, "unit_bye", "bye was read") \
	X(UNIT_EOF, "unit_eof", "a client's socket ended without it") \
	X(UNIT_GONE, "unit_gone", "a client's process is gone") \
	X(UNIT_SLAB_NAMED, "unit_slab_named", "the slab's name is in the lock file, no slab yet") \
	X(UNIT_SLAB_MADE, "unit_slab_made", "the slab is there") \
	X(UNIT_REGISTERING, "unit_registering", "it listens; the directory does not know it") \
	X(UNIT_REGISTERED, "unit_registered", "the directory knows it; nobody was answered") \
	X(UNIT_LEAVING, "unit_leaving", "its sockets are closed; the directory was not told") \
	X(DIRECTORY_DEATH_TOLD, "directory_death_told", "told of a unit's end, nothing changed") \
	X(DIRECTORY_DEATH_KNOWN, "directory_death_known", "the unit is dead, not so on disk") \
	X(DIRECTORY_DEATH_STORED, "directory_death_stored", "it is so on disk") \
	X(DIRECTORY_STATE_WRITTEN, "directory_state_written", "a new file beside the old one") \
	X(DIRECTORY_STATE_MOVED, "directory_state_moved", "it is in its place, not synced")

/* X(name, text, where, places): the same for each op of proto.h. */
#define SY_FAILPOINT_OP_LIST(X) \
	X(CLIENT_EFFECT_SEND, "client_effect_send", "before a request is sent", 1) \
	X(CLIENT_SENT, "client_sent", "after", 1) \
	X(CLIENT_REPLY, "client_reply", "a reply was read and changed nothing so far", 2) \
	X(UNIT_GOT, "unit_got", "a request was read and changed nothing so far", 1) \
	X(UNIT_EFFECT_REPLY, "unit_effect_reply", "it was executed, the reply not sent", 1) \
	X(UNIT_REPLIED, "unit_replied", "the reply was sent", 1)

/* X(name, text, where, places): the same for each op of dir_message.h. */
#define SY_FAILPOINT_DIRECTORY_LIST(X) \
	X(DIRECTORY_GOT, "directory_got", "a request was read and changed nothing so far", 1) \
	X(DIRECTORY_EXECUTED, "directory_executed", "what it changes is not on disk", 1) \
	X(DIRECTORY_STORED, "directory_stored", "it is on disk, the reply not sent", 1)

/* X(name, text, where, places): the same for each kind of notice. */
#define SY_FAILPOINT_NOTICE_LIST(X) \
	X(CLIENT_NOTICE, "client_notice", "a message with it is being made", 1) \
	X(UNIT_NOTICE, "unit_notice", "a message with it was read, it was not executed", 1)

#ifdef SY_FAILPOINTS

/* One number a point; those of an op or a notice kind are its list's number plus that. */
enum { SY_FAILPOINT_KINDS = 16 };
enum sy_failpoint {
	SY_FAILPOINT_NONE,
#define SY_FAILPOINT_ENUM(name, ...) SY_FAILPOINT_##name,
	SY_FAILPOINT_LIST(SY_FAILPOINT_ENUM)
#undef SY_FAILPOINT_ENUM
	SY_FAILPOINT_BEFORE_KINDS = 1023,
#define SY_FAILPOINT_ENUM(name, ...) \
	SY_FAILPOINT_##name, SY_FAILPOINT_LAST_##name = SY_FAILPOINT_##name + SY_FAILPOINT_KINDS - 1,
	SY_FAILPOINT_OP_LIST(SY_FAILPOINT_ENUM)
	SY_FAILPOINT_DIRECTORY_LIST(SY_FAILPOINT_ENUM)
	SY_FAILPOINT_NOTICE_LIST(SY_FAILPOINT_ENUM)
#undef SY_FAILPOINT_ENUM
	SY_FAILPOINT_END
};

enum sy_failpoint_action {
	SY_FAILPOINT_KILL = 1, /* SIGKILL */
	SY_FAILPOINT_STOP,     /* SIGSTOP; whoever armed it sends SIGCONT */
	SY_FAILPOINT_DELAY,    /* this thread sleeps delay_ns */
	SY_FAILPOINT_WAIT,     /* this thread sleeps until `go`, 20 s at most */
};

/* In the place of a pid: whoever comes to the point now does nothing. */
#define SY_FAILPOINT_NOBODY UINT32_MAX

/* The control file. All but the first four are changed and read atomically. */
struct sy_failpoint_control {
	uint32_t point, nth; /* 1: the first hit after it was armed */
	uint32_t action;
	uint64_t delay_ns;
	uint32_t armed;      /* last set, first cleared */
	uint32_t hits;       /* of the armed point, by all processes of this file */
	uint32_t pid;        /* who was the nth and did it; 0: nobody yet; SY_FAILPOINT_NOBODY */
	uint32_t go;
};

/* src/io/failpoint.c. Thread-safe. */
void sy_failpoint_hit(uint32_t point);
/* True while the armed point waits for its nth hit. */
bool sy_failpoint_waits(void);
/* How long threads of this process slept at points so far. */
uint64_t sy_failpoint_held_ns(void);
/* "client_reply.commit"; NULL: no such point. Valid until the next call by this thread. */
const char *sy_failpoint_name(uint32_t point);

#define SY_FAILPOINT(name) sy_failpoint_hit(SY_FAILPOINT_##name)
#define SY_FAILPOINT_OP(name, op) sy_failpoint_hit(SY_FAILPOINT_##name + (uint32_t)(op))
#define SY_FAILPOINT_NOTICES(name, notices, count) \
	do { \
		for (uint32_t i_ = 0; i_ < (uint32_t)(count); i_++) \
			sy_failpoint_hit(SY_FAILPOINT_##name + (uint32_t)(notices)[i_].kind); \
	} while (0)
#else
#define SY_FAILPOINT(name) ((void)0)
#define SY_FAILPOINT_OP(name, op) ((void)0)
#define SY_FAILPOINT_NOTICES(name, notices, count) ((void)0)
#endif

#endif
