/* The options and arguments of a subcommand: parsing, and the help made from the same table.
 * No output here: what is printed comes back as text. */
#ifndef SY_OPTIONS_H
#define SY_OPTIONS_H

#include <slabyard/status.h>

/* Where an option's value goes; the comment says what `target` is. */
enum sy_option_kind {
	SY_OPTION_FLAG = 1, /* bool: true if given */
	SY_OPTION_TEXT,     /* const char *: points into argv */
	SY_OPTION_BYTES,    /* uint64_t of min .. max, as sy_parse_bytes reads it */
	SY_OPTION_COUNT,    /* uint64_t, a whole decimal number of min .. max */
	SY_OPTION_DURATION, /* uint64_t, nanoseconds of min .. max, as sy_parse_duration reads it */
};

struct sy_option {
	const char *name;    /* without its dashes */
	const char *value;   /* "SIZE", as help shows it; NULL for a flag */
	const char *help;    /* one line; a default is told there */
	enum sy_option_kind kind;
	void *target;        /* holds the default; written only where the option is given */
	uint64_t min, max;   /* of a number; max 0: none */
	char letter;         /* "-o"; 0: none */
	bool hidden;         /* of a slabyard to another one: no help shows it */
};

/* One subcommand (or the command itself), as it is parsed and as its help shows it. */
struct sy_usage {
	const char *name;      /* "put" */
	const char *arguments; /* "GIDX FIELD [FILE]", or "" */
	const char *summary;   /* one line */
	const char *details;   /* more lines, each ending in a newline; or NULL */
	const struct sy_option *options;
	size_t option_count;
	uint32_t argument_min, argument_max; /* how many arguments there may be, options aside */
	bool stop_at_argument; /* the first argument ends the options: the rest is another's */
};

struct sy_arguments {
	bool help;              /* --help or -h was given; nothing else was checked */
	uint32_t count;
	const char *const *list; /* the arguments in order; points into argv, which was reordered */
};

/* Reads argv[1 .. argc - 1]: "--name VALUE", "--name=VALUE", "-o VALUE", "-oVALUE", flags, and
 * "--" after which all are arguments; a bare "-" is an argument. Options may stand before,
 * between and after arguments. SY_E_INVALID: an unknown option (the message names the nearest
 * one), a missing or wrong value, too many or too few arguments. */
sy_status sy_options_parse(const struct sy_usage *usage, int argc, char **argv,
                           struct sy_arguments *ret_arguments, sy_error *err);

/* Writes the help to out (size bytes, cut if it is longer) and returns its whole length. */
size_t sy_options_help(const struct sy_usage *usage, char *out, size_t size);

/* The word of `words` that `typed` was probably meant to be: at most a third of its letters
 * wrong, doubled, left out or swapped, or a beginning of one word alone. NULL: none is near. */
const char *sy_nearest_word(const char *typed, const char *const *words, size_t word_count);

#endif
