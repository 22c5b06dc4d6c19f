/* Fork children: their calls fail typed, their touch of a view is a fault, nothing hangs, nothing
 * of theirs is lost, and a client of their own works. */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster.h"
#include "sanitized.h"

enum { UNITS = 2, SLAB_BYTES = 16 << 20, BIG = 3 << 20, CHILD_LIMIT_S = 20 };

static struct cluster cluster;
static sy_client *client;
static sy_store *store;
static uint8_t data[BIG];

static int start(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u};
	sy_store_options store_options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u};
	sy_key key = {4, "x", 1};
	sy_value value = {.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES};

	(void)state;
	for (int i = 0; i < BIG; i++)
		data[i] = (uint8_t)(i * 29 + i / 1000);
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	if (sy_client_open(&options, &client, NULL) != SY_OK ||
	    sy_store_open(&store_options, &store, NULL) != SY_OK)
		return -1;
	return sy_client_put(client, &key, &value, 1, 0, NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	sy_store_close(store);
	cluster_stop(&cluster);
	return 0;
}

static sy_status get(sy_client *from, int flags, sy_result **ret_result)
{
	sy_key key = {4, "x", 1};

	return sy_client_get(from, &key, 1, flags, 0, ret_result, NULL);
}

static sy_result *must_get(sy_client *from, int flags)
{
	sy_result *result;

	assert_int_equal(get(from, flags, &result), SY_OK);
	return result;
}

static sy_resolved_keys *must_resolve(void)
{
	sy_key key = {4, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	sy_resolved_keys *resolved;

	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL), SY_OK);
	return resolved;
}

/* Runs it in a child; its exit status, 128 + its signal. */
static int in_child(int (*run)(void *argument), void *argument)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit none = {0};

		signal(SIGSEGV, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		alarm(CHILD_LIMIT_S);
		_exit(run(argument));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct inherited {
	sy_result *copy, *view;
	sy_resolved_keys *resolved;
};

/* Every call, and every way to let go of what the parent holds. */
static int call_everything(void *argument)
{
	struct inherited *mine = argument;
	sy_key key = {4, "x", 1};
	sy_value value = {.data = data, .nbytes = 10, .kind = SY_KIND_BYTES}, got;
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 4;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_unit_report reports[UNITS];
	sy_result *result = NULL;
	sy_resolved_keys *resolved = NULL;

	if (get(client, SY_GET_COPY, &result) != SY_E_FATAL || result != NULL)
		return 1;
	if (sy_client_put(client, &key, &value, 1, 0, NULL) != SY_E_FATAL)
		return 2;
	if (sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL) != SY_E_FATAL)
		return 3;
	if (sy_client_reports(client, 0, reports, NULL) != SY_E_FATAL)
		return 4;
	if (sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL) != SY_E_FATAL)
		return 5;
	if (sy_store_release_rows(store, rows, 1, 0, NULL) != SY_E_FATAL ||
	    sy_store_refresh_units(store, 0, NULL) != SY_E_FATAL || sy_store_unit_dead(store, 0, 0))
		return 6;
	/* What was copied is the child's own, too. */
	if (!sy_result_value(mine->copy, 0, &got) || memcmp(got.data, data, BIG) != 0)
		return 7;
	sy_result_free(mine->copy);
	sy_result_free(mine->view);
	sy_resolved_keys_free(mine->resolved);
	sy_client_close(client);
	sy_store_close(store);
	return 0;
}

/* Threads of the parent that hold each lock again and again while it forks. */
static bool hammering; /* atomic */

static void *hammer(void *argument)
{
	(void)argument;
	while (__atomic_load_n(&hammering, __ATOMIC_ACQUIRE)) {
		sy_result *result;

		if (get(client, SY_GET_COPY, &result) == SY_OK)
			sy_result_free(result);
		sy_resolved_keys_free(must_resolve());
	}
	return NULL;
}

static void test_children_of_threads(void **state)
{
	struct inherited held;
	pthread_t threads[2];

	(void)state;
	__atomic_store_n(&hammering, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, NULL), 0);
	for (int i = 0; i < 40; i++) {
		held = (struct inherited){must_get(client, SY_GET_COPY), must_get(client, SY_GET_VIEW),
		                          must_resolve()};
		assert_int_equal(in_child(call_everything, &held), 0);
		sy_result_free(held.copy);
		sy_result_free(held.view);
		sy_resolved_keys_free(held.resolved);
	}
	__atomic_store_n(&hammering, false, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	sy_result *result = must_get(client, SY_GET_COPY); /* the parent goes on */
	sy_result_free(result);
}

static const uint8_t *bytes_of(const sy_result *view)
{
	sy_value value;

	assert_true(sy_result_value(view, 0, &value));
	return value.data;
}

struct mapping {
	unsigned long start, end;
	char perms[5], path[200];
};

/* The mapping that at lies in; or, if like is given, the writable one of the same file. */
static struct mapping find_mapping(const uint8_t *at, const struct mapping *like)
{
	struct mapping found = {0};
	char line[512];
	FILE *file = fopen("/proc/self/maps", "r");

	assert_non_null(file);
	while (fgets(line, sizeof line, file) != NULL) {
		struct mapping one = {0};
		int got = sscanf(line, "%lx-%lx %4s %*s %*s %*s %199s", &one.start, &one.end, one.perms,
		                 one.path);
		bool same = like != NULL ? got == 4 && strcmp(one.path, like->path) == 0 &&
		                                   one.perms[1] == 'w'
		                         : got >= 3 && one.start <= (uintptr_t)at &&
		                                   (uintptr_t)at < one.end;

		if (same)
			found = one;
	}
	fclose(file);
	assert_int_not_equal(found.end, 0);
	return found;
}

/* Where this process writes the byte that a view shows it at. */
static const uint8_t *writable_twin(const uint8_t *at)
{
	struct mapping view = find_mapping(at, NULL), slab = find_mapping(at, &view);

	assert_int_not_equal(slab.start, view.start);
	return (const uint8_t *)(uintptr_t)(slab.start + ((uintptr_t)at - view.start));
}

static int touch(void *argument)
{
	return ((const volatile uint8_t *)argument)[100] == data[100] ? 2 : 3;
}

/* The address sanitizer turns the fault into an exit of its own. */
static bool is_fault(int status)
{
	return status == 128 + SIGSEGV || status > 3;
}

static void test_a_view_is_read_only(void **state)
{
	sy_result *view = must_get(client, SY_GET_VIEW);
	const uint8_t *at = bytes_of(view);

	(void)state;
	assert_string_equal(find_mapping(at, NULL).perms, "r--s");
	assert_memory_equal(at, data, BIG);
	sy_result_free(view);
}

static void test_touch_of_a_view_is_a_fault(void **state)
{
	sy_result *view = must_get(client, SY_GET_VIEW);
	uint8_t *at = (uint8_t *)(uintptr_t)bytes_of(view);

	(void)state;
	assert_true(is_fault(in_child(touch, at)));
	assert_true(is_fault(in_child(touch, (void *)(uintptr_t)writable_twin(at))));
	assert_memory_equal(at, data, BIG);
	sy_result_free(view);
}

struct letting_go {
	sy_result *view;
	uint8_t *page; /* of the slab as the parent writes it */
};

/* The child has memory of its own where the parent has the slab: letting go of the view must
 * leave it alone. */
static int let_go_above_own_memory(void *argument)
{
	const struct letting_go *going = argument;
	uint8_t *page = going->page;
	uint8_t *mine = mmap(page, 65536, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (mine != page)
		return 2; /* the mapping was inherited */
	memset(mine, 7, 65536);
	sy_result_free(going->view);
	for (size_t i = 0; i < 65536; i++) {
		if (mine[i] != 7)
			return 3;
	}
	return 0;
}

static void test_letting_go_leaves_the_childs_memory(void **state)
{
	sy_result *view = must_get(client, SY_GET_VIEW), *none;

	(void)state;
	const uint8_t *at = writable_twin(bytes_of(view));
	struct letting_go going = {view, (uint8_t *)((uintptr_t)at & ~(uintptr_t)4095) + 4096};
	/* Once the client knows that the unit is dead, the view is the mapping's last user. */
	cluster_kill(&cluster, 0, SIGKILL);
	assert_int_equal(get(client, SY_GET_VIEW, &none), SY_E_LOST);
	assert_int_equal(in_child(let_go_above_own_memory, &going), 0);
	sy_result_free(view);
}

static int open_its_own(void *argument)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10000000000u};
	sy_client *mine;
	sy_result *result;
	sy_value value;

	(void)argument;
	if (sy_client_open(&options, &mine, NULL) != SY_OK)
		return 1;
	if (get(mine, SY_GET_VIEW, &result) != SY_OK || !sy_result_value(result, 0, &value))
		return 2;
	if (memcmp(value.data, data, BIG) != 0)
		return 3;
	sy_client_close(mine);
	sy_result_free(result);
	return 0;
}

static void test_a_child_opens_its_own(void **state)
{
	(void)state;
	if (!THREAD_SANITIZED)
		assert_int_equal(in_child(open_its_own, NULL), 0);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children_of_threads),
		cmocka_unit_test(test_a_view_is_read_only),
		cmocka_unit_test(test_touch_of_a_view_is_a_fault),
		cmocka_unit_test(test_a_child_opens_its_own),
		cmocka_unit_test(test_letting_go_leaves_the_childs_memory), /* the unit is dead then */
	};

	return cmocka_run_group_tests(tests, start, stop);
}
