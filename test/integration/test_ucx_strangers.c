/* Who reaches the address of a target and is none of its clients: he gets nothing, and disturbs
 * nobody. */
#include "ucx_rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "join.h"
#include "ucx_context.h"

static void test_another_session(void **state)
{
	struct rig rig;
	uint8_t byte = 1;
	bool in_flight = true;
	sy_error err = {0};

	(void)state;
	rig_start(&rig, 0);
	struct sy_ucx_peer *peer =
		sy_ucx_peer_new(rig.mover, rig.address, SESSION + 1, INCARNATION, SLAB_BYTES);
	assert_int_equal(move(peer, true, 0, &byte, 1, 5 * SECOND_NS, 0, &in_flight, &err),
	                 SY_E_TRANSFER);
	assert_false(in_flight);
	assert_int_equal(rig.slab[0], 0);
	must_move(rig.peer, true, 0, &byte, 1);
	sy_ucx_peer_free(peer);
	rig_stop(&rig);
}

/* What a stranger is told. */
struct heard {
	size_t bytes;
	bool lost;
	uint8_t data[sizeof(struct sy_join_answer) + 64];
};

static ucs_status_t hear(void *argument, const void *header, size_t header_bytes, void *data,
                         size_t bytes, const ucp_am_recv_param_t *param)
{
	struct heard *heard = argument;

	(void)header;
	(void)header_bytes;
	(void)param;
	heard->bytes = bytes;
	memcpy(heard->data, data, bytes < sizeof heard->data ? bytes : sizeof heard->data);
	return UCS_OK;
}

static void on_lost(void *argument, ucp_ep_h ep, ucs_status_t status)
{
	struct heard *heard = argument;

	(void)ep;
	(void)status;
	heard->lost = true;
}

/* Connects by UCX as anybody may, asks as one of ours would, and keeps what it is told. */
static void ask_as_stranger(const struct rig *rig, const struct sy_join_ask *ask,
                            struct heard *heard)
{
	uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS;
	const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER};
	const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_EP_CLOSE_FLAG_FORCE};
	struct sockaddr_storage at;
	socklen_t at_bytes;
	struct sy_ucx_context context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	int fd;

	assert_int_equal(sy_ucx_context_open(true, false, &context, NULL), SY_OK);
	assert_int_equal(sy_ucx_worker_new(&context, &worker, &fd, NULL), SY_OK);
	sy_ucx_worker_handle(&context, worker, SY_JOIN_ANSWER_ID, hear, heard);
	assert_true(sy_address_from_text(rig->address, &at, &at_bytes));
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
		              UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = {.addr = (const struct sockaddr *)&at, .addrlen = at_bytes},
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = on_lost, .arg = heard},
	};
	assert_int_equal(context.lib->ucp_ep_create(worker, &params, &ep), UCS_OK);
	void *asking = context.lib->ucp_am_send_nbx(ep, SY_JOIN_ASK_ID, ask, sizeof *ask, NULL, 0,
	                                            &eager);
	while ((heard->bytes == 0 && !heard->lost) ||
	       sy_ucx_request_take(&context, &asking) == UCS_INPROGRESS) {
		assert_true(sy_clock_now_ns() < end_ns);
		(void)sy_ucx_worker_progress(&context, worker);
	}
	void *closing = context.lib->ucp_ep_close_nbx(ep, &force);
	while (sy_ucx_request_take(&context, &closing) == UCS_INPROGRESS)
		(void)sy_ucx_worker_progress(&context, worker);
	context.lib->ucp_worker_destroy(worker);
	sy_ucx_context_close(&context);
}

/* The answer says back what was asked, and nothing else: no key, no place, no size, no name. */
static void test_a_stranger_is_told_nothing(void **state)
{
	const struct sy_join_ask ask = {.magic = SY_JOIN_MAGIC, .session = SESSION + 1, .number = 1};
	const struct sy_join_answer nothing = {.magic = SY_JOIN_MAGIC, .session = SESSION + 1,
	                                       .number = 1};
	struct heard heard = {0};
	struct rig rig;

	(void)state;
	rig_start(&rig, 0);
	ask_as_stranger(&rig, &ask, &heard);
	assert_int_equal(heard.bytes, sizeof nothing);
	assert_memory_equal(heard.data, &nothing, sizeof nothing);
	rig_stop(&rig);
}

/* Begins to connect to the target as from another host. */
static int connect_from(const struct rig *rig, const char *host)
{
	struct sockaddr_storage from, to;
	socklen_t from_bytes, to_bytes;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(sy_address_from_host(host, &from, &from_bytes));
	assert_true(sy_address_from_text(rig->address, &to, &to_bytes));
	assert_int_equal(bind(fd, (const struct sockaddr *)&from, from_bytes), 0);
	(void)connect(fd, (const struct sockaddr *)&to, to_bytes);
	return fd;
}

static int state_of(int fd)
{
	struct tcp_info info;
	socklen_t bytes = sizeof info;

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	return info.tcpi_state;
}

static void admit_from(const struct rig *rig, uint64_t session, const char *host)
{
	struct order order = {.word = WORD_ADMIT, .session = session};

	snprintf(order.host, sizeof order.host, "%s", host);
	assert_int_equal(write(rig->order_fd, &order, sizeof order), sizeof order);
	expect(rig, WORD_ADMIT, session);
}

/* What is sent to the port of UCX from hosts that no session came from does not even connect: the
 * same from where one did would end the target. A session from there opens it. */
static void test_another_host(void **state)
{
	static const uint8_t nonsense[64];
	struct rig rig;
	uint8_t byte = 1;

	(void)state;
	rig_start(&rig, 0);
	int fd = connect_from(&rig, "127.0.0.2");
	must_move(rig.peer, true, 0, &byte, 1);
	assert_int_equal(state_of(fd), TCP_SYN_SENT);
	assert_true(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL) < 0);
	for (int i = 3; i < 250; i++) { /* so many hosts may come to have one */
		char host[32];
		snprintf(host, sizeof host, "127.0.0.%d", i);
		admit_from(&rig, SESSION + 1, host);
	}
	must_move(rig.peer, false, 0, &byte, 1);
	assert_int_equal(state_of(fd), TCP_SYN_SENT);
	admit_from(&rig, SESSION + 2, "127.0.0.2");
	struct pollfd connected = {.fd = fd, .events = POLLOUT};
	assert_int_equal(poll(&connected, 1, WAIT_MS), 1); /* the system tries again by itself */
	assert_int_equal(state_of(fd), TCP_ESTABLISHED);
	close(fd);
	must_move(rig.peer, true, 0, &byte, 1);
	rig_stop(&rig);
}

/* A connection to a target of this very process, and the end of it that UCX took. */
static int newcomer = -1, taken = -1;
static __typeof__(ucp_worker_destroy) *destroy_worker;
static __typeof__(ucp_ep_create) *create_ep;
static struct rig within; /* its address alone */
static bool knocked;

/* -1: it is not taken yet, or is gone. */
static int find_taken(void)
{
	struct sockaddr_in mine, its;

	for (int fd = 3; fd < 256; fd++) {
		socklen_t mine_bytes = sizeof mine, its_bytes = sizeof its;
		if (getsockname(newcomer, (struct sockaddr *)&mine, &mine_bytes) == 0 &&
		    getpeername(fd, (struct sockaddr *)&its, &its_bytes) == 0 &&
		    its_bytes == sizeof its && its.sin_port == mine.sin_port)
			return fd;
	}
	return -1;
}

/* Says its first words when the listener is gone and the worker is not, and waits for UCX's own
 * thread to read them, if it does. */
static void speak_and_destroy_worker(ucp_worker_h worker)
{
	static const struct {
		size_t bytes;
		uint8_t status, words[64];
	} first = {.bytes = sizeof first - 16};
	uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS;
	int unread = 1;

	(void)send(newcomer, &first, sizeof first, MSG_NOSIGNAL);
	while (find_taken() == taken && ioctl(taken, FIONREAD, &unread) == 0 && unread > 0 &&
	       state_of(taken) == TCP_ESTABLISHED) {
		assert_true(sy_clock_now_ns() < end_ns);
		sched_yield();
	}
	destroy_worker(worker);
}

/* By now nobody new comes in: what UCX is about to read is read, and what came is cut off next. */
static ucs_status_t knock_and_create(ucp_worker_h worker, const ucp_ep_params_t *params,
                                     ucp_ep_h *ret_ep)
{
	int fd = connect_from(&within, "127.0.0.1");
	struct pollfd answered = {.fd = fd, .events = POLLOUT};

	assert_int_equal(poll(&answered, 1, WAIT_MS), 1);
	assert_int_not_equal(state_of(fd), TCP_ESTABLISHED);
	close(fd);
	knocked = true;
	return create_ep(worker, params, ret_ep);
}

/* UCX hands it to the listener all the same: that ended the process. */
static void test_one_who_speaks_when_the_listener_is_gone(void **state)
{
	uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS;
	void *slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                  -1, 0);
	const struct sy_ucx_target_config config = {
		.slab = slab, .slab_bytes = SLAB_BYTES, .incarnation = INCARNATION,
		.host = "127.0.0.1", .allow_tcp = true};
	const struct sy_ucx_lib *lib;
	struct sy_ucx_target *target;

	(void)state;
	assert_int_equal(sy_ucx_lib_get(&lib, NULL), SY_OK);
	assert_int_equal(sy_ucx_target_open(&config, &target, NULL), SY_OK);
	assert_true(sy_ucx_target_admit(target, SESSION, NULL));
	snprintf(within.address, sizeof within.address, "%s", sy_ucx_target_address(target));
	newcomer = connect_from(&within, "127.0.0.1");
	while ((taken = find_taken()) < 0) {
		assert_true(sy_clock_now_ns() < end_ns);
		sched_yield();
	}
	struct sy_ucx_lib *calls = (struct sy_ucx_lib *)(uintptr_t)lib, real = *lib;
	destroy_worker = real.ucp_worker_destroy;
	create_ep = real.ucp_ep_create;
	calls->ucp_worker_destroy = speak_and_destroy_worker;
	calls->ucp_ep_create = knock_and_create;
	sy_ucx_target_close(target);
	*calls = real;
	assert_true(knocked);
	close(newcomer);
	munmap(slab, SLAB_BYTES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_session),
		cmocka_unit_test(test_a_stranger_is_told_nothing),
		cmocka_unit_test(test_another_host),
		cmocka_unit_test(test_one_who_speaks_when_the_listener_is_gone),
	};

	rig_choose();
	if (argc == 5 && strcmp(argv[1], "target") == 0)
		return run_target(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
