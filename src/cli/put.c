/* slabyard put: puts one value out of a file. */
#include "cluster_client.h"
#include "commands.h"
#include "fail.h"
#include "key.h"
#include "text.h"
#include "units.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20 };

static const char details[] =
	"Puts the bytes of FILE (- or none: stdin) as field FIELD of row GIDX; a value that is there\n"
	"is overwritten. They are of kind bytes unless told otherwise: --utf8 makes them text, which\n"
	"must be UTF-8; --dtype makes them a tensor's elements, little-endian, of rank 1 or of the\n"
	"shape that --shape gives, as in 2,3, or in scalar for a single number.\n"
	"\n"
	"Types: bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 f8_e4m3fn f8_e5m2 f8_e4m3fnuz\n"
	"f8_e5m2fnuz c64 c128.\n";

struct put {
	const struct sy_cli *cli;
	const char *path, *dtype_name, *shape_text;
	bool is_utf8;
	sy_key key;
	sy_value value;
	struct sy_text bytes;
};

static bool dtype_by_name(const char *name, sy_dtype *ret_dtype)
{
#define DTYPE_TRY(dtype, number, size, text) \
	if (dtype != SY_DTYPE_NONE && strcmp(name, text) == 0) { \
		*ret_dtype = dtype; \
		return true; \
	}
	SY_DTYPE_LIST(DTYPE_TRY)
#undef DTYPE_TRY
	return false;
}

static sy_status shape_parse(const char *text, sy_value *value, sy_error *err)
{
	sy_error inner;
	value->rank = 0;
	if (strcmp(text, "scalar") == 0)
		return SY_OK;
	for (const char *at = text;; at++) {
		size_t bytes = strcspn(at, ",");
		if (value->rank == SY_RANK_MAX)
			return sy_fail(err, SY_E_INVALID, __func__, "--shape has more than %d sizes",
			               SY_RANK_MAX);
		if (sy_parse_u64(at, bytes, &value->dims[value->rank++], &inner) != SY_OK)
			return sy_fail(err, SY_E_INVALID, __func__,
			               "--shape: %s; a shape is as 2,3 or scalar", inner.message);
		at += bytes;
		if (*at == '\0')
			return SY_OK;
	}
}

/* What the options say of the value, before its bytes are read. */
static sy_status form_read(struct put *put, sy_error *err)
{
	sy_value *value = &put->value;
	value->kind = put->is_utf8 ? SY_KIND_UTF8 : SY_KIND_BYTES;
	if (put->dtype_name == NULL && put->shape_text == NULL)
		return SY_OK;
	if (put->dtype_name == NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "--shape is of a tensor: give --dtype, too");
	if (put->is_utf8)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "a value is --utf8 or has a --dtype, not both");
	value->kind = SY_KIND_TENSOR;
	if (!dtype_by_name(put->dtype_name, &value->dtype))
		return sy_fail(err, SY_E_INVALID, __func__, "no type \"%.40s\"; --help lists them",
		               put->dtype_name);
	return put->shape_text != NULL ? shape_parse(put->shape_text, value, err) : SY_OK;
}

static sy_status bytes_read(struct put *put, sy_error *err)
{
	bool is_stdin = put->path == NULL || strcmp(put->path, "-") == 0;
	const char *name = is_stdin ? "stdin" : put->path;
	struct stat about;
	int fd = is_stdin ? STDIN_FILENO : open(put->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &about) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot open %s: %s", name, strerror(errno));
	/* The room for a whole file at once, so that a large one is not copied as it grows. */
	if (S_ISREG(about.st_mode) && about.st_size > 0) {
		sy_text_extend(&put->bytes, (size_t)about.st_size + 1);
		sy_text_cut(&put->bytes, 0);
	}
	ssize_t got = 1;
	while (got != 0 && !put->bytes.failed) {
		size_t before = put->bytes.bytes;
		size_t left = put->bytes.capacity - before;
		size_t wanted = left > 0 && left < READ_BYTES ? left : READ_BYTES;
		void *room = sy_text_extend(&put->bytes, wanted);
		got = room != NULL ? read(fd, room, wanted) : 0;
		int why = errno;
		sy_text_cut(&put->bytes, before + (got > 0 ? (size_t)got : 0));
		if (got < 0 && why != EINTR) {
			sy_fail(err, SY_E_SYS, __func__, "cannot read %s: %s", name, strerror(why));
			break;
		}
	}
	if (!is_stdin)
		close(fd);
	if (put->bytes.failed)
		return sy_fail(err, SY_E_SYS, __func__, "no memory for the bytes of %s", name);
	return got < 0 ? SY_E_SYS : SY_OK;
}

static sy_status utf8_check(const struct put *put, sy_error *err)
{
	const char *text = put->bytes.data;
	size_t bytes = put->bytes.bytes;
	for (size_t at = 0; at < bytes;) {
		size_t step = sy_utf8_bytes(text + at, bytes - at);
		if (step == 0)
			return sy_fail(err, SY_E_INVALID, __func__, "not UTF-8 from byte %zu on", at);
		at += step;
	}
	return SY_OK;
}

static sy_status tensor_check(struct put *put, sy_error *err)
{
	sy_value *value = &put->value;
	uint64_t element = sy_dtype_bytes(value->dtype), bytes = element;
	const char *type = sy_dtype_name(value->dtype);
	if (put->shape_text == NULL) {
		value->rank = 1;
		value->dims[0] = value->nbytes / element;
		if (value->nbytes % element != 0)
			return sy_fail(err, SY_E_INVALID, __func__,
			               "%llu bytes are no whole number of %s, which take %llu each",
			               (unsigned long long)value->nbytes, type, (unsigned long long)element);
		return SY_OK;
	}
	for (uint32_t i = 0; i < value->rank; i++) {
		if (__builtin_mul_overflow(bytes, value->dims[i], &bytes))
			return sy_fail(err, SY_E_INVALID, __func__, "--shape %.60s is too large",
			               put->shape_text);
	}
	if (bytes != value->nbytes)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "%s of shape %.60s takes %llu bytes, and there are %llu", type,
		               put->shape_text, (unsigned long long)bytes,
		               (unsigned long long)value->nbytes);
	return SY_OK;
}

static int put_run(struct put *put)
{
	sy_client *client = NULL;
	sy_error err = {0};
	if (put->cli->directory == NULL && !sy_cli_needs_run_dir(put->cli))
		return SY_EXIT_USAGE;
	sy_status status = bytes_read(put, &err);
	put->value.data = put->bytes.data != NULL ? put->bytes.data : "";
	put->value.nbytes = put->bytes.bytes;
	if (status == SY_OK && put->is_utf8)
		status = utf8_check(put, &err);
	if (status == SY_OK && put->value.kind == SY_KIND_TENSOR)
		status = tensor_check(put, &err);
	if (status != SY_OK)
		return sy_cli_fail(put->cli, "%s", err.message);
	int exit_status = sy_cluster_client_open(put->cli, &client);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	status = sy_client_put(client, &put->key, &put->value, 1, 0, &err);
	sy_client_close(client);
	if (status != SY_OK)
		return sy_cluster_client_fail(put->cli, &err);
	printf("put %" PRIu64 " byte%s as %" PRIu64 "@%s\n", put->value.nbytes,
	       put->value.nbytes == 1 ? "" : "s", put->key.row, put->key.field);
	return sy_cli_finish(put->cli);
}

int sy_command_put(struct sy_cli *cli, int argc, char **argv)
{
	struct put put = {.cli = cli};
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		{.name = "utf8", .kind = SY_OPTION_FLAG, .target = &put.is_utf8,
		 .help = "the bytes are text"},
		{.name = "dtype", .value = "TYPE", .kind = SY_OPTION_TEXT, .target = &put.dtype_name,
		 .help = "the bytes are elements of a tensor, as in i64, f32 or bf16"},
		{.name = "shape", .value = "A,B", .kind = SY_OPTION_TEXT, .target = &put.shape_text,
		 .help = "the tensor's shape, or scalar; default: as many as there are"},
	};
	const struct sy_usage usage = {
		.name = "put",
		.arguments = "GIDX FIELD [FILE]",
		.summary = "Put one value out of a file or stdin.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
		.argument_min = 2,
		.argument_max = 3,
	};
	struct sy_arguments arguments;
	int exit_status;
	sy_error err = {0};
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (sy_cluster_key_parse(arguments.list, &put.key, &err) != SY_OK ||
	    form_read(&put, &err) != SY_OK)
		return sy_cli_misused(cli, "%s", err.message);
	put.path = arguments.count > 2 ? arguments.list[2] : NULL;
	exit_status = put_run(&put);
	sy_text_done(&put.bytes);
	return exit_status;
}
