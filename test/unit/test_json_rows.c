#include "harness.h"

#include <string.h>

#include "json_rows.h"
#include "json_text.h"

static struct sy_row_batch batch;

static int setup(void **state)
{
	(void)state;
	batch = (struct sy_row_batch){0};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sy_row_batch_done(&batch);
	return 0;
}

static void add(const char *line)
{
	sy_error err = {0};
	if (sy_row_batch_add(&batch, 7, line, strlen(line), &err) != SY_OK)
		fail_msg("%s: %s", line, err.message);
	assert_int_equal(sy_row_batch_seal(&batch, &err), SY_OK);
}

static void assert_refused(const char *line, size_t bytes, const char *message)
{
	sy_error err = {0};
	struct sy_row_batch before = batch;
	assert_int_equal(sy_row_batch_add(&batch, 7, line, bytes, &err), SY_E_INVALID);
	assert_string_equal(err.message, message);
	assert_int_equal(batch.cell_count, before.cell_count);
	assert_int_equal(batch.row_count, before.row_count);
	assert_int_equal(batch.bytes.bytes, before.bytes.bytes);
}

#define REFUSED(line, message) assert_refused(line, sizeof(line) - 1, message)

/* The value of a field of the last lines. */
static const sy_value *value_of(const char *field)
{
	for (size_t i = 0; i < batch.cell_count; i++) {
		const sy_key *key = &batch.keys[i];
		if (key->field_bytes == strlen(field) && memcmp(key->field, field, key->field_bytes) == 0)
			return &batch.values[i];
	}
	fail_msg("no field %s", field);
	return NULL;
}

static void assert_value(const char *field, sy_kind kind, sy_dtype dtype, const void *data,
                         size_t bytes)
{
	const sy_value *value = value_of(field);
	assert_int_equal(value->kind, kind);
	assert_int_equal(value->dtype, dtype);
	assert_int_equal(value->nbytes, bytes);
	if (bytes > 0)
		assert_memory_equal(value->data, data, bytes);
}

static void assert_scalar(const char *field, sy_dtype dtype, const void *data)
{
	assert_value(field, SY_KIND_TENSOR, dtype, data, sy_dtype_bytes(dtype));
	assert_int_equal(value_of(field)->rank, 0);
}

static void assert_list(const char *field, sy_dtype dtype, const void *data, size_t count)
{
	assert_value(field, SY_KIND_TENSOR, dtype, data, count * sy_dtype_bytes(dtype));
	assert_int_equal(value_of(field)->rank, 1);
	assert_int_equal(value_of(field)->dims[0], count);
}

static void assert_text(const char *field, sy_kind kind, const char *text)
{
	assert_value(field, kind, SY_DTYPE_NONE, text, strlen(text));
}

static void test_numbers_keep_their_kind(void **state)
{
	(void)state;
	add("{\"one\":1,\"real\":1.0,\"truth\":true,\"no\":false,\"null\":null,\"least\":"
	    "-9223372036854775808,\"most\":9223372036854775807,\"over\":9223372036854775808,"
	    "\"top\":18446744073709551615,\"minus\":-0,\"exponent\":1e2,\"small\":5e-324,"
	    "\"nought\":-0.0}");
	assert_scalar("one", SY_DTYPE_I64, &(int64_t){1});
	assert_scalar("real", SY_DTYPE_F64, &(double){1.0});
	assert_scalar("truth", SY_DTYPE_BOOL, &(uint8_t){1});
	assert_scalar("no", SY_DTYPE_BOOL, &(uint8_t){0});
	assert_text("null", SY_KIND_JSON_NULL, "");
	assert_scalar("least", SY_DTYPE_I64, &(int64_t){INT64_MIN});
	assert_scalar("most", SY_DTYPE_I64, &(int64_t){INT64_MAX});
	assert_scalar("over", SY_DTYPE_U64, &(uint64_t){(uint64_t)1 << 63});
	assert_scalar("top", SY_DTYPE_U64, &(uint64_t){UINT64_MAX});
	assert_scalar("minus", SY_DTYPE_I64, &(int64_t){0});
	assert_scalar("exponent", SY_DTYPE_F64, &(double){100.0});
	assert_scalar("small", SY_DTYPE_F64, &(double){5e-324});
	assert_scalar("nought", SY_DTYPE_F64, &(double){-0.0});
	assert_int_equal(batch.row_count, 1);
	assert_int_equal(batch.keys[0].row, 7);
}

static void test_arrays(void **state)
{
	(void)state;
	add("{\"ints\":[1,-2,3],\"reals\":[0.5,1e3],\"truths\":[true,false],\"large\":"
	    "[18446744073709551615,1],\"both\":[18446744073709551615,-1],\"mixed\":[1, 1.0, true],"
	    "\"late\":[1,2,\"x\"],\"none\":[ ],\"nested\":[[1],[2]],\"object\":[{\"a\" : 1}],"
	    "\"nulls\":[null],\"huge\":[99999999999999999999, \"x\"],\"empty\":{ }}");
	assert_list("ints", SY_DTYPE_I64, (int64_t[]){1, -2, 3}, 3);
	assert_list("reals", SY_DTYPE_F64, (double[]){0.5, 1000}, 2);
	assert_list("truths", SY_DTYPE_BOOL, (uint8_t[]){1, 0}, 2);
	assert_list("large", SY_DTYPE_U64, (uint64_t[]){UINT64_MAX, 1}, 2);
	assert_text("both", SY_KIND_JSON, "[18446744073709551615,-1]");
	assert_text("mixed", SY_KIND_JSON, "[1,1.0,true]");
	assert_text("late", SY_KIND_JSON, "[1,2,\"x\"]");
	assert_text("none", SY_KIND_JSON, "[]");
	assert_text("nested", SY_KIND_JSON, "[[1],[2]]");
	assert_text("object", SY_KIND_JSON, "[{\"a\":1}]");
	assert_text("nulls", SY_KIND_JSON, "[null]");
	assert_text("huge", SY_KIND_JSON, "[99999999999999999999,\"x\"]");
	assert_text("empty", SY_KIND_JSON, "{}");
}

static void test_strings(void **state)
{
	(void)state;
	add("{\"plain\":\"abc\",\"empty\":\"\",\"escapes\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\","
	    "\"points\":\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\",\"raw\":\"\xc3\xa9\xf0\x9f\x98\x80\","
	    "\"\\u006bey\":\"x\"}");
	assert_text("plain", SY_KIND_UTF8, "abc");
	assert_text("empty", SY_KIND_UTF8, "");
	assert_text("escapes", SY_KIND_UTF8, "\"\\/\b\f\n\r\t");
	assert_text("points", SY_KIND_UTF8, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_text("raw", SY_KIND_UTF8, "\xc3\xa9\xf0\x9f\x98\x80");
	assert_text("key", SY_KIND_UTF8, "x");
	add("{\"nul\":\"a\\u0000b\"}");
	assert_value("nul", SY_KIND_UTF8, SY_DTYPE_NONE, "a\0b", 3);
}

static void test_nested_objects_are_flat(void **state)
{
	(void)state;
	add(" { \"a\" : { \"b\" : { \"c\" : 1 } , \"d\" : \"x\" } , \"\" : { \"e\" : 2 } , "
	    "\"a.b\" : 3 , \"f@g\" : 4 } \r");
	assert_int_equal(batch.cell_count, 5);
	assert_scalar("a.b.c", SY_DTYPE_I64, &(int64_t){1});
	assert_text("a.d", SY_KIND_UTF8, "x");
	assert_scalar(".e", SY_DTYPE_I64, &(int64_t){2});
	assert_scalar("a.b", SY_DTYPE_I64, &(int64_t){3});
	assert_scalar("f@g", SY_DTYPE_I64, &(int64_t){4});
}

static void test_names_refused(void **state)
{
	(void)state;
	add("{\"before\":1}");
	REFUSED("{\"a\":1,\"a\":1}", "the key \"a\" stands twice");
	REFUSED("{\"a\":1,\"\\u0061\":1}", "the key \"a\" stands twice");
	REFUSED("{\"a\":{\"b\":1},\"a\":{\"c\":1}}", "the key \"a\" stands twice");
	REFUSED("{\"a\":{\"b\":1,\"b\":1}}", "the key \"b\" stands twice");
	REFUSED("{\"a\":{\"b\":1},\"a.b\":2}", "two values have the flat name \"a.b\"");
	REFUSED("{\"a.b\":{\"c\":1},\"a\":{\"b.c\":2}}", "two values have the flat name \"a.b.c\"");
	REFUSED("{\"\":1}", "the field name \"\" is empty");
	REFUSED("{\"a\\u0000\":1}", "the field name \"a\" holds a NUL byte");

	char line[1200];
	memset(line, 'n', sizeof line);
	memcpy(line, "{\"", 2);
	memcpy(line + 2 + 1024, "\":1}", 5);
	add(line);
	assert_int_equal(batch.keys[1].field_bytes, 1024);
	memcpy(line + 2 + 1024, "n\":1}", 6);
	sy_error err = {0};
	assert_int_equal(sy_row_batch_add(&batch, 7, line, strlen(line), &err), SY_E_INVALID);
	assert_non_null(strstr(err.message, "is longer than 1024 bytes"));
}

static void test_values_refused(void **state)
{
	(void)state;
	REFUSED("{\"a\":18446744073709551616}",
	        "the number 18446744073709551616 at column 6 is out of range: integers go from -2^63 "
	        "to 2^64 - 1, others to 1.8e308");
	REFUSED("{\"a\":-9223372036854775809}",
	        "the number -9223372036854775809 at column 6 is out of range: integers go from -2^63 "
	        "to 2^64 - 1, others to 1.8e308");
	REFUSED("{\"a\":[0.5,-1e309]}",
	        "the number -1e309 at column 11 is out of range: integers go from -2^63 to 2^64 - 1, "
	        "others to 1.8e308");
	REFUSED("{\"a\":[1,99999999999999999999]}",
	        "the number 99999999999999999999 at column 9 is out of range: integers go from -2^63 "
	        "to 2^64 - 1, others to 1.8e308");
}

static void test_text_refused(void **state)
{
	(void)state;
	REFUSED("", "no JSON: a value is missing, at the end");
	REFUSED("[1]", "a line holds one JSON object, not an array");
	REFUSED("\"x\"", "a line holds one JSON object, not a string");
	REFUSED("5", "a line holds one JSON object, not a bare value");
	REFUSED("{}", "an empty object is no row: a row has at least one field");
	REFUSED("{\"a\":1", "no JSON: \"}\" is missing, at the end");
	REFUSED("{\"a\":1}x", "something follows the end of the JSON value, at column 8");
	REFUSED("{\"a\":1}{\"a\":2}", "something follows the end of the JSON value, at column 8");
	REFUSED("{\"a\" 1}", "no JSON: \":\" is missing, at column 6");
	REFUSED("{\"a\":1,}", "no JSON: a value is missing, at column 8");
	REFUSED("{\"a\":[1,]}", "no JSON: a value is missing, at column 9");
	REFUSED("{\"a\":[1 2]}", "no JSON: \"]\" is missing, at column 9");
	REFUSED("{a:1}", "no JSON: a value is missing, at column 2");
	REFUSED("{'a':1}", "no JSON: strings stand in double quotes, at column 2");
	REFUSED("{1:1}", "no JSON: \"\"\" is missing, at column 2");
	REFUSED("{\"a\":NaN}", "NaN is no JSON value, at column 6");
	REFUSED("{\"a\":-Infinity}", "-Infinity is no JSON value, at column 6");
	REFUSED("{\"a\":None}", "None is no JSON value, at column 6");
	REFUSED("{\"a\":tru}", "no JSON: a value is missing, at column 6");
	REFUSED("{\"a\":01}", "no JSON number: it begins with a zero, at column 6");
	REFUSED("{\"a\":1.}", "no JSON number: no digit follows its point, at column 8");
	REFUSED("{\"a\":1e+}", "no JSON number: its exponent has no digit, at column 9");
	REFUSED("{\"a\":+1}", "no JSON: a value is missing, at column 6");
	REFUSED("{\"a\":.5}", "no JSON: a value is missing, at column 6");
	REFUSED("{\"a\":-}", "no JSON: a value is missing, at column 6");
	REFUSED("{\"a\":\"\\x\"}", "no JSON: there is no such escape, at column 7");
	REFUSED("{\"a\":\"\\u12\"}", "no JSON: four hex digits follow \\u, at column 7");
	REFUSED("{\"a\":\"\\ud800\"}", "half of a surrogate pair is no character, at column 7");
	REFUSED("{\"a\":\"\\udc00\\ud800\"}", "half of a surrogate pair is no character, at column 7");
	REFUSED("{\"a\":\"\t\"}", "no JSON: a control character in a string, at column 7");
	REFUSED("{\"a\":\"\0\"}", "no JSON: a control character in a string, at column 7");
	REFUSED("{\"a\":\"x", "no JSON: a string has no end, at the end");
	REFUSED("{\"a\":\"x\\", "no JSON: there is no such escape, at column 8");
	REFUSED("{\"a\":\"\xff\"}", "this is not UTF-8, at column 7");
	REFUSED("{\"a\":\"\xc0\x80\"}", "this is not UTF-8, at column 7");
	REFUSED("{\"a\":\"\xed\xa0\x80\"}", "this is not UTF-8, at column 7");
	REFUSED("{\"\xe9\":1}", "this is not UTF-8, at column 3");
	REFUSED("{\"a\":[[\"\xe9\"]]}", "this is not UTF-8, at column 9");
	REFUSED("\xef\xbb\xbf{\"a\":1}", "no JSON: a value is missing, at column 1");
}

static void test_depth_has_a_bound(void **state)
{
	char line[8192];
	(void)state;
	for (int levels = 63; levels <= 64; levels++) {
		size_t at = 0;
		for (int i = 0; i < levels; i++, at += 5)
			memcpy(line + at, "{\"a\":", 5);
		line[at++] = '1';
		memset(line + at, '}', (size_t)levels);
		at += (size_t)levels;
		line[at] = '\0';
		sy_error err = {0};
		sy_status status = sy_row_batch_add(&batch, 1, line, at, &err);
		assert_int_equal(status, SY_OK);
	}
	for (int levels = 255; levels <= 2040; levels += levels < 257 ? 1 : levels) {
		memset(line, '[', sizeof line);
		memcpy(line, "{\"a\":", 5);
		line[5 + levels] = '1';
		memset(line + 6 + levels, ']', (size_t)levels);
		memcpy(line + 6 + 2 * levels, "}", 2);
		sy_error err = {0};
		sy_status status = sy_row_batch_add(&batch, 1, line, strlen(line), &err);
		assert_int_equal(status, levels <= SY_JSON_DEPTH_MAX ? SY_OK : SY_E_INVALID);
	}
	memset(line, '{', sizeof line);
	for (size_t i = 0; i + 5 < sizeof line; i += 5)
		memcpy(line + i, "{\"a\":", 5);
	sy_error err = {0};
	assert_int_equal(sy_row_batch_add(&batch, 1, line, sizeof line - 8, &err), SY_E_INVALID);
	assert_string_equal(err.message, "objects are nested deeper than 64 levels");
}

static void test_many_fields(void **state)
{
	struct sy_text line = {0};
	char member[32];
	(void)state;
	for (int i = 0; i < 5000; i++) {
		snprintf(member, sizeof member, "%s\"f%d\":%d", i == 0 ? "{" : ",", i, i);
		sy_text_add_word(&line, member);
	}
	sy_text_add(&line, "}", 2);
	add(line.data);
	assert_int_equal(batch.cell_count, 5000);
	assert_scalar("f4999", SY_DTYPE_I64, &(int64_t){4999});
	/* The names of one line do not stand in the way of the next. */
	add(line.data);
	assert_int_equal(batch.cell_count, 10000);
	sy_row_batch_clear(&batch);
	assert_int_equal(batch.row_count, 0);
	add("{\"f1\":1}");
	assert_int_equal(batch.cell_count, 1);
	sy_text_done(&line);
}

/* Whatever stands in a line, it is a row or a refusal, and nothing else happens. */
static void test_damaged_lines(void **state)
{
	static const char good[] =
		"{\"a\":{\"b\":[1,2.5e3,-7],\"c\":\"x\\u00e9\\n\"},\"d\":[true,false],"
		"\"e\":[{\"f\":null}]}";
	char line[sizeof good];
	(void)state;
	for (size_t at = 0; at < sizeof good - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(line, good, sizeof good);
			line[at] = (char)byte;
			sy_error err = {0};
			sy_status status = sy_row_batch_add(&batch, 1, line, sizeof good - 1, &err);
			assert_true(status == SY_OK || status == SY_E_INVALID);
			sy_row_batch_clear(&batch);
		}
		memcpy(line, good, at);
		line[at] = '\0';
		sy_error err = {0};
		assert_int_equal(sy_row_batch_add(&batch, 1, line, at, &err), SY_E_INVALID);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_numbers_keep_their_kind, setup, teardown),
		cmocka_unit_test_setup_teardown(test_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nested_objects_are_flat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_text_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_depth_has_a_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_lines, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
