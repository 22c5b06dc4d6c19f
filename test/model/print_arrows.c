/* Prints the core's table of states and moves as Promela, for the model to include.
 *
 * sy_move(at, to) is the only way a region of the model changes its state. Moves that need the
 * disk tier are left out: the model has no disk, so one of them would be a fault. Each move
 * counts how often the search took it. */
#include <stdio.h>

#include "states.h"

static void print_states(void)
{
	printf("/* Made from src/core/states.h by print_arrows.c. */\n");
#define PRINT_STATE(name, value, text, region) printf("#define %s %d\n", #name, value);
	SY_BLOB_STATE_LIST(PRINT_STATE)
#undef PRINT_STATE
}

static void print_counts(void)
{
	int count = 0;
	printf("c_decl {\n\tstatic unsigned long sy_arrow_taken[64];\n"
	       "\tstatic const char *const sy_arrow_names[] = {\n");
#define PRINT_NAME(from, to, disk, why) \
	if ((disk) == 0) { \
		printf("\t\t\"%s-%s\",\n", #from, #to); \
		count++; \
	}
	SY_BLOB_ARROW_LIST(PRINT_NAME)
#undef PRINT_NAME
	printf("\t};\n\tenum { SY_ARROW_COUNT = %d };\n}\n", count);
}

/* Move `arrow_missing` (from 1 on; 0: none) does not exist: the runner takes each away once. */
static void print_moves(void)
{
	int number = 0;
	printf("hidden byte arrow_missing;\n");
	printf("inline sy_move(at, to)\n{\n\tif\n");
#define PRINT_MOVE(from, to, disk, why) \
	if ((disk) == 0) { \
		printf("\t:: at == SY_BLOB_%s && to == SY_BLOB_%s && arrow_missing != %d ->\n", \
		       #from, #to, number + 1); \
		printf("\t\tc_code { sy_arrow_taken[%d]++; }; at = to /* %s */\n", number, why); \
		number++; \
	}
	SY_BLOB_ARROW_LIST(PRINT_MOVE)
#undef PRINT_MOVE
	printf("\t:: else -> assert(TABLE)\n\tfi\n}\n");
}

int main(void)
{
	print_states();
	print_counts();
	print_moves();
	return fflush(stdout) == 0 ? 0 : 1;
}
