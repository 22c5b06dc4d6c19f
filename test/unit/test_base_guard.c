#include "harness.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

static int report_to;

static void report(const char *file, int line, const char *expression)
{
	dprintf(report_to, "%s|%d|%s\n", file, line, expression);
}

static void report_and_fail_again(const char *file, int line, const char *expression)
{
	report(file, line, expression);
	sy_assert_failed("again.c", 2, "again");
}

/* Runs body in a child; returns how it ended and, in out, what the hook wrote. */
static int run_child(void (*body)(void), void (*hook)(const char *, int, const char *), char *out,
                     size_t size)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		report_to = ends[1];
		sy_assert_hook = hook;
		/* The harness' handlers would turn the trap into a failed test. */
		signal(SIGILL, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
		body();
		_exit(0);
	}
	close(ends[1]);
	size_t bytes = 0;
	for (;;) { /* ends with the child, which holds the only other end */
		ssize_t got = read(ends[0], out + bytes, size - 1 - bytes);
		if (got <= 0)
			break;
		bytes += (size_t)got;
	}
	out[bytes] = '\0';
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void fail_directly(void)
{
	sy_assert_failed("place.c", 7, "two > three");
}

static void test_failure_calls_the_hook_and_traps(void **state)
{
	(void)state;
	char out[256];
	int status = run_child(fail_directly, report, out, sizeof out);
	assert_string_equal(out, "place.c|7|two > three\n");
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP);
}

static void test_no_hook_traps_too(void **state)
{
	(void)state;
	char out[256];
	assert_true(WIFSIGNALED(run_child(fail_directly, NULL, out, sizeof out)));
}

static void test_failure_inside_the_hook_does_not_recurse(void **state)
{
	(void)state;
	char out[256];
	int status = run_child(fail_directly, report_and_fail_again, out, sizeof out);
	assert_string_equal(out, "place.c|7|two > three\n");
	assert_true(WIFSIGNALED(status));
}

static void assert_truth_and_lie(void)
{
	int calls = 0;
	SY_ASSERT(++calls == 1);
	dprintf(report_to, "%d calls\n", calls);
	SY_ASSERT(calls == 5);
}

static void test_the_macro(void **state)
{
	(void)state;
	char out[256];
	int status = run_child(assert_truth_and_lie, report, out, sizeof out);
#ifdef SY_NO_ASSERT
	assert_string_equal(out, "0 calls\n"); /* not evaluated, only compiled */
	assert_int_equal(status, 0);
#else
	assert_ptr_equal(strstr(out, "1 calls\n"), out);
	assert_non_null(strstr(out, "test_base_guard.c|"));
	assert_non_null(strstr(out, "|calls == 5\n"));
	assert_true(WIFSIGNALED(status));
#endif
}

static void test_mutants(void **state)
{
	(void)state;
#ifdef SY_MUTANTS
	assert_false(SY_MUTANT(3));
	sy_mutant_now = 3;
	assert_true(SY_MUTANT(3));
	assert_false(SY_MUTANT(4));
	sy_mutant_now = 0;
#else
	_Static_assert(!SY_MUTANT(3), "a fault compiles away outside the build of mutants");
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failure_calls_the_hook_and_traps),
		cmocka_unit_test(test_no_hook_traps_too),
		cmocka_unit_test(test_failure_inside_the_hook_does_not_recurse),
		cmocka_unit_test(test_the_macro),
		cmocka_unit_test(test_mutants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
