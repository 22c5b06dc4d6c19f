#include "harness.h"

#include <string.h>

#include "options.h"

enum { WORDS_MAX = 16 };

/* What the options of the tests write to. */
struct taken {
	bool detach;
	const char *run_dir;
	const char *output, *worker;
	uint64_t slab_bytes, units, wait_ns, room_bytes;
};

struct tried {
	struct taken taken;
	struct sy_arguments arguments;
	char *argv[WORDS_MAX + 1]; /* in memory of its own: the parser reorders it */
	sy_status status;
	sy_error err;
};

static void try_usage(struct tried *tried, uint32_t argument_min, uint32_t argument_max,
                      bool stop_at_argument, const char *const *words)
{
	*tried = (struct tried){.taken = {.slab_bytes = 1, .units = 1, .wait_ns = 1}};
	struct taken *taken = &tried->taken;
	const struct sy_option options[] = {
		{.name = "run-dir", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &taken->run_dir},
		{.name = "output", .value = "FILE", .kind = SY_OPTION_TEXT, .target = &taken->output,
		 .letter = 'o'},
		{.name = "slab-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES,
		 .target = &taken->slab_bytes},
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &taken->units,
		 .min = 1, .max = 1024},
		{.name = "wait", .value = "TIME", .kind = SY_OPTION_DURATION, .target = &taken->wait_ns,
		 .max = 5000000000},
		{.name = "room", .value = "SIZE", .kind = SY_OPTION_BYTES, .target = &taken->room_bytes,
		 .min = 65536},
		{.name = "detach", .kind = SY_OPTION_FLAG, .target = &taken->detach, .letter = 'd'},
		{.name = "worker", .value = "WHICH", .kind = SY_OPTION_TEXT, .target = &taken->worker,
		 .hidden = true},
	};
	const struct sy_usage usage = {
		.name = "try", .arguments = "ROWS [FILE]", .summary = "Tries.", .options = options,
		.option_count = COUNT_OF(options), .argument_min = argument_min,
		.argument_max = argument_max, .stop_at_argument = stop_at_argument,
	};
	int argc = 0;
	static char command[] = "try";
	tried->argv[argc++] = command;
	for (; words[argc - 1] != NULL; argc++)
		tried->argv[argc] = (char *)(uintptr_t)words[argc - 1];
	tried->status = sy_options_parse(&usage, argc, tried->argv, &tried->arguments, &tried->err);
}

#define TRY(tried, ...) try_usage(tried, 0, 2, false, (const char *const[]){__VA_ARGS__, NULL})

static void assert_misused(const struct tried *tried, const char *message)
{
	assert_int_equal(tried->status, SY_E_INVALID);
	assert_string_equal(tried->err.message, message);
}

static void test_options_stand_anywhere(void **state)
{
	(void)state;
	struct tried tried;
	TRY(&tried, "0-9", "--slab-bytes", "1.5GiB", "out", "--units=3", "-d", "-o", "f", "--wait=2s");
	assert_int_equal(tried.status, SY_OK);
	assert_int_equal(tried.taken.slab_bytes, (uint64_t)3 << 29);
	assert_int_equal(tried.taken.units, 3);
	assert_int_equal(tried.taken.wait_ns, 2000000000);
	assert_true(tried.taken.detach);
	assert_string_equal(tried.taken.output, "f");
	assert_null(tried.taken.run_dir);
	assert_int_equal(tried.arguments.count, 2);
	assert_string_equal(tried.arguments.list[0], "0-9");
	assert_string_equal(tried.arguments.list[1], "out");
	TRY(&tried, "-ofile", "--run-dir=", "x");
	assert_misused(&tried, "--run-dir is empty: give --run-dir DIR");
	TRY(&tried, "-ofile", "--run-dir=a=b");
	assert_string_equal(tried.taken.output, "file");
	assert_string_equal(tried.taken.run_dir, "a=b");
}

static void test_what_is_not_given_stays(void **state)
{
	(void)state;
	struct tried tried;
	try_usage(&tried, 0, 2, false, (const char *const[]){NULL});
	assert_int_equal(tried.status, SY_OK);
	assert_int_equal(tried.taken.slab_bytes, 1);
	assert_int_equal(tried.arguments.count, 0);
	assert_false(tried.taken.detach);
}

static void test_dashes(void **state)
{
	(void)state;
	struct tried tried;
	TRY(&tried, "-", "--", "--detach");
	assert_int_equal(tried.status, SY_OK);
	assert_int_equal(tried.arguments.count, 2);
	assert_string_equal(tried.arguments.list[0], "-");
	assert_string_equal(tried.arguments.list[1], "--detach");
	assert_false(tried.taken.detach);
}

static void test_the_first_argument_may_end_the_options(void **state)
{
	(void)state;
	struct tried tried;
	try_usage(&tried, 0, UINT32_MAX, true,
	          (const char *const[]){"--run-dir", "r", "up", "--no-such", "-x", "--", NULL});
	assert_int_equal(tried.status, SY_OK);
	assert_string_equal(tried.taken.run_dir, "r");
	assert_int_equal(tried.arguments.count, 4);
	assert_string_equal(tried.arguments.list[0], "up");
	assert_string_equal(tried.arguments.list[1], "--no-such");
	assert_string_equal(tried.arguments.list[3], "--");
}

static void test_misspelt_options_are_guessed(void **state)
{
	(void)state;
	struct tried tried;
	TRY(&tried, "--slab-byte", "64MiB");
	assert_misused(&tried, "no option --slab-byte; did you mean --slab-bytes?");
	TRY(&tried, "--slabbytes=64MiB");
	assert_misused(&tried, "no option --slabbytes; did you mean --slab-bytes?");
	TRY(&tried, "--untis", "3");
	assert_misused(&tried, "no option --untis; did you mean --units?");
	TRY(&tried, "--deatch");
	assert_misused(&tried, "no option --deatch; did you mean --detach?");
	TRY(&tried, "--hlep");
	assert_misused(&tried, "no option --hlep; did you mean --help?");
	TRY(&tried, "--out", "f");
	assert_misused(&tried, "no option --out; did you mean --output?");
	TRY(&tried, "--frobnicate");
	assert_misused(&tried, "no option --frobnicate; --help lists those there are");
	TRY(&tried, "--workre=1"); /* a name that no help shows is none to be meant */
	assert_misused(&tried, "no option --workre; --help lists those there are");
	TRY(&tried, "--worker=1");
	assert_int_equal(tried.status, SY_OK);
	assert_string_equal(tried.taken.worker, "1");
	TRY(&tried, "-x");
	assert_misused(&tried, "no option -x; --help lists those there are");
	TRY(&tried, "--=3");
	assert_misused(&tried, "no option --; --help lists those there are");
}

static void test_values_are_checked(void **state)
{
	(void)state;
	struct tried tried;
	static const char *const bad_sizes[] = {"-1", "12x", "99999999999999999999", "MiB", "0.5"};
	for (size_t i = 0; i < COUNT_OF(bad_sizes); i++) {
		TRY(&tried, "--slab-bytes", bad_sizes[i]);
		assert_int_equal(tried.status, SY_E_INVALID);
		assert_ptr_equal(strstr(tried.err.message, "--slab-bytes: size \""), tried.err.message);
		assert_non_null(strstr(tried.err.message, bad_sizes[i]));
		assert_int_equal(tried.taken.slab_bytes, 1);
	}
	TRY(&tried, "--units", "0");
	assert_misused(&tried, "--units takes a number of 1 to 1024, not 0");
	TRY(&tried, "--units", "1025");
	assert_misused(&tried, "--units takes a number of 1 to 1024, not 1025");
	TRY(&tried, "--units", "three");
	assert_misused(&tried, "--units: number \"three\" is not a whole decimal number; write one "
	                       "such as 42");
	TRY(&tried, "--wait", "2 days");
	assert_int_equal(tried.status, SY_E_INVALID);
	TRY(&tried, "--wait", "5001ms");
	assert_misused(&tried, "--wait takes a time of 0s to 5s, not 5001ms");
	TRY(&tried, "--wait", "5s", "--room", "64k");
	assert_misused(&tried, "--room takes a size of at least 64 KiB, not 62.5 KiB");
	TRY(&tried, "--wait", "5s", "--room", "64KiB");
	assert_int_equal(tried.status, SY_OK);
	assert_int_equal(tried.taken.wait_ns, 5000000000);
	assert_int_equal(tried.taken.room_bytes, 65536);
	TRY(&tried, "--units");
	assert_misused(&tried, "--units needs a value: --units N");
	TRY(&tried, "--slab-bytes", "--detach");
	assert_misused(&tried, "--slab-bytes needs a value: --slab-bytes SIZE");
	TRY(&tried, "-o");
	assert_misused(&tried, "--output needs a value: --output FILE");
	TRY(&tried, "--detach=yes");
	assert_misused(&tried, "--detach takes no value");
	TRY(&tried, "-dx");
	assert_misused(&tried, "-d takes no value, as in -dx");
}

static void test_arguments_are_counted(void **state)
{
	(void)state;
	struct tried tried;
	try_usage(&tried, 1, 2, false, (const char *const[]){"-d", NULL});
	assert_misused(&tried, "an argument is missing: give ROWS [FILE]");
	try_usage(&tried, 1, 2, false, (const char *const[]){"a", "b", "c", NULL});
	assert_misused(&tried, "\"c\" is one argument too many: give ROWS [FILE]");
	try_usage(&tried, 0, 0, false, (const char *const[]){"a", NULL});
	assert_misused(&tried, "\"a\" is one argument too many: there are none");
}

static void test_help_comes_first(void **state)
{
	(void)state;
	struct tried tried;
	try_usage(&tried, 1, 2, false, (const char *const[]){"-d", "--help", "--no-such", NULL});
	assert_int_equal(tried.status, SY_OK);
	assert_true(tried.arguments.help);
	TRY(&tried, "-h");
	assert_true(tried.arguments.help);
	TRY(&tried, "--", "--help");
	assert_false(tried.arguments.help);
}

static void test_help_shows_every_option(void **state)
{
	(void)state;
	const struct sy_option options[] = {
		{.name = "output", .value = "FILE", .help = "where to", .kind = SY_OPTION_TEXT,
		 .letter = 'o'},
		{.name = "worker", .value = "WHICH", .kind = SY_OPTION_TEXT, .hidden = true},
		{.name = "a-very-long-option-name", .value = "VALUE", .help = "long",
		 .kind = SY_OPTION_TEXT},
	};
	const struct sy_usage usage = {.name = "get", .arguments = "GIDX FIELD", .summary = "Gets.",
	                               .details = "More.\n", .options = options, .option_count = 3};
	static const char expected[] = "Usage: slabyard get [OPTIONS] GIDX FIELD\n"
	                               "\n"
	                               "Gets.\n"
	                               "\n"
	                               "More.\n"
	                               "\n"
	                               "Options:\n"
	                               "  -o, --output FILE       where to\n"
	                               "  --a-very-long-option-name VALUE\n"
	                               "                          long\n"
	                               "  -h, --help              show this and stop\n";
	char help[1024];
	assert_int_equal(sy_options_help(&usage, help, sizeof help), strlen(expected));
	assert_string_equal(help, expected);
	/* Cut, not overrun. */
	memset(help, 'x', sizeof help);
	assert_int_equal(sy_options_help(&usage, help, 20), strlen(expected));
	assert_memory_equal(help, "Usage: slabyard get", 20);
	assert_int_equal(help[20], 'x');
}

static void test_nearest_word(void **state)
{
	(void)state;
	static const char *const words[] = {"up",   "down", "status", "load",
	                                    "dump", "put",  "get",    "rm"};
	const size_t count = COUNT_OF(words);
	assert_string_equal(sy_nearest_word("stauts", words, count), "status");
	assert_string_equal(sy_nearest_word("staus", words, count), "status");
	assert_string_equal(sy_nearest_word("sta", words, count), "status");
	assert_string_equal(sy_nearest_word("dwon", words, count), "down");
	assert_string_equal(sy_nearest_word("laod", words, count), "load");
	assert_string_equal(sy_nearest_word("pt", words, count), "put");
	/* Two letters swapped are one mistake, where two would be too many. */
	assert_string_equal(sy_nearest_word("egt", words, count), "get");
	assert_string_equal(sy_nearest_word("mr", words, count), "rm");
	assert_null(sy_nearest_word("xyt", words, count));
	assert_null(sy_nearest_word("xyzzy", words, count));
	assert_null(sy_nearest_word("", words, count));
	assert_null(sy_nearest_word("q", words, count));
	char longest[4096];
	memset(longest, 'a', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	assert_null(sy_nearest_word(longest, words, count));
	const char *const long_words[] = {longest};
	assert_null(sy_nearest_word("b", long_words, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_stand_anywhere),
		cmocka_unit_test(test_what_is_not_given_stays),
		cmocka_unit_test(test_dashes),
		cmocka_unit_test(test_the_first_argument_may_end_the_options),
		cmocka_unit_test(test_misspelt_options_are_guessed),
		cmocka_unit_test(test_values_are_checked),
		cmocka_unit_test(test_arguments_are_counted),
		cmocka_unit_test(test_help_comes_first),
		cmocka_unit_test(test_help_shows_every_option),
		cmocka_unit_test(test_nearest_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
