/* The directory as a server inside a loop of its owner's: answers over ZeroMQ, keeps the
 * registry on disk. One thread. */
#ifndef SY_DIR_SERVER_H
#define SY_DIR_SERVER_H

#include "control_keys.h"
#include "registry.h"

struct sy_dir_server;

/* What a process must be able to open to answer one client: its connection, and what accept.c
 * keeps free. */
enum { SY_DIR_CLIENT_FDS = 5 };

/* Binds the endpoints (ipc://path, tcp://127.0.0.1:PORT), goes on from the state at state_path,
 * or begins a new one of slot_count slots, and writes it before anything is answered. times: how
 * long units may be silent; NULL: they hold no leases, and their exits are reported below. keys:
 * as sy_control_server_open has them. Owned by the caller. SY_E_INVALID: the stored cluster has
 * another number of slots or other times, or the times do not rise; SY_E_PROTOCOL: the stored
 * state is damaged; SY_E_SYS: an endpoint is occupied, the disk, memory. */
sy_status sy_dir_server_open(const char *state_path, uint32_t slot_count,
                             const struct sy_dir_times *times, const char *const *endpoints,
                             size_t endpoint_count, const struct sy_control_keys *keys,
                             struct sy_dir_server **ret_server, sy_error *err);
/* The address of an endpoint as bound, with its port; borrowed. */
const char *sy_dir_server_endpoint(const struct sy_dir_server *server, size_t index);
/* Leaves the state's file. NULL is a no-op. */
void sy_dir_server_close(struct sy_dir_server *server);

/* Readable when sy_dir_server_step should be called. Edge-triggered, as control.h says. */
int sy_dir_server_fd(const struct sy_dir_server *server);
/* Answers what has come, a bounded number of requests, then looks at leases. True: more is
 * waiting, call it again before waiting on the descriptor. */
bool sy_dir_server_step(struct sy_dir_server *server);
/* By when to call it again though nothing came; UINT64_MAX: never. Who calls it much later stood
 * still, and no lease runs out by that. */
uint64_t sy_dir_server_deadline(const struct sy_dir_server *server);

/* Reports of this process, as registry.h has them. What cannot be stored is kept, and nothing
 * is answered until it is. */
void sy_dir_server_exited(struct sy_dir_server *server, uint32_t unit_id, uint64_t incarnation);
void sy_dir_server_process_exited(struct sy_dir_server *server, uint32_t unit_id, uint32_t pid);

const struct sy_registry *sy_dir_server_registry(const struct sy_dir_server *server);
const struct sy_dir_stats *sy_dir_server_stats(const struct sy_dir_server *server);

#endif
