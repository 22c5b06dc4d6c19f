/* What people write: sizes, durations, numbers, keys, names, lists of rows, options, and the
 * settings of a unit, each against a plain reading of the same text.
 *
 *   what u8 | text */
#include "fuzz.h"

#include <math.h>

#include "key.h"
#include "options.h"
#include "row_list.h"
#include "unit_config.h"
#include "units.h"

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_word(const char *text, const char *word)
{
	while (*text != '\0' && lower(*text) == *word) {
		text++;
		word++;
	}
	return *text == *word;
}

/* The factor of a size's unit; 0: there is none such. */
static long double bytes_factor(const char *unit)
{
	static const char *const decimal[] = {"k", "m", "g", "t"};
	long double ten = 1, two = 1;
	if (is_word(unit, "") || is_word(unit, "b"))
		return 1;
	for (size_t i = 0; i < COUNT_OF(decimal); i++) {
		char text[4] = {decimal[i][0]};
		ten *= 1000;
		two *= 1024;
		if (unit[0] == text[0] - 'a' + 'A' && unit[1] == '\0')
			return two;
		if (is_word(unit, text))
			return ten;
		text[1] = 'b';
		if (is_word(unit, text))
			return ten;
		text[1] = 'i';
		text[2] = 'b';
		if (is_word(unit, text))
			return two;
	}
	return 0;
}

static long double duration_factor(const char *unit)
{
	return is_word(unit, "") || is_word(unit, "s") ? 1e9L
	       : is_word(unit, "ms")                   ? 1e6L
	       : is_word(unit, "us")                   ? 1e3L
	       : is_word(unit, "ns")                   ? 1.0L
	       : is_word(unit, "m")                    ? 60e9L
	       : is_word(unit, "h")                    ? 3600e9L
	                                               : 0;
}

/* Where the number in front of a unit ends: digits, a point and digits, an exponent. */
static const char *number_end(const char *text)
{
	const char *at = text + strspn(text, "0123456789");
	if (at[0] == '.' && at[1] >= '0' && at[1] <= '9')
		at += 1 + strspn(at + 1, "0123456789");
	if (lower(*at) == 'e') {
		const char *exponent = at + 1 + (at[1] == '-' || at[1] == '+');
		size_t digits = strspn(exponent, "0123456789");
		if (digits > 0)
			at = exponent + digits;
	}
	return at;
}

/* The parser is exact; long double holds 64 bits of the same number. */
static void check_quantity(const char *text, sy_status status, uint64_t value,
                           long double (*factor_of)(const char *))
{
	const char *unit = number_end(text);
	if (status != SY_OK)
		return;
	FUZZ_CHECK(unit != text && value <= INT64_MAX);
	if (unit[0] == ' ' && unit[1] != '\0')
		unit++;
	long double factor = factor_of(unit);
	FUZZ_CHECK(factor != 0);
	char *number = fuzz_text(text, (size_t)(number_end(text) - text));
	long double expected = strtold(number, NULL) * factor;
	long double error = fabsl(expected - (long double)value);
	FUZZ_CHECK(error <= 4e-19L * expected || error < 1e-9L);
	free(number);
}

static void try_bytes(const char *text)
{
	sy_error err = {0};
	uint64_t value = 0, again = 0;
	char shown[16];
	sy_status status = sy_parse_bytes(text, &value, &err);
	check_quantity(text, status, value, bytes_factor);
	if (status != SY_OK)
		return;
	sy_format_bytes(value, shown);
	FUZZ_CHECK(strnlen(shown, sizeof shown) < sizeof shown);
	/* PiB and EiB are shown and not read. */
	if (strchr(shown, 'P') != NULL || strchr(shown, 'E') != NULL)
		return;
	if (strchr(shown, '.') == NULL)
		FUZZ_CHECK(sy_parse_bytes(shown, &again, &err) == SY_OK && again == value);
}

static void try_duration(const char *text)
{
	sy_error err = {0};
	uint64_t value = 0;
	sy_status status = sy_parse_duration(text, &value, &err);
	check_quantity(text, status, value, duration_factor);
}

/* True and the value if the text is a canonical decimal of 64 bits. */
static bool read_number(const char *text, size_t bytes, uint64_t *ret_value)
{
	unsigned __int128 value = 0;
	if (bytes == 0 || bytes > 20 || (bytes > 1 && text[0] == '0'))
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	*ret_value = (uint64_t)value;
	return value <= UINT64_MAX;
}

static void try_number(const char *text, size_t bytes)
{
	sy_error err = {0};
	uint64_t value = 0, expected = 0;
	bool is_number = read_number(text, bytes, &expected);
	FUZZ_CHECK((sy_parse_u64(text, bytes, &value, &err) == SY_OK) == is_number);
	FUZZ_CHECK(!is_number || value == expected);
}

/* Every character in its shortest form, none of them a surrogate or NUL, by its number. */
static bool is_name(const uint8_t *text, size_t bytes)
{
	static const uint32_t least[] = {0, 1, 0x80, 0x800, 0x10000};
	size_t at = 0;
	while (at < bytes) {
		uint32_t code = text[at];
		size_t step = code < 0x80 ? 1 : code >> 5 == 6 ? 2 : code >> 4 == 14 ? 3 : 4;
		if (step > bytes - at || (step == 4 && code >> 3 != 30))
			return false;
		code = step == 1 ? code : code & (0x7fu >> step);
		for (size_t i = 1; i < step; i++) {
			if (text[at + i] >> 6 != 2)
				return false;
			code = code << 6 | (text[at + i] & 0x3f);
		}
		if (code < least[step] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
			return false;
		at += step;
	}
	return bytes >= 1 && bytes <= 1024;
}

static void try_name(const char *text, size_t bytes)
{
	FUZZ_CHECK((sy_name_fault(text, bytes) == NULL) == is_name((const uint8_t *)text, bytes));
}

static void try_key(const char *text, size_t bytes)
{
	sy_error err = {0};
	uint64_t row = 0, expected = 0;
	const char *field = NULL;
	size_t field_bytes = 0, head = 0;
	while (head < bytes && text[head] != '@')
		head++;
	bool is_key = head < bytes && read_number(text, head, &expected) &&
	              is_name((const uint8_t *)text + head + 1, bytes - head - 1);
	sy_status status = sy_key_parse(text, bytes, &row, &field, &field_bytes, &err);
	FUZZ_CHECK((status == SY_OK) == is_key);
	if (is_key)
		FUZZ_CHECK(row == expected && field == text + head + 1 &&
		           field_bytes == bytes - head - 1);
}

/* Is the row in one of the ranges the text lists? The text is a valid list. */
static bool lists_row(const char *text, uint64_t row)
{
	bool found = false;
	while (true) {
		size_t bytes = strcspn(text, ","), head = strcspn(text, "-,");
		uint64_t first = 0, last = 0;
		FUZZ_CHECK(read_number(text, head, &first));
		last = first;
		if (head < bytes)
			FUZZ_CHECK(read_number(text + head + 1, bytes - head - 1, &last));
		FUZZ_CHECK(first <= last);
		found = found || (row >= first && row <= last);
		if (text[bytes] == '\0')
			return found;
		text += bytes + 1;
	}
}

static void try_rows(const char *text)
{
	sy_error err = {0};
	struct sy_row_list list;
	uint64_t rows = 0;
	if (sy_row_list_parse(text, &list, &err) != SY_OK)
		return;
	FUZZ_CHECK(list.count > 0);
	for (size_t i = 0; i < list.count; i++) {
		const struct sy_row_range *range = &list.ranges[i];
		FUZZ_CHECK(range->first <= range->last);
		/* A row lies between this range and the one before. */
		FUZZ_CHECK(i == 0 || range->first - 1 > range[-1].last);
		uint64_t near[] = {range->first, range->last, range->first - 1, range->last + 1,
		                   range->first + (range->last - range->first) / 2};
		for (size_t k = 0; k < COUNT_OF(near); k++)
			FUZZ_CHECK(sy_row_list_has(&list, near[k]) == lists_row(text, near[k]));
		uint64_t span = range->last - range->first;
		rows = span >= UINT64_MAX - rows ? UINT64_MAX : rows + span + 1;
	}
	FUZZ_CHECK(sy_row_list_rows(&list) == rows);
	sy_row_list_done(&list);
}

/* The text as a command line: words end at spaces. */
static void try_options(char *text)
{
	enum { WORDS_MAX = 32 };
	bool flag = false;
	const char *word = "none";
	uint64_t size = 7, count = 3, duration = 11;
	const struct sy_option options[] = {
		{.name = "flag", .kind = SY_OPTION_FLAG, .target = &flag, .help = "f", .letter = 'f'},
		{.name = "text", .value = "T", .kind = SY_OPTION_TEXT, .target = &word, .help = "t",
		 .letter = 't'},
		{.name = "size", .value = "S", .kind = SY_OPTION_BYTES, .target = &size, .help = "s"},
		{.name = "count", .value = "N", .kind = SY_OPTION_COUNT, .target = &count, .help = "n",
		 .min = 2, .max = 9, .letter = 'n'},
		{.name = "for", .value = "D", .kind = SY_OPTION_DURATION, .target = &duration,
		 .help = "d"},
	};
	const struct sy_usage usage = {.name = "try", .arguments = "[A] [B]", .summary = "tries.",
	                               .options = options, .option_count = COUNT_OF(options),
	                               .argument_max = 2};
	char *words[WORDS_MAX + 1] = {"try"};
	int argc = 1;
	for (char *at = text; *at != '\0' && argc < WORDS_MAX; argc++) {
		size_t bytes = strcspn(at, " ");
		words[argc] = at;
		at += bytes;
		if (*at == ' ')
			*at++ = '\0';
	}
	struct sy_arguments arguments;
	sy_error err = {.status = SY_OK};
	sy_status status = sy_options_parse(&usage, argc, words, &arguments, &err);
	if (status != SY_OK) {
		FUZZ_CHECK(status == SY_E_INVALID && err.status == status);
		FUZZ_CHECK(strnlen(err.message, sizeof err.message) < sizeof err.message);
		return;
	}
	FUZZ_CHECK(arguments.help || (arguments.count <= 2 && count >= 2 && count <= 9));
	for (uint32_t i = 0; !arguments.help && i < arguments.count; i++)
		FUZZ_CHECK(strlen(arguments.list[i]) < SIZE_MAX);
	FUZZ_CHECK(strlen(word) < SIZE_MAX && size <= INT64_MAX && duration <= INT64_MAX);
}

/* Settings that are let through make a core. */
static void try_config(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	struct sy_unit_config config;
	sy_error err = {.status = SY_OK};
	sy_unit_config_init(&config);
	uint32_t set = (uint32_t)fuzz_number(&input, 2);
	config.slab_bytes = fuzz_number(&input, 4) << fuzz_below(&input, 33);
	uint32_t *numbers[] = {&config.unit_id, &config.slot_count, &config.max_entries,
	                       &config.max_sessions, &config.eager_max_bytes,
	                       &config.inline_max_bytes};
	uint64_t *times[] = {&config.read_pin_ns, &config.heartbeat_ns, &config.session_expire_ns,
	                     &config.retire_grace_ns, &config.park_max_ns};
	for (size_t i = 0; i < COUNT_OF(numbers); i++) {
		if ((set >> i & 1) != 0)
			*numbers[i] = (uint32_t)fuzz_number(&input, 4);
	}
	for (size_t i = 0; i < COUNT_OF(times); i++) {
		if ((set >> (6 + i) & 1) != 0)
			*times[i] = fuzz_number(&input, 8);
	}
	config.insecure = (set >> 11 & 1) != 0;
	char *listen = fuzz_text(input.at, fuzz_left(&input));
	if ((set >> 12 & 1) != 0)
		config.listen = listen;
	sy_status status = sy_unit_config_check(&config, &err);
	FUZZ_CHECK(status == SY_OK || (status == SY_E_INVALID && err.status == status));
	if (status == SY_OK) {
		const struct sy_core_params params = sy_unit_config_params(&config, 1, 1);
		FUZZ_CHECK(sy_core_arena_bytes(&params) != 0);
		FUZZ_CHECK(config.unit_id < config.slot_count && config.slab_bytes % 4096 == 0);
	}
	free(listen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	uint8_t what = fuzz_u8(&input) % 8;
	size_t left = fuzz_left(&input);
	uint8_t *exact = fuzz_copy(input.at, left);
	char *text = fuzz_text(input.at, left);
	switch (what) {
	case 0:
		try_bytes(text);
		break;
	case 1:
		try_duration(text);
		break;
	case 2:
		try_number((const char *)exact, left);
		break;
	case 3:
		try_key((const char *)exact, left);
		break;
	case 4:
		try_name((const char *)exact, left);
		break;
	case 5:
		try_rows(text);
		break;
	case 6:
		try_options(text);
		break;
	default:
		try_config(exact, left);
		break;
	}
	free(exact);
	free(text);
	return 0;
}

static void seed(uint8_t what, const char *name, uint32_t number, const void *data, size_t bytes)
{
	uint8_t whole[128] = {what};
	FUZZ_CHECK(bytes < sizeof whole);
	memcpy(whole + 1, data, bytes);
	fuzz_seed(name, number, whole, bytes + 1);
}

void fuzz_corpus(void)
{
	static const struct {
		uint8_t what;
		const char *name, *text;
	} seeds[] = {
		{0, "bytes", "64MiB"}, {0, "bytes", "1.5 gib"}, {0, "bytes", "2k"}, {0, "bytes", "1e9"},
		{0, "bytes", "9223372036854775807"}, {0, "bytes", "0.0009765625KiB"},
		{0, "bytes", "8388607.99999TiB"}, {1, "duration", "1.5m"}, {1, "duration", "250us"},
		{1, "duration", "2562047h"}, {1, "duration", "0.000000001"}, {1, "duration", "3E+2 ns"},
		{2, "number", "18446744073709551615"}, {2, "number", "0"}, {3, "key", "17@input_ids"},
		{3, "key", "18446744073709551615@a@b"}, {4, "name", "advantages\xc3\xa9"},
		{4, "name", "\xf0\x9f\x98\x80\xe2\x82\xac"}, {5, "rows", "0-1318"},
		{5, "rows", "1,5,7-9,8-12,18446744073709551615"}, {5, "rows", "0-18446744073709551615"},
		{6, "options", "--size 1MiB -n3 --for=2s a b"}, {6, "options", "-f --text=x -- --count"},
		{6, "options", "--cuont 3"}, {6, "options", "--help"},
	};
	for (uint32_t i = 0; i < COUNT_OF(seeds); i++)
		seed(seeds[i].what, seeds[i].name, i, seeds[i].text, strlen(seeds[i].text));
	uint8_t config[80] = {0xff, 0xf, 0, 0x10, 0, 0, 12, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1};
	seed(7, "config", 90, config, 7);
	seed(7, "config", 91, config, sizeof config);
	config[1] |= 0x10;
	memcpy(config + 71, "tcp://h:1", 9);
	seed(7, "config", 92, config, sizeof config);
}
