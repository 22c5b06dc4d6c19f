/* What a unit does first when it stood still, and that all else goes on after it. The linker leads
 * its look into the control socket through here, which stands still with the messages of a whole
 * turn in its hands: how many a socket holds at once no sender could choose. */
#include "daemon_rig.h"

/* A_TURN: what the loop hears of one socket before it turns to other work. The heartbeat is long:
 * a host that had the unit stand still once more would have it look into its socket again. */
enum { A_TURN = 64, HEARTBEAT_MS = 600, RELEASED_ROWS = 8192, KEPT_BYTES = 80 << 10 };

struct kept {
	uint64_t route;
	size_t bytes;
	uint8_t data[KEPT_BYTES];
};

static uint32_t *stands_still; /* atomic, of all processes: once, when a message has come */
/* The unit's. */
static struct kept kept[A_TURN];
static uint32_t kept_count, dealt_count;

bool __real_sy_control_server_receive(struct sy_control_server *server, uint64_t *ret_route,
                                      const void **ret_message, size_t *ret_bytes);
bool __wrap_sy_control_server_receive(struct sy_control_server *server, uint64_t *ret_route,
                                      const void **ret_message, size_t *ret_bytes);

/* Takes what the test sends, and is not back before it would have beaten. */
static void stand_still(struct sy_control_server *server)
{
	const void *message = NULL;
	size_t bytes = 0;
	for (int round = 0; round < ROUNDS * ROUND_MS && kept_count < A_TURN; round++) {
		struct kept *next = &kept[kept_count];
		if (!__real_sy_control_server_receive(server, &next->route, &message, &bytes)) {
			poll(NULL, 0, 1);
			continue;
		}
		if (bytes > KEPT_BYTES)
			abort();
		memcpy(next->data, message, bytes);
		next->bytes = bytes;
		kept_count++;
	}
	poll(NULL, 0, HEARTBEAT_MS + HEARTBEAT_MS / 4);
}

bool __wrap_sy_control_server_receive(struct sy_control_server *server, uint64_t *ret_route,
                                      const void **ret_message, size_t *ret_bytes)
{
	if (stands_still != NULL && __atomic_exchange_n(stands_still, 0, __ATOMIC_ACQ_REL) != 0) {
		stand_still(server);
		return false; /* they are found in the next turn, which sees how late it is */
	}
	if (dealt_count == kept_count)
		return __real_sy_control_server_receive(server, ret_route, ret_message, ret_bytes);
	const struct kept *next = &kept[dealt_count++];
	*ret_route = next->route;
	*ret_message = next->data;
	*ret_bytes = next->bytes;
	return true;
}

static void say(struct client *client, struct sy_request *request)
{
	request->id = (struct sy_request_id){client->session, ++client->seq, 0};
	sy_buf_reset(&client->out);
	sy_request_encode(request, &client->out);
	assert_true(sy_control_client_send(client->control, client->out.data, client->out.bytes));
}

/* The answer to the request said last; those before it are passed over. */
static const struct sy_reply *hear_last(struct client *client, const struct sy_request *request)
{
	const void *message = NULL;
	size_t bytes = 0;
	struct sy_request_id id;
	sy_error err = {0};
	for (int round = 0; round < ROUNDS; round++) {
		while (sy_control_client_receive(client->control, &message, &bytes)) {
			assert_int_equal(sy_reply_peek(message, bytes, &id, NULL), SY_OK);
			if (!sy_request_id_equal(id, request->id))
				continue;
			client->scratch.used = 0;
			if (sy_reply_decode(message, bytes, request->op, 0, &client->scratch, &client->reply,
			                    &err) != SY_OK)
				fail_msg("%s", err.message);
			return &client->reply;
		}
		struct pollfd waited = {.fd = sy_control_client_fd(client->control), .events = POLLIN};
		(void)poll(&waited, 1, ROUND_MS);
	}
	fail_msg("no reply: the unit's work stands still");
	return NULL;
}

/* The socket held as many messages as the unit hears in a turn, and nothing more. The last of them
 * is work of several steps, which timers and all such work wait for. */
static void test_nothing_more_comes_after_a_stall(void **state)
{
	struct rig *rig = *state;
	static uint64_t rows[RELEASED_ROWS];
	struct client client;
	rig->config.heartbeat_ns = HEARTBEAT_MS * 1000000u;
	start(rig);
	connect_client(rig, rig->info.ipc_address, true, &client);
	for (uint64_t i = 0; i < RELEASED_ROWS; i++)
		rows[i] = i;
	__atomic_store_n(stands_still, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < A_TURN - 1; i++) {
		struct sy_request stats = {.op = SY_OP_STATS, .first_notice = 1};
		say(&client, &stats);
	}
	struct sy_request release = {
		.op = SY_OP_RELEASE_ROWS, .first_notice = 1,
		.release = {.rows = rows, .row_count = RELEASED_ROWS, .all_fields = true}};
	say(&client, &release);
	assert_int_equal(hear_last(&client, &release)->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(__atomic_load_n(stands_still, __ATOMIC_ACQUIRE), 0);
	close_client(&client, true);
	assert_int_equal(stop(rig, SIGTERM), 0);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_nothing_more_comes_after_a_stall),
	};
	stands_still = mmap(NULL, sizeof *stands_still, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stands_still == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
