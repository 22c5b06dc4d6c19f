/* The reader of msgpack: every encoding of every value, and what is refused. */
#include "harness.h"

#include <msgpack/pack.h>
#include <string.h>

#include "mp_reader.h"
#include "mp_writer.h"
#include "prng.h"

static int packed(void *data, const char *bytes, size_t count)
{
	sy_buf_append(data, bytes, count);
	return 0;
}

/* An exact copy, so that ASan sees a byte read past its end. */
static uint8_t *copy_of(const struct sy_buf *buf)
{
	uint8_t *copy = malloc(buf->bytes > 0 ? buf->bytes : 1);
	assert_non_null(copy);
	if (buf->bytes > 0)
		memcpy(copy, buf->data, buf->bytes);
	return copy;
}

static void assert_uint_reads(const struct sy_buf *buf, uint64_t value)
{
	uint8_t *copy = copy_of(buf);
	struct sy_mp_reader reader = sy_mp_reader_init(copy, buf->bytes);
	assert_int_equal(sy_mp_read_u64(&reader), value);
	sy_mp_expect_end(&reader);
	assert_null(reader.fault);
	reader = sy_mp_reader_init(copy, buf->bytes);
	assert_int_equal(sy_mp_read_uint(&reader, value), value);
	assert_null(reader.fault);
	if (value > 0) {
		reader = sy_mp_reader_init(copy, buf->bytes);
		assert_int_equal(sy_mp_read_uint(&reader, value - 1), 0);
		assert_non_null(reader.fault);
	}
	free(copy);
}

/* Each unsigned and each signed form that holds the value, not only the shortest. */
static void test_an_integer_in_every_encoding(void **state)
{
	(void)state;
	struct sy_prng prng;
	struct sy_buf buf = {0};
	msgpack_packer packer;
	msgpack_packer_init(&packer, &buf, packed);
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 2000; i++) {
		uint64_t value = sy_prng_next(&prng) >> sy_prng_below(&prng, 64);
		if (i < 64)
			value = ((uint64_t)1 << i) - (uint64_t)(i % 2);
		for (int form = 0; form < 9; form++) {
			static const uint64_t max[] = {UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX, INT8_MAX,
			                               INT16_MAX, INT32_MAX, INT64_MAX, UINT64_MAX};
			if (value > max[form])
				continue;
			sy_buf_reset(&buf);
			switch (form) {
			case 0: msgpack_pack_fix_uint8(&packer, (uint8_t)value); break;
			case 1: msgpack_pack_fix_uint16(&packer, (uint16_t)value); break;
			case 2: msgpack_pack_fix_uint32(&packer, (uint32_t)value); break;
			case 3: msgpack_pack_fix_uint64(&packer, value); break;
			case 4: msgpack_pack_fix_int8(&packer, (int8_t)value); break;
			case 5: msgpack_pack_fix_int16(&packer, (int16_t)value); break;
			case 6: msgpack_pack_fix_int32(&packer, (int32_t)value); break;
			case 7: msgpack_pack_fix_int64(&packer, (int64_t)value); break;
			default: sy_mp_write_uint(&buf, value); break;
			}
			assert_uint_reads(&buf, value);
		}
	}
	sy_buf_free(&buf);
}

static void test_negative_integers_are_refused(void **state)
{
	(void)state;
	static const int64_t values[] = {-1, -32, -33, -128, -129, -32769, -2147483649, INT64_MIN};
	struct sy_buf buf = {0};
	msgpack_packer packer;
	msgpack_packer_init(&packer, &buf, packed);
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		for (int form = 0; form < 2; form++) {
			sy_buf_reset(&buf);
			if (form == 0)
				msgpack_pack_int64(&packer, values[i]);
			else
				msgpack_pack_fix_int64(&packer, values[i]);
			struct sy_mp_reader reader = sy_mp_reader_init(buf.data, buf.bytes);
			assert_int_equal(sy_mp_read_u64(&reader), 0);
			assert_non_null(reader.fault);
		}
	}
	sy_buf_free(&buf);
}

static void test_runs_at_every_length_of_a_head(void **state)
{
	(void)state;
	static const size_t lengths[] = {0, 1, 31, 32, 255, 256, 65535, 65536, 1000000};
	static uint8_t bytes[1000000];
	struct sy_buf buf = {0};
	memset(bytes, 'x', sizeof bytes);
	for (size_t i = 0; i < COUNT_OF(lengths); i++) {
		sy_buf_reset(&buf);
		sy_mp_write_bin(&buf, bytes, lengths[i]);
		sy_mp_write_str(&buf, bytes, lengths[i]);
		uint8_t *copy = copy_of(&buf);
		struct sy_mp_reader reader = sy_mp_reader_init(copy, buf.bytes);
		struct sy_span bin = sy_mp_read_bin(&reader, lengths[i]);
		struct sy_span str = sy_mp_read_str(&reader, lengths[i]);
		sy_mp_expect_end(&reader);
		assert_null(reader.fault);
		assert_int_equal(bin.bytes, lengths[i]);
		assert_int_equal(str.bytes, lengths[i]);
		assert_memory_equal(bin.data, bytes, lengths[i]);
		assert_memory_equal(str.data, bytes, lengths[i]);
		if (lengths[i] > 0) { /* over the limit; cut off */
			reader = sy_mp_reader_init(copy, buf.bytes);
			assert_int_equal(sy_mp_read_bin(&reader, lengths[i] - 1).bytes, 0);
			assert_non_null(reader.fault);
			reader = sy_mp_reader_init(copy, (size_t)(bin.data - copy) + lengths[i] - 1);
			assert_int_equal(sy_mp_read_bin(&reader, lengths[i]).bytes, 0);
			assert_non_null(reader.fault);
		}
		free(copy);
	}
	sy_buf_free(&buf);
}

static void test_arrays_and_maps(void **state)
{
	(void)state;
	static const uint32_t counts[] = {0, 1, 15, 16, 65535, 65536};
	struct sy_buf buf = {0};
	for (size_t i = 0; i < COUNT_OF(counts); i++) {
		sy_buf_reset(&buf);
		sy_mp_write_array(&buf, counts[i]);
		for (uint32_t n = 0; n < counts[i]; n++)
			sy_mp_write_nil(&buf);
		struct sy_mp_reader reader = sy_mp_reader_init(buf.data, buf.bytes);
		assert_int_equal(sy_mp_read_array(&reader, counts[i]), counts[i]);
		assert_null(reader.fault);
		reader = sy_mp_reader_init(buf.data, buf.bytes);
		sy_mp_skip(&reader);
		sy_mp_expect_end(&reader);
		assert_null(reader.fault);
		if (counts[i] > 0) { /* one item too few for the count */
			reader = sy_mp_reader_init(buf.data, buf.bytes - 1);
			assert_int_equal(sy_mp_read_array(&reader, counts[i]), 0);
			assert_non_null(reader.fault);
		}
		sy_buf_reset(&buf);
		sy_mp_write_map(&buf, counts[i]);
		for (uint32_t n = 0; n < 2 * counts[i]; n++)
			sy_mp_write_nil(&buf);
		reader = sy_mp_reader_init(buf.data, buf.bytes);
		assert_int_equal(sy_mp_read_map(&reader, counts[i]), counts[i]);
		assert_null(reader.fault);
		reader = sy_mp_reader_init(buf.data, buf.bytes);
		sy_mp_skip(&reader);
		sy_mp_expect_end(&reader);
		assert_null(reader.fault);
		if (counts[i] > 0) {
			reader = sy_mp_reader_init(buf.data, buf.bytes - 1);
			assert_int_equal(sy_mp_read_map(&reader, counts[i]), 0);
			assert_non_null(reader.fault);
		}
	}
	sy_buf_free(&buf);
}

/* One value of every code, told apart from its neighbours by a number after it. */
static void test_skip_passes_every_type(void **state)
{
	(void)state;
	static char body[70000];
	static const size_t ext_lengths[] = {0, 1, 2, 3, 4, 8, 16, 17, 255, 256, 65535, 65536};
	struct sy_buf buf = {0};
	msgpack_packer packer;
	msgpack_packer_init(&packer, &buf, packed);
	uint32_t values = 0;
	msgpack_pack_nil(&packer);
	msgpack_pack_true(&packer);
	msgpack_pack_false(&packer);
	msgpack_pack_float(&packer, 1.5f);
	msgpack_pack_double(&packer, 2.5);
	msgpack_pack_int64(&packer, -5);
	values += 6;
	for (int shift = 0; shift < 64; shift += 8, values += 2) {
		msgpack_pack_int64(&packer, -((int64_t)1 << (shift % 63)));
		msgpack_pack_uint64(&packer, (uint64_t)1 << shift);
	}
	for (size_t i = 0; i < COUNT_OF(ext_lengths); i++, values += 3) {
		msgpack_pack_ext_with_body(&packer, body, ext_lengths[i], 7);
		msgpack_pack_bin_with_body(&packer, body, ext_lengths[i]);
		msgpack_pack_str_with_body(&packer, body, ext_lengths[i]);
	}
	uint8_t *copy = copy_of(&buf);
	struct sy_mp_reader reader = sy_mp_reader_init(copy, buf.bytes);
	for (uint32_t i = 0; i < values; i++) {
		assert_null(reader.fault);
		sy_mp_skip(&reader);
	}
	sy_mp_expect_end(&reader);
	assert_null(reader.fault);
	free(copy);
	sy_buf_free(&buf);
}

static void test_skip_has_a_depth(void **state)
{
	(void)state;
	uint8_t bytes[64];
	for (size_t depth = 1; depth < 20; depth++) {
		memset(bytes, 0x91, depth - 1);
		bytes[depth - 1] = 0x05;
		struct sy_mp_reader reader = sy_mp_reader_init(bytes, depth);
		sy_mp_skip(&reader);
		assert_int_equal(reader.fault == NULL, depth <= SY_MP_DEPTH_MAX);
	}
	/* Empty arrays side by side are no depth. */
	memset(bytes, 0x90, sizeof bytes);
	bytes[0] = 0x9f;
	struct sy_mp_reader reader = sy_mp_reader_init(bytes, 16);
	sy_mp_skip(&reader);
	sy_mp_expect_end(&reader);
	assert_null(reader.fault);
}

/* Every head, alone and with too few bytes after it, as every kind of value. */
static void test_every_code_cut_off(void **state)
{
	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		for (size_t bytes = 1; bytes < 7; bytes++) {
			uint8_t *copy = malloc(bytes);
			assert_non_null(copy);
			memset(copy, 0xfe, bytes);
			copy[0] = (uint8_t)code;
			for (int as = 0; as < 7; as++) {
				struct sy_mp_reader reader = sy_mp_reader_init(copy, bytes);
				switch (as) {
				case 0: sy_mp_read_u64(&reader); break;
				case 1: sy_mp_read_bool(&reader); break;
				case 2: sy_mp_read_bin(&reader, SIZE_MAX); break;
				case 3: sy_mp_read_str(&reader, SIZE_MAX); break;
				case 4: sy_mp_read_array(&reader, UINT32_MAX); break;
				case 5: sy_mp_read_map(&reader, UINT32_MAX); break;
				default: sy_mp_skip(&reader); break;
				}
				assert_true(reader.at <= reader.end);
				assert_true(reader.end == copy + bytes);
			}
			free(copy);
		}
	}
}

enum { AS_UINT, AS_BOOL, AS_BIN, AS_STR, AS_ARRAY, AS_MAP, AS_NONE };

/* What msgpack's specification says of a code that zeros follow. */
static int type_of(unsigned code)
{
	if (code < 0x80 || (code >= 0xcc && code <= 0xd3))
		return AS_UINT;
	if (code < 0x90 || code == 0xde || code == 0xdf)
		return AS_MAP;
	if (code < 0xa0 || code == 0xdc || code == 0xdd)
		return AS_ARRAY;
	if (code < 0xc0 || (code >= 0xd9 && code <= 0xdb))
		return AS_STR;
	if (code == 0xc2 || code == 0xc3)
		return AS_BOOL;
	return code >= 0xc4 && code <= 0xc6 ? AS_BIN : AS_NONE;
}

static void test_every_code_is_read_as_what_it_is_only(void **state)
{
	(void)state;
	uint8_t bytes[64] = {0};
	for (unsigned code = 0; code < 256; code++) {
		bytes[0] = (uint8_t)code;
		for (int as = AS_UINT; as < AS_NONE; as++) {
			struct sy_mp_reader reader = sy_mp_reader_init(bytes, sizeof bytes);
			switch (as) {
			case AS_UINT: sy_mp_read_u64(&reader); break;
			case AS_BOOL: sy_mp_read_bool(&reader); break;
			case AS_BIN: sy_mp_read_bin(&reader, SIZE_MAX); break;
			case AS_STR: sy_mp_read_str(&reader, SIZE_MAX); break;
			case AS_ARRAY: sy_mp_read_array(&reader, UINT32_MAX); break;
			default: sy_mp_read_map(&reader, UINT32_MAX); break;
			}
			assert_int_equal(reader.fault == NULL, as == type_of(code));
		}
		struct sy_mp_reader reader = sy_mp_reader_init(bytes, sizeof bytes);
		assert_int_equal(sy_mp_read_nil(&reader), code == 0xc0);
		assert_int_equal(reader.at - bytes, code == 0xc0);
	}
}

/* After a fault all reads give nothing, and the first fault is the one that is told. */
static void test_a_fault_sticks(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {0xc1, 5, 0xc3, 0xa1, 'x', 0xc4, 1, 'y', 0x91, 1, 0x81, 1, 1};
	struct sy_mp_reader reader = sy_mp_reader_init(bytes, sizeof bytes);
	uint32_t count = 9;
	assert_int_equal(sy_mp_read_u64(&reader), 0);
	const char *fault = reader.fault;
	assert_non_null(fault);
	assert_int_equal(sy_mp_read_u64(&reader), 0);
	assert_false(sy_mp_read_bool(&reader));
	assert_int_equal(sy_mp_read_str(&reader, 9).bytes, 0);
	assert_int_equal(sy_mp_read_bin(&reader, 9).bytes, 0);
	assert_int_equal(sy_mp_read_array(&reader, 9), 0);
	assert_int_equal(sy_mp_read_map(&reader, 9), 0);
	assert_false(sy_mp_read_nil(&reader));
	sy_mp_read_items(&reader, 4, 9, &count);
	assert_int_equal(count, 0);
	sy_mp_skip(&reader);
	sy_mp_expect_end(&reader);
	assert_ptr_equal(reader.fault, fault);
}

static void test_nothing_to_read(void **state)
{
	(void)state;
	struct sy_mp_reader reader = sy_mp_reader_init(NULL, 0);
	assert_false(sy_mp_read_nil(&reader));
	sy_mp_expect_end(&reader);
	assert_null(reader.fault);
	sy_mp_read_u64(&reader);
	assert_non_null(reader.fault);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_integer_in_every_encoding),
		cmocka_unit_test(test_negative_integers_are_refused),
		cmocka_unit_test(test_runs_at_every_length_of_a_head),
		cmocka_unit_test(test_arrays_and_maps),
		cmocka_unit_test(test_skip_passes_every_type),
		cmocka_unit_test(test_skip_has_a_depth),
		cmocka_unit_test(test_every_code_cut_off),
		cmocka_unit_test(test_every_code_is_read_as_what_it_is_only),
		cmocka_unit_test(test_a_fault_sticks),
		cmocka_unit_test(test_nothing_to_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
