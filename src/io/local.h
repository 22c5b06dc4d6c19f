/* The local socket of a unit: where same-host clients get the slab's descriptor and are watched.
 *
 *   client connects -> unit checks the peer's uid and pid, and tells one that it refuses why ->
 *   unit sends sy_local_welcome with the slab's descriptor -> the client may join, which hands
 *   over the memory that control messages then go through (lane.h) -> it may send bye(last
 *   notice) -> either's end closes */
#ifndef SY_LOCAL_H
#define SY_LOCAL_H

#include <slabyard/status.h>

struct sy_local_welcome {
	uint32_t magic, version; /* of the protocol */
	uint32_t unit_id;
	uint32_t lanes; /* 1: control messages may come through shared memory; 0: by ZeroMQ alone */
	uint64_t incarnation, token, slab_bytes;
};

struct sy_local_server;

/* Binds path with mode 0600 (or 0660 and this group, if group is not -1). */
sy_status sy_local_server_open(const char *path, int group, struct sy_local_server **ret_server,
                               sy_error *err);
void sy_local_server_close(struct sy_local_server *server);
int sy_local_server_fd(const struct sy_local_server *server);
/* How many clients were not let in. */
uint64_t sy_local_server_refused(const struct sy_local_server *server);

/* One accepted and checked peer. pidfd becomes readable when its process is gone. */
struct sy_local_peer {
	int fd, pidfd;
	uint32_t pid;
};

/* False: none is waiting, or the one that was is not let in (counted). The caller owns both
 * descriptors of the peer. */
bool sy_local_server_accept(struct sy_local_server *server, struct sy_local_peer *ret_peer);
/* Ends the connection of the one that is waiting (counted). */
void sy_local_server_turn_away(struct sy_local_server *server);
/* Sends the welcome with the slab's descriptor. */
bool sy_local_peer_welcome(const struct sy_local_peer *peer,
                           const struct sy_local_welcome *welcome, int slab_fd);

enum sy_local_said { SY_LOCAL_NOTHING = 0, SY_LOCAL_JOIN, SY_LOCAL_BYE, SY_LOCAL_EOF };

/* What a join hands over. */
struct sy_local_lane {
	int lane_fd; /* memory: sy_lane_map */
	int bell_fd; /* memory: sy_bell_map; rung for the client */
	int door_fd; /* an eventfd that the client writes when it has written a message. The unit waits
	              * for it and never reads or writes it: it could be made to block there. */
};

/* What a peer said, if anything: of a bye the last notice, of a join three descriptors, the
 * caller's. Anything else is taken as its end. */
enum sy_local_said sy_local_peer_read(const struct sy_local_peer *peer, uint64_t *ret_last_notice,
                                      struct sy_local_lane *ret_lane);

/* The client's side: connects and waits for the welcome until the deadline. The descriptors are
 * the caller's; both close on exec, and sy_local_fork_close_all closes every ret_fd in a fork
 * child (this file registers it with pthread_atfork). SY_E_AUTH: this process is refused, and will
 * be again; SY_E_SYS, SY_E_TIMEOUT, SY_E_PROTOCOL. */
sy_status sy_local_connect(const char *path, uint64_t deadline_ns,
                           struct sy_local_welcome *ret_welcome, int *ret_fd, int *ret_slab_fd,
                           sy_error *err);
/* The descriptors stay the caller's. False: the socket has ended. */
bool sy_local_join(int fd, const struct sy_local_lane *lane);
void sy_local_bye(int fd, uint64_t last_notice);
/* An eventfd that sy_local_close closes, and a fork child does not keep. -1 and errno. */
int sy_local_door(void);
void sy_local_close(int fd);
/* Grows by one in every fork child: who was made under another number must not be used. */
uint32_t sy_local_fork_count(void);

#endif
