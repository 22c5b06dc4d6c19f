#include "options.h"
#include "fail.h"
#include "units.h"

#include <string.h>

enum { OPTIONS_MAX = 32, HELP_COLUMN = 26 };

static const struct sy_option help_option = {
	.name = "help", .help = "show this and stop", .kind = SY_OPTION_FLAG, .letter = 'h'};

static const struct sy_option *option_by_name(const struct sy_usage *usage, const char *name,
                                              size_t name_len)
{
	for (size_t i = 0; i < usage->option_count; i++) {
		const struct sy_option *option = &usage->options[i];
		if (strlen(option->name) == name_len && memcmp(option->name, name, name_len) == 0)
			return option;
	}
	bool is_help = name_len == 4 && memcmp(name, help_option.name, 4) == 0;
	return is_help ? &help_option : NULL;
}

static const struct sy_option *option_by_letter(const struct sy_usage *usage, char letter)
{
	for (size_t i = 0; i < usage->option_count; i++) {
		if (usage->options[i].letter == letter)
			return &usage->options[i];
	}
	return letter == help_option.letter ? &help_option : NULL;
}

static sy_status unknown_option(const struct sy_usage *usage, const char *typed, size_t name_len,
                                sy_error *err)
{
	char name[64];
	const char *words[OPTIONS_MAX + 1];
	size_t count = 0;
	for (size_t i = 0; i < usage->option_count && count < OPTIONS_MAX; i++) {
		if (!usage->options[i].hidden)
			words[count++] = usage->options[i].name;
	}
	words[count++] = help_option.name;
	const char *nearest = NULL;
	if (name_len < sizeof name) {
		memcpy(name, typed + 2, name_len);
		name[name_len] = '\0';
		nearest = sy_nearest_word(name, words, count);
	}
	int shown = name_len > 60 ? 62 : (int)name_len + 2;
	if (nearest != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "no option %.*s; did you mean --%s?", shown,
		               typed, nearest);
	return sy_fail(err, SY_E_INVALID, __func__, "no option %.*s; --help lists those there are",
	               shown, typed);
}

static void number_text(const struct sy_option *option, uint64_t number,
                        char out[SY_DURATION_TEXT_BYTES])
{
	if (option->kind == SY_OPTION_BYTES)
		sy_format_bytes(number, out);
	else if (option->kind == SY_OPTION_DURATION)
		sy_format_duration(number, out);
	else
		sy_format(out, SY_DURATION_TEXT_BYTES, "%llu", (unsigned long long)number);
}

static sy_status number_take(const struct sy_option *option, const char *value, sy_error *err)
{
	char given[SY_DURATION_TEXT_BYTES], min[SY_DURATION_TEXT_BYTES], max[SY_DURATION_TEXT_BYTES];
	uint64_t number = 0;
	sy_error inner;
	sy_status status;
	const char *noun = "number";
	if (option->kind == SY_OPTION_BYTES) {
		status = sy_parse_bytes(value, &number, &inner);
		noun = "size";
	} else if (option->kind == SY_OPTION_DURATION) {
		status = sy_parse_duration(value, &number, &inner);
		noun = "time";
	} else {
		status = sy_parse_u64(value, strlen(value), &number, &inner);
	}
	if (status != SY_OK)
		return sy_fail(err, status, __func__, "--%s: %s", option->name, inner.message);
	number_text(option, number, given);
	number_text(option, option->min, min);
	number_text(option, option->max, max);
	if (option->max != 0 && (number < option->min || number > option->max))
		return sy_fail(err, SY_E_INVALID, __func__, "--%s takes a %s of %s to %s, not %s",
		               option->name, noun, min, max, given);
	if (number < option->min)
		return sy_fail(err, SY_E_INVALID, __func__, "--%s takes a %s of at least %s, not %s",
		               option->name, noun, min, given);
	*(uint64_t *)option->target = number;
	return SY_OK;
}

static sy_status value_take(const struct sy_option *option, const char *value, sy_error *err)
{
	switch (option->kind) {
	case SY_OPTION_FLAG:
		*(bool *)option->target = true;
		return SY_OK;
	case SY_OPTION_TEXT:
		if (value[0] == '\0')
			return sy_fail(err, SY_E_INVALID, __func__, "--%s is empty: give --%s %s",
			               option->name, option->name, option->value);
		*(const char **)option->target = value;
		return SY_OK;
	case SY_OPTION_COUNT:
	case SY_OPTION_BYTES:
	case SY_OPTION_DURATION:
		break;
	}
	return number_take(option, value, err);
}

/* What argv[at] names and holds. */
struct found {
	const struct sy_option *option;
	const char *value; /* NULL: it is the next word, if the option takes one */
};

static sy_status option_find(const struct sy_usage *usage, const char *word,
                             struct found *ret_found, sy_error *err)
{
	if (word[1] != '-') {
		ret_found->option = option_by_letter(usage, word[1]);
		ret_found->value = word[2] != '\0' ? word + 2 : NULL;
		if (ret_found->option == NULL)
			return sy_fail(err, SY_E_INVALID, __func__,
			               "no option %.40s; --help lists those there are", word);
		if (ret_found->value != NULL && ret_found->option->kind == SY_OPTION_FLAG)
			return sy_fail(err, SY_E_INVALID, __func__, "-%c takes no value, as in %.40s",
			               word[1], word);
		return SY_OK;
	}
	const char *equals = strchr(word, '=');
	size_t name_len = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
	ret_found->option = option_by_name(usage, word + 2, name_len);
	ret_found->value = equals != NULL ? equals + 1 : NULL;
	if (ret_found->option == NULL)
		return unknown_option(usage, word, name_len, err);
	if (ret_found->value != NULL && ret_found->option->kind == SY_OPTION_FLAG)
		return sy_fail(err, SY_E_INVALID, __func__, "--%s takes no value",
		               ret_found->option->name);
	return SY_OK;
}

static sy_status arguments_check(const struct sy_usage *usage,
                                 const struct sy_arguments *arguments, sy_error *err)
{
	if (arguments->count > usage->argument_max) {
		const char *extra = arguments->list[usage->argument_max];
		if (usage->argument_max == 0)
			return sy_fail(err, SY_E_INVALID, __func__,
			               "\"%.60s\" is one argument too many: there are none", extra);
		return sy_fail(err, SY_E_INVALID, __func__,
		               "\"%.60s\" is one argument too many: give %s", extra, usage->arguments);
	}
	if (arguments->count < usage->argument_min)
		return sy_fail(err, SY_E_INVALID, __func__, "an argument is missing: give %s",
		               usage->arguments);
	return SY_OK;
}

sy_status sy_options_parse(const struct sy_usage *usage, int argc, char **argv,
                           struct sy_arguments *ret_arguments, sy_error *err)
{
	struct sy_arguments arguments = {.list = (const char *const *)argv + 1};
	bool only_arguments = false;
	for (int at = 1; at < argc; at++) {
		char *word = argv[at];
		if (only_arguments || word[0] != '-' || word[1] == '\0') {
			argv[1 + arguments.count++] = word; /* never ahead of `at` */
			only_arguments = only_arguments || usage->stop_at_argument;
			continue;
		}
		if (strcmp(word, "--") == 0) {
			only_arguments = true;
			continue;
		}
		struct found found;
		sy_status status = option_find(usage, word, &found, err);
		if (status != SY_OK)
			return status;
		if (found.option == &help_option) {
			*ret_arguments = (struct sy_arguments){.help = true};
			return SY_OK;
		}
		if (found.option->kind != SY_OPTION_FLAG && found.value == NULL) {
			if (++at == argc || strncmp(argv[at], "--", 2) == 0)
				return sy_fail(err, SY_E_INVALID, __func__, "--%s needs a value: --%s %s",
				               found.option->name, found.option->name, found.option->value);
			found.value = argv[at];
		}
		status = value_take(found.option, found.value, err);
		if (status != SY_OK)
			return status;
	}
	sy_status status = arguments_check(usage, &arguments, err);
	if (status == SY_OK)
		*ret_arguments = arguments;
	return status;
}

/* The help as it grows; its length counts on past the end of out. */
struct help_text {
	char *out;
	size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void help_add(struct help_text *text,
                                                           const char *format, ...)
{
	size_t at = text->length < text->size ? text->length : text->size;
	va_list args;
	va_start(args, format);
	text->length += sy_format_list(text->out + at, text->size - at, format, args);
	va_end(args);
}

static void option_help(struct help_text *text, const struct sy_option *option)
{
	static const char blanks[HELP_COLUMN + 1] = "                          ";
	char letter[8] = "";
	if (option->letter != '\0')
		sy_format(letter, sizeof letter, "-%c, ", option->letter);
	char head[96];
	size_t length = sy_format(head, sizeof head, "  %s--%s%s%s", letter, option->name,
	                          option->value != NULL ? " " : "",
	                          option->value != NULL ? option->value : "");
	/* A head too long for its column has the words on the next line. */
	bool is_long = length + 2 > HELP_COLUMN;
	size_t fill = is_long ? HELP_COLUMN : HELP_COLUMN - length;
	help_add(text, "%s%s%.*s%s\n", head, is_long ? "\n" : "", (int)fill, blanks, option->help);
}

size_t sy_options_help(const struct sy_usage *usage, char *out, size_t size)
{
	struct help_text text = {.out = out, .size = size};
	help_add(&text, "Usage: slabyard%s%s [OPTIONS]%s%s\n\n%s\n", usage->name[0] != '\0' ? " " : "",
	         usage->name, usage->arguments[0] != '\0' ? " " : "", usage->arguments,
	         usage->summary);
	if (usage->details != NULL)
		help_add(&text, "\n%s", usage->details);
	help_add(&text, "\nOptions:\n");
	for (size_t i = 0; i < usage->option_count; i++) {
		if (!usage->options[i].hidden)
			option_help(&text, &usage->options[i]);
	}
	option_help(&text, &help_option);
	return text.length;
}
