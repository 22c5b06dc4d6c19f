/* Assertions that guard our own invariants. They stay on in every build; only the build of
 * mutants turns them off (SY_NO_ASSERT), so that the simulator's checkers are tried alone. */
#ifndef SY_GUARD_H
#define SY_GUARD_H

/* Called once with the place of a failed assertion, before the trap. The base knows no stderr,
 * so a shell that wants a line printed sets this at start; may be NULL. Not thread-safe. */
extern void (*sy_assert_hook)(const char *file, int line, const char *expression);

_Noreturn void sy_assert_failed(const char *file, int line, const char *expression);

#ifdef SY_NO_ASSERT
#define SY_ASSERT(cond) ((void)sizeof((cond) ? 1 : 0))
#else
#define SY_ASSERT(cond) ((cond) ? (void)0 : sy_assert_failed(__FILE__, __LINE__, #cond))
#endif

/* A fault planted by the build of mutants (-Dmutants=true): true if the running mutant is this
 * one. In every other build it is the constant false and the fault compiles away. */
#ifdef SY_MUTANTS
#include <stdbool.h>
extern int sy_mutant_now;
#define SY_MUTANT(number) (sy_mutant_now == (number))
#else
#define SY_MUTANT(number) 0
#endif

#endif
