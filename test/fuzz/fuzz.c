#include "fuzz.h"

#include "guard.h"

static const char *corpus_dir;

_Noreturn void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
	fflush(stderr);
	abort();
}

static void assert_hook(const char *file, int line, const char *expression)
{
	fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
	fflush(stderr);
}

uint8_t *fuzz_copy(const void *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
	FUZZ_CHECK(copy != NULL);
	if (bytes > 0)
		memcpy(copy, data, bytes);
	return copy;
}

char *fuzz_text(const void *data, size_t bytes)
{
	char *copy = malloc(bytes + 1);
	FUZZ_CHECK(copy != NULL);
	if (bytes > 0)
		memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	return copy;
}

void fuzz_seed(const char *name, uint32_t number, const void *data, size_t bytes)
{
	char path[4096];
	int length = snprintf(path, sizeof path, "%s/%s-%02u", corpus_dir, name, number);
	FUZZ_CHECK(length > 0 && (size_t)length < sizeof path);
	FILE *file = fopen(path, "wb");
	if (file == NULL) {
		perror(path);
		exit(1);
	}
	FUZZ_CHECK(fwrite(data, 1, bytes, file) == bytes);
	FUZZ_CHECK(fclose(file) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char option[] = "--make-corpus=";
	sy_assert_hook = assert_hook;
	/* The checks of the unit tests, used here too, then end in abort() and not in exit(). */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	for (int i = 1; i < *argc; i++) {
		if (strncmp((*argv)[i], option, strlen(option)) != 0)
			continue;
		corpus_dir = (*argv)[i] + strlen(option);
		fuzz_corpus();
		exit(0);
	}
	return 0;
}
