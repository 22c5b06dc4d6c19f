/* One run of the simulator: units, clients, the network between them, and the shadow that knows
 * what each of them may see.
 *
 * One process, one thread, one seeded generator, virtual time: an event after the other from a
 * heap. Units are the shipped serve and core over an arena and a slab in memory; clients are the
 * shipped protocol machines. Whatever happens goes into the history, whose hash tells two runs
 * apart; the checkers look on and name the invariant that broke. */
#ifndef SIM_H
#define SIM_H

#include "lease.h"
#include "machine.h"
#include "registry.h"
#include "serve.h"
#include "sim_config.h"
#include "sim_count.h"
#include "sim_history.h"
#include "sim_shadow.h"

struct sim;
struct sim_client;
struct sim_life;

enum sim_event_kind {
	SIM_TO_UNIT = 1,   /* a message arrives at a unit's address */
	SIM_TO_CLIENT,     /* a reply arrives at a client's connection */
	SIM_UNIT_TICK,
	SIM_UNIT_CONTINUE,
	SIM_UNIT_GREET,    /* a client connects to the local socket */
	SIM_UNIT_PEER,     /* its bye, its end, or the end of its process */
	SIM_UNIT_FENCED,
	SIM_LINK_WELCOME,  /* the unit's answer to a connect */
	SIM_LINK_FAILED,   /* there was nobody, or the connection broke */
	SIM_LINK_TICK,
	SIM_TASK,          /* a client's task goes on by itself: next operation, next piece */
	SIM_LAND,          /* a piece of a transfer that the network still had */
	SIM_FLUSHED,       /* nothing of an endpoint that was closed by force touches its client */
	SIM_DEADLINE,      /* an operation should have ended by now */
	SIM_WORLD,         /* turn of the world: processes, clocks, arenas */
	SIM_LOOK,          /* the checkers look at what stands for how long */
	SIM_STRANGER,
	SIM_RESUME,        /* a stopped process goes on */
	SIM_BURY,          /* the exit of a unit reaches the directory */
	SIM_DISK,          /* a disk operation goes on */
	SIM_UNIT_DISK,     /* ... and its end reaches the unit */
	SIM_UNIT_RENEW,    /* it is time to renew the lease */
	SIM_UNIT_RENEWED,  /* the directory's answer to that */
	SIM_TO_DIRECTORY,  /* a renewal */
	SIM_DIRECTORY_TICK,
	SIM_DIRECTORY_GOES_ON,
};

/* Who it is for is given by index and by number, so that it dies with a life it was meant for. */
struct sim_event {
	uint64_t at_ns, order;
	enum sim_event_kind kind;
	uint32_t who;      /* unit slot or client */
	uint32_t slot;     /* of a client: which link */
	uint64_t life;     /* of a unit or client; 0: whoever is there */
	uint64_t number;   /* connection, token, session, task: by kind */
	uint64_t extra;
	uint64_t other;    /* of a welcome: the unit's life */
	uint8_t *bytes;
	size_t bytes_count;
};

struct sim_events {
	struct sim_event *items;
	size_t count, capacity;
};

/* A connection between a link and a unit's address; its number is the route. */
struct sim_connection {
	uint64_t client_life;
	uint32_t client, slot, space;
	bool local;
	uint64_t arrived_ns; /* the newest delivery, for order within it */
};

/* The local socket as a unit sees it. */
struct sim_peer {
	uint64_t token, client_life, connection;
	uint32_t client;
	bool lives;   /* its token may still make sessions */
	bool watched; /* its process is watched */
};

/* A disk operation under way. */
struct sim_disk_op {
	bool used, over;
	bool fails, full, torn;  /* what will be said of it; torn: it leaves out some and says ok */
	bool bad, left_out;
	uint64_t number;
	uint64_t first, count, done; /* blocks */
	struct sy_disk_job job;
};

enum { SIM_DISK_OPS_MAX = 40 };

/* One start of a unit. */
struct sim_life {
	struct sim *sim;
	uint32_t slot;
	uint64_t number;      /* counts all starts, from 1 */
	uint64_t incarnation;
	bool alive, stopped, buried, buried_by_lease;
	struct sy_lease lease;
	uint64_t cut_until_ns;   /* from the directory */
	uint8_t *arena, *slab;
	size_t arena_bytes;
	struct sy_serve *serve;
	struct sim_events inbox; /* of a stopped one */
	uint64_t turn_ns, tick_ns, steps;
	uint64_t disturbed_ns;   /* last stop, hold or jump */
	bool continues;          /* SIM_UNIT_CONTINUE is on its way */
	struct sim_peer *peers;
	size_t peer_count;
	uint8_t *disk, *disk_hurt; /* hurt: a byte a block; what is read there may be anything */
	struct sim_disk_op disk_ops[SIM_DISK_OPS_MAX];
	/* The generation whose write or read is being told as failed, and blobs lost so far. */
	uint64_t disk_failed, disk_read, lost_blobs;
	struct sim_shadow *shadow;
};

/* The directory's process, and what it wrote. */
struct sim_directory {
	struct sy_registry *registry; /* NULL: its process is gone */
	struct sy_unit_info stored[SIM_UNITS_MAX];
	uint64_t stored_epoch;
	enum sy_unit_state shown[SIM_UNITS_MAX]; /* as last noted */
	uint64_t silent_since_ns, silent_until_ns;
	uint64_t tick_ns;
	struct sim_events inbox; /* of a stopped one */
};

/* A client's registered memory. */
struct sim_buffer {
	struct sy_buffer account; /* the first: the pool knows it alone */
	uint8_t *bytes;
	struct sim_buffer *next;
};

/* Memory of a client's program, which transfers use directly while it is registered. */
struct sim_memory {
	struct sy_memory account; /* the first: the accounts know it alone */
	struct sim_buffer buffer; /* what lies there */
	uint64_t addr;
	bool registered;
	uint64_t times; /* that it was deregistered */
	uint32_t users; /* tasks whose transfer runs */
	bool kept;      /* what lies there is of worth: no read was left since it was taken last */
};

enum { SIM_OWN_MAX = 2 };

struct sim_unit {
	struct sim_life *life;      /* the newest; NULL never after the start */
	struct sim_events limbo;    /* what was sent to a dead one and waits for the next */
};

/* One range of a read. */
struct sim_range {
	uint64_t offset, nbytes, generation;
	const struct sim_put *put;
	const struct sim_value *value;
};

enum sim_task_state {
	SIM_TASK_IDLE = 0,
	SIM_TASK_RUNNING,  /* the machine has the operation */
	SIM_TASK_WRITING,  /* the machine waits for the copy */
	SIM_TASK_READING,
	SIM_TASK_VIEWING,  /* a view is held open, to be read at the end again */
	SIM_TASK_CHECKING, /* a pin_check decides if what was read counts */
};

/* What a client does at a time: one operation and what follows from it. */
struct sim_task {
	enum sim_task_state state;
	struct sy_machine_op op, check;
	uint64_t number;          /* of the operation, unique in the run */
	uint64_t begun_ns;
	uint64_t mutating_session; /* in which it sent something that changes the unit */
	uint32_t slot;            /* of the unit it is about */
	bool cancelled, found_dead;
	struct sim_put *put;
	uint64_t rows[SIM_ROWS_MAX * SIM_FIELDS_MAX];
	struct sy_span fields[SIM_FIELDS_MAX];
	uint16_t field_of[SIM_ROWS_MAX * SIM_FIELDS_MAX];
	/* a copy under way */
	struct sim_life *life;
	struct sim_range *ranges;
	size_t range_count, range_at;
	uint64_t done_bytes;      /* of the write, or of ranges[range_at] */
	struct sim_buffer *buffer; /* a read from another host goes there; NULL: it looks on */
	uint64_t filled_bytes;    /* of the buffer, up to ranges[range_at] */
	struct sim_memory *memory; /* the buffer is there, or the write goes from there; NULL: none */
	struct sy_holds holds;
	bool posted;              /* a read: it has its buffer and its remote */
	bool pinned, stable;      /* what was read so far is as it should be */
	/* a scan of several requests: how often each key came, and what stood when it began */
	uint8_t (*scanned)[SIM_FIELDS_MAX];
	uint64_t scan_order, scan_life;
	uint32_t views_left;
};

struct sim_link {
	struct sy_machine *machine;
	uint64_t connection, token;
	struct sim_life *life;    /* whose slab is mapped; NULL: none */
	bool connecting;
	uint64_t tick_ns;
	uint64_t cut_until_ns;
	uint64_t disturbed_ns;    /* last message lost or late, last connection broken */
	uint64_t resolve_session, resolve_seq[SY_SLOT_COUNT]; /* resolves sent */
	struct sim_life *remote;  /* another host's: the slab that its transfers go to */
	uint64_t endpoint;        /* how many were closed by force before this one */
};

/* A transfer that was left behind: posted, not seen done. The network may still land it. */
struct sim_stray {
	uint64_t number;   /* counts all of them: events of one that is gone move no other */
	bool used, landed; /* landed: nothing of it moves any more, but its client was not told */
	bool never;        /* no piece of it moves */
	struct sy_grave grave;
	uint64_t endpoint;
	struct sim_memory *memory; /* it uses directly; NULL: none */
	uint64_t memory_times;
	bool told; /* its client, that it is in flight */
	/* a read; a write has a put */
	struct sim_buffer *buffer;
	struct sim_range *ranges;
	size_t range_count, range_at;
	uint64_t filled_bytes;
	struct sim_life *life;
	uint32_t client;
	uint64_t client_life;
	struct sy_request_id name;
	const struct sim_put *put;
	uint64_t offset, generation, done_bytes, stop_ns;
};

struct sim_client {
	struct sim *sim;
	uint32_t index;
	uint64_t life;            /* counts all starts, from 1 */
	bool alive, stopped, local, closing, said_bye;
	uint32_t space;           /* namespace */
	uint64_t offset_ns;       /* its host's clock against the world's */
	uint64_t running_since_ns, died_ns;
	struct sy_identity identity;
	struct sim_link links[SIM_UNITS_MAX];
	struct sim_task *tasks;
	struct sim_events inbox;
	struct sy_buffers buffers; /* of one on another host */
	struct sim_buffer *made;   /* all of them */
	struct sy_memories memories;
	struct sim_memory own[SIM_OWN_MAX];
};

enum { SIM_STRAYS_MAX = 256, SIM_CAUGHT_MAX = 32 };

struct sim {
	struct sim_config config;
	struct sy_prng prng;
	struct sim_events heap;
	uint64_t order;
	uint64_t true_ns;         /* when things happen */
	uint64_t shown_ns;        /* what clocks say: behind it while they are held */
	uint64_t held_until_ns;
	uint64_t smooth_since_ns; /* last hold's or jump's end */
	struct sim_directory directory;
	bool winding_down;        /* no more faults, no new operations */
	uint64_t life_count, client_life_count, put_count, op_count, stray_count;
	uint64_t steps;
	struct sim_unit units[SIM_UNITS_MAX];
	struct sy_serve_room *room; /* all units', as those of one process share theirs */
	struct sim_life **lives;  /* all of them, by number - 1 */
	struct sim_client clients[SIM_CLIENTS_MAX];
	struct sim_connection *connections; /* by number - 1 */
	size_t connection_count, connection_capacity;
	struct sim_puts puts;
	struct sim_stray strays[SIM_STRAYS_MAX];
	struct sim_events caught; /* messages a stranger overheard */
	uint64_t stranger_session[SIM_UNITS_MAX], stranger_life[SIM_UNITS_MAX];
	uint64_t stranger_seq, stranger_notice;
	struct sy_scratch scratch, peek_scratch;
	struct sim_history history;
	struct sim_counts counts;
	/* the verdict */
	int violated;             /* invariant; 0: none; -1: something else */
	char violation[256];
};

/* sim_run.c. Runs one seed to its end. The counts and the verdict are in *ret_sim, which is
 * given back by sim_done. */
void sim_run(struct sim *ret_sim, const struct sim_config *config, enum sim_trace trace);
void sim_done(struct sim *sim);

/* A checker's word: the first one counts and ends the run. -1: no invariant, but wrong. */
__attribute__((format(printf, 3, 4))) void sim_fail(struct sim *sim, int invariant,
                                                    const char *format, ...);
__attribute__((format(printf, 2, 3))) void sim_log(struct sim *sim, const char *format, ...);

uint64_t sim_draw(struct sim *sim, uint64_t bound); /* uniform in 0..bound-1 */
/* Does this fault happen now? Its rate is in 10,000. Counts it. */
bool sim_strikes(struct sim *sim, enum sim_fault fault);
void sim_count_fault(struct sim *sim, enum sim_fault fault);
/* A wait: mostly about `mean`, now and then much longer. */
uint64_t sim_wait(struct sim *sim, uint64_t mean_ns);

/* sim_event.c: the heap, and queues of processes that are stopped. */
void sim_at(struct sim *sim, uint64_t delay_ns, struct sim_event event);
bool sim_next(struct sim *sim, struct sim_event *ret_event);
void sim_events_push(struct sim_events *events, const struct sim_event *event);
void sim_events_free(struct sim_events *events);
/* Puts what waited into the heap again, for now, in its order. */
void sim_events_release(struct sim *sim, struct sim_events *events);

/* sim_net.c */
uint64_t sim_connect(struct sim *sim, uint32_t client, uint32_t slot);
void sim_net_to_unit(struct sim *sim, struct sim_link *link, uint32_t slot, const void *bytes,
                     size_t count);
void sim_net_to_client(struct sim *sim, uint64_t route, const void *bytes, size_t count);
void sim_net_arrive(struct sim *sim, struct sim_event *event);

/* sim_unit.c */
void sim_unit_start(struct sim *sim, uint32_t slot);
void sim_unit_event(struct sim *sim, struct sim_event *event);
void sim_unit_kill(struct sim *sim, uint32_t slot);
void sim_unit_stop(struct sim *sim, uint32_t slot, uint64_t length_ns);
void sim_unit_resume(struct sim_life *life);
/* Its process ends by itself. */
void sim_unit_end(struct sim_life *life);
/* After anything was given to a unit: looks, and sees to its timer and its work. */
void sim_unit_after(struct sim_life *life);
void sim_unit_free(struct sim_life *life);
struct sim_life *sim_life_of(struct sim *sim, uint64_t incarnation); /* NULL: none */

/* sim_directory.c */
void sim_directory_open(struct sim *sim);
void sim_directory_done(struct sim *sim);
void sim_directory_event(struct sim *sim, const struct sim_event *event);
/* What it says about an incarnation (0: whoever is in the slot) now. */
enum sy_directory_says sim_directory(struct sim *sim, uint32_t slot, uint64_t incarnation);
/* Would it take a new unit into the slot now? And registers it. */
bool sim_directory_takes(const struct sim *sim, uint32_t slot);
bool sim_directory_enter(struct sim_life *life);
/* The end of a unit's process is reported. */
void sim_directory_exited(struct sim *sim, const struct sim_event *event);
/* False: units are told directly. */
bool sim_directory_drain(struct sim_life *life, bool drain);
void sim_directory_silence(struct sim *sim, uint64_t length_ns);
void sim_directory_restart(struct sim *sim, uint64_t length_ns);
/* Time passed without it. */
void sim_directory_deaf(struct sim *sim, uint64_t gap_ns);
void sim_directory_go_on(struct sim *sim);
/* Of a unit: sends a renewal; got its answer. */
void sim_unit_renew(struct sim_life *life);
void sim_unit_renewed(struct sim_life *life, const struct sim_event *event);

/* sim_disk.c */
void sim_disk_run(void *context, const struct sy_disk_job *job);
void sim_disk_event(struct sim *sim, const struct sim_event *event);
void sim_disk_ended(struct sim_life *life, const struct sim_event *event);
void sim_disk_hurt(struct sim_life *life, uint64_t from, uint64_t bytes);
void sim_disk_heal(struct sim_life *life, uint64_t from, uint64_t bytes);
bool sim_disk_is_hurt(const struct sim_life *life, const struct sy_disk_job *job);

/* sim_arena.c */
void sim_arena_move(struct sim_life *life);
void sim_arena_rebuild(struct sim_life *life);

/* sim_client.c */
void sim_client_start(struct sim *sim, uint32_t index, bool local, uint32_t space);
void sim_client_start_drawn(struct sim *sim, uint32_t index);
void sim_client_event(struct sim *sim, struct sim_event *event);
void sim_client_kill(struct sim_client *client);
void sim_client_stop(struct sim_client *client, uint64_t length_ns);
void sim_client_resume(struct sim_client *client);
void sim_client_close(struct sim_client *client);
void sim_client_free(struct sim_client *client);
void sim_link_break(struct sim_client *client, uint32_t slot);
/* Runs the effects of a link's machine; after every call into it. */
void sim_link_pump(struct sim_client *client, uint32_t slot);
uint64_t sim_client_now(const struct sim_client *client);

/* sim_task.c: what a client does. */
void sim_task_next(struct sim_client *client, struct sim_task *task);
void sim_task_done(struct sim_client *client, struct sim_task *task);
void sim_task_checked(struct sim_client *client, struct sim_task *task);
/* Releases every row of a unit. */
void sim_task_sweep(struct sim_client *client, uint32_t slot);
void sim_task_idle(struct sim_client *client, struct sim_task *task);
void sim_task_check(struct sim_client *client, struct sim_task *task);
void sim_task_cancel(struct sim_client *client, struct sim_task *task);
void sim_task_later(struct sim_client *client, const struct sim_task *task, uint64_t delay_ns);
/* sim_ask.c: makes up the next operation. False: there is nothing to do. */
bool sim_ask(struct sim_client *client, struct sim_task *task, uint32_t slot);
void sim_ask_release_all(struct sim_client *client, struct sim_task *task);

/* sim_copy.c: the bytes of puts and reads, a piece at a time. */
void sim_copy_write(struct sim_client *client, struct sim_task *task);
void sim_copy_write_on(struct sim_client *client, struct sim_task *task);
/* Bytes of a put come to the slab; bytes of a range come to the reader's buffer, if it has one. */
void sim_copy_put_bytes(struct sim_life *life, const struct sim_put *put, uint64_t offset,
                        uint64_t generation, uint64_t from, uint64_t bytes);
void sim_copy_range_bytes(const struct sim_life *life, const struct sim_range *range,
                          uint64_t from, uint64_t bytes, struct sim_buffer *buffer,
                          uint64_t filled_bytes);
/* The next piece: a few lines, or all that is left. */
uint64_t sim_copy_piece(struct sim *sim, uint64_t left);
bool sim_copy_is_fenced(struct sim_life *life, uint64_t session);
void sim_copy_written(struct sim_client *client, struct sim_task *task, bool ok, bool in_flight);
void sim_copy_read(struct sim_client *client, struct sim_task *task);
void sim_copy_read_on(struct sim_client *client, struct sim_task *task);

/* sim_transfer.c: transfers that are left in flight, and the buffers they go to. */
/* Its client is gone or gave up: what was posted is on its own now. */
/* False: there is no place for it, and it ends proved. */
bool sim_transfer_leave_write(struct sim_client *client, struct sim_task *task);
bool sim_transfer_leave_read(struct sim_client *client, struct sim_task *task);
void sim_transfer_land(struct sim *sim, const struct sim_event *event);
void sim_transfer_fence(struct sim *sim, struct sim_life *life, uint64_t session);
/* The client closes the endpoint of a link by force, and takes a new one and a new session. */
void sim_transfer_close(struct sim_client *client, uint32_t slot);
void sim_transfer_flushed(struct sim_client *client, const struct sim_event *event);
/* A buffer for the task's ranges. */
enum sy_buffers_answer sim_transfer_buffer(struct sim_client *client, struct sim_task *task);
void sim_transfer_give(struct sim_client *client, struct sim_task *task);
/* Its process is gone, and so is the memory that reads would have come to. */
void sim_transfer_free(struct sim_client *client);

/* sim_memory.c: memory that is registered, for a transfer of so many bytes; lands: of a read. */
enum sim_memory_answer {
	SIM_MEMORY_NONE,     /* it goes another way */
	SIM_MEMORY_TAKEN,
	SIM_MEMORY_IN_DOUBT, /* an earlier read may still write there: it fails */
};
enum sim_memory_answer sim_memory_take(struct sim_client *client, struct sim_task *task,
                                       uint64_t nbytes, bool lands);
/* The task's transfer has ended, for the task. */
void sim_memory_give(struct sim_client *client, struct sim_task *task);
/* It is left in flight, with what it holds. */
void sim_memory_leave(struct sim_task *task, struct sim_stray *stray);
void sim_memory_free(struct sim_client *client);

/* sim_world.c: what happens to processes and clocks. */
void sim_world_turn(struct sim *sim);
void sim_world_wind_down(struct sim *sim);
/* sim_stranger.c */
void sim_stranger_turn(struct sim *sim);
void sim_stranger_heard(struct sim *sim, uint32_t slot, const void *bytes, size_t count);
void sim_stranger_reply(struct sim *sim, struct sim_life *life, const void *bytes, size_t count);

#endif
