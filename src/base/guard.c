#include "guard.h"

#include <stddef.h>

void (*sy_assert_hook)(const char *file, int line, const char *expression);

#ifdef SY_MUTANTS
int sy_mutant_now;
#endif

void sy_assert_failed(const char *file, int line, const char *expression)
{
	/* Taken away first, so that an assertion that fails inside the hook still traps. */
	void (*hook)(const char *, int, const char *) = sy_assert_hook;
	sy_assert_hook = NULL;
	if (hook != NULL)
		hook(file, line, expression);
	__builtin_trap();
}
