/* What daemon.c opens and daemon_loop.c turns around. */
#ifndef SY_DAEMON_STATE_H
#define SY_DAEMON_STATE_H

#include "control.h"
#include "daemon.h"
#include "dir_watch.h"
#include "disk.h"
#include "peers.h"
#include "runfiles.h"
#include "serve.h"
#include "ucx_target.h"
#include "spin.h"

/* Clients that a process attends at once: more make each look dearer than a wake-up of one. */
enum { SY_DAEMON_ATTENDED_MAX = 4 };

/* Descriptors that a new client takes at its welcome: socket, pidfd and connection (or door),
 * which stay; the other two of a join; and two for old clients that are just being closed. */
enum { SY_DAEMON_PEER_FDS = 3, SY_DAEMON_WELCOME_FDS = SY_DAEMON_PEER_FDS + 2 + 2 };

/* What the units of a process share: they are served in turns, by one thread. */
struct sy_daemon_loop {
	struct sy_daemon *daemons;
	/* Of each, when its next turn is to begin at the latest; 0: at once. Side by side, as all are
	 * looked at twice a turn, whoever it is about. */
	uint64_t *wakes_ns;
	uint32_t count;
	int epoll_fd, signal_fd;
	struct sy_daemon *touched; /* that have something to do in this turn */
	struct sy_spin spin, announced; /* the latter of waits for announced messages */
	bool expects; /* an attended client has announced one in this turn */
	struct {
		uint32_t unit, index; /* a peer whose lane is looked at by ourselves, and whose it is;
		                       * index 0: none in this place */
	} attended[SY_DAEMON_ATTENDED_MAX];
	struct sy_serve_room *room;
	bool stop;
	int status;           /* to exit with */
	_Alignas(64) uint8_t lane_copy[SY_RING_BYTES]; /* the message of a lane that is being served */
};

struct sy_daemon {
	struct sy_daemon_loop *loop;
	uint32_t number;      /* of this unit in the loop */
	struct sy_unit_config config;
	sy_incarnation incarnation;
	struct sy_run_dir run_dir;
	struct sy_run_unit run_unit;
	struct sy_slab slab;
	void *arena;
	uint64_t arena_bytes;
	struct sy_serve *serve;
	struct sy_disk *disk; /* NULL: none */
	struct sy_ucx_target *ucx; /* NULL: no other host reaches the slab */
	struct sy_control_server *control;
	struct sy_local_server *local;
	struct sy_peers peers;
	struct sy_dir_client *directory; /* NULL: none */
	struct sy_dir_watch *watch;
	bool registered;
	struct sy_lease lease;       /* if registered */
	bool was_fenced;             /* as it was told */

	uint64_t turn_ns;     /* when its last turn began */
	bool is_touched;
	struct sy_daemon *next_touched;
	bool hears;           /* the message that is being served came over ZeroMQ */
	bool control_due;     /* the ZeroMQ socket is to be looked at before the next sleep */
	uint32_t serving;     /* the peer whose message is being served; 0: none */
	uint64_t cut_said_ns; /* when a cut connection was last reported */
	uint32_t drain_left;  /* messages still to be heard before timers, after a stall */
};

/* One line on stderr. */
void sy_daemon_say(const struct sy_daemon *daemon, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What the serve of this daemon calls; context is the daemon. */
struct sy_serve_io sy_daemon_io(struct sy_daemon *daemon);

/* What an epoll event is about: a unit, a kind, and of a peer its index. */
enum sy_daemon_watched {
	SY_DAEMON_CONTROL,
	SY_DAEMON_LOCAL,
	SY_DAEMON_SIGNAL,
	SY_DAEMON_DIRECTORY,
	SY_DAEMON_PEER,
	SY_DAEMON_PID,
	SY_DAEMON_DOOR,
	SY_DAEMON_DISK,
	SY_DAEMON_UCX,
};
bool sy_daemon_watch(struct sy_daemon *daemon, int fd, enum sy_daemon_watched kind,
                     uint32_t index);

/* daemon_local.c: same-host clients, from their connection to their end. */
void sy_daemon_accept(struct sy_daemon *daemon);
/* True if the peer's socket has ended, now or before. */
bool sy_daemon_read_socket(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns);
void sy_daemon_end_process(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns);
/* Serves what its lane holds, a bounded number of messages. */
void sy_daemon_serve_lane(struct sy_daemon *daemon, uint32_t index);
/* The same of a client whose door was written: where nothing is in the ring, a message may follow
 * soon. (Or it was heard before its door.) */
void sy_daemon_hear_door(struct sy_daemon *daemon, uint32_t index);
/* daemon_attend.c: a client that has just written will do so again. Its lane is looked at by
 * ourselves until a short wait awake was in vain; so it need not wake us meanwhile. False: it is
 * not attended, as others are, or one CPU is all there is. */
bool sy_daemon_attend(struct sy_daemon *daemon, uint32_t index);
/* Serves what the attended lanes hold. */
void sy_daemon_look(struct sy_daemon_loop *loop);
/* To be called before a sleep: waits awake. True: messages came, and there is no sleep now. */
bool sy_daemon_spin(struct sy_daemon_loop *loop);
/* Looks again at the peers that had more, or are to be cut off. */
void sy_daemon_work(struct sy_daemon *daemon);
void sy_daemon_lane_send(struct sy_daemon *daemon, uint64_t route, const void *message,
                         size_t bytes);
bool sy_daemon_token_lives(void *daemon, uint64_t token);
void sy_daemon_peer_done(void *daemon, uint64_t token);

/* This unit takes part in the turn that is under way. */
void sy_daemon_touch(struct sy_daemon *daemon, uint64_t now_ns);

/* Adds what this unit has open to the epoll set. False and errno: the system refuses. */
bool sy_daemon_watch_all(struct sy_daemon *daemon);
/* Turns until `stop`. SY_E_SYS. */
sy_status sy_daemon_turn(struct sy_daemon_loop *loop, sy_error *err);

#endif
