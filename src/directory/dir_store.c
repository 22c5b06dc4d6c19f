#include "dir_store.h"
#include "crc32c.h"
#include "fail.h"
#include "failpoints.h"
#include "whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 16, PATH_BYTES = 4096 };

static const char magic[8] = "SYDIR03\n";

/* The whole file in memory; buf->failed if there was none. */
static void registry_encode(const struct sy_registry *registry, struct sy_buf *buf)
{
	uint32_t slot_count = sy_registry_slot_count(registry);
	struct sy_unit_info *units = calloc(slot_count, sizeof *units);
	if (units == NULL) {
		buf->failed = true;
		return;
	}
	struct sy_dir_reply reply = {
		.epoch = sy_registry_epoch(registry),
		.slot_count = slot_count,
		.times = *sy_registry_times(registry),
		.units = units,
		.unit_count = sy_registry_units(registry, 0, units),
	};
	sy_buf_extend(buf, HEADER_BYTES);
	sy_dir_reply_encode(&reply, SY_DIR_OP_UNITS, buf);
	free(units);
	if (buf->failed)
		return;
	size_t body_bytes = buf->bytes - HEADER_BYTES;
	memcpy(buf->data, magic, sizeof magic);
	sy_store_u32(buf->data + 8, sy_crc32c(0, buf->data + HEADER_BYTES, body_bytes));
	sy_store_u32(buf->data + 12, (uint32_t)body_bytes);
}

/* Makes the rename itself last. */
static bool folder_sync(const char *path)
{
	char folder[PATH_BYTES];
	const char *slash = strrchr(path, '/');
	size_t bytes = slash == NULL ? 0 : (size_t)(slash - path);
	if (bytes >= sizeof folder)
		return false;
	sy_format(folder, sizeof folder, "%.*s", bytes > 0 ? (int)bytes : 1,
	          bytes > 0 ? path : slash != NULL ? "/" : ".");
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	int why = sy_sync_whole(fd);
	close(fd);
	errno = why;
	return why == 0;
}

static bool file_write(const char *path, const struct sy_buf *buf)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	int why = sy_write_whole(fd, buf->data, buf->bytes) ? sy_sync_whole(fd) : errno;
	close(fd);
	errno = why;
	return why == 0;
}

sy_status sy_dir_store_save(const char *path, const struct sy_registry *registry, sy_error *err)
{
	char aside[PATH_BYTES];
	if (sy_format(aside, sizeof aside, "%s.new", path) >= sizeof aside)
		return sy_fail(err, SY_E_SYS, __func__, "the path of the directory's state is too long");
	struct sy_buf buf = {0};
	registry_encode(registry, &buf);
	if (buf.failed) {
		sy_buf_free(&buf);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	bool ok = file_write(aside, &buf);
	SY_FAILPOINT(DIRECTORY_STATE_WRITTEN);
	ok = ok && rename(aside, path) == 0;
	SY_FAILPOINT(DIRECTORY_STATE_MOVED);
	ok = ok && folder_sync(path);
	int why = errno;
	sy_buf_free(&buf);
	if (ok)
		return SY_OK;
	unlink(aside);
	return sy_fail(err, SY_E_SYS, __func__, "cannot write %.120s: %s", path, strerror(why));
}

/* SY_E_PROTOCOL: it is damaged; SY_E_SYS: memory is short. */
static sy_status registry_decode(const uint8_t *data, size_t bytes, uint64_t now_ns,
                                 struct sy_registry **ret_registry)
{
	if (bytes < HEADER_BYTES || memcmp(data, magic, sizeof magic) != 0)
		return SY_E_PROTOCOL;
	const uint8_t *body = data + HEADER_BYTES;
	size_t body_bytes = bytes - HEADER_BYTES;
	if (sy_load_u32(data + 12) != body_bytes ||
	    sy_load_u32(data + 8) != sy_crc32c(0, body, body_bytes))
		return SY_E_PROTOCOL;
	struct sy_unit_info *units = calloc(SY_UNITS_MAX, sizeof *units);
	if (units == NULL)
		return SY_E_SYS;
	struct sy_dir_reply reply;
	sy_status status = SY_E_PROTOCOL;
	if (sy_dir_reply_decode(body, body_bytes, SY_DIR_OP_UNITS, units, SY_UNITS_MAX, &reply,
	                        NULL) == SY_OK &&
	    reply.fault == SY_DIR_FAULT_NONE && reply.unit_count == reply.slot_count)
		status = sy_registry_restore(reply.epoch, &reply.times, units, reply.slot_count, now_ns,
		                             ret_registry);
	free(units);
	return status;
}

sy_status sy_dir_store_load(const char *path, uint64_t now_ns, struct sy_registry **ret_registry,
                            sy_error *err)
{
	const size_t room = HEADER_BYTES + SY_DIR_REPLY_MAX_BYTES + 1;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		*ret_registry = NULL;
		return SY_OK;
	}
	if (fd < 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot read %.120s: %s", path, strerror(errno));
	uint8_t *data = malloc(room);
	ssize_t bytes = data != NULL ? sy_read_whole(fd, data, room) : -1;
	int why = errno;
	struct sy_registry *registry = NULL;
	sy_status status = SY_E_PROTOCOL;
	if (bytes >= 0 && (size_t)bytes < room)
		status = registry_decode(data, (size_t)bytes, now_ns, &registry);
	free(data);
	close(fd);
	if (bytes < 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot read %.120s: %s", path, strerror(why));
	if (status == SY_E_PROTOCOL)
		return sy_fail(err, status, __func__, "%.120s is damaged", path);
	if (status != SY_OK)
		return sy_fail(err, status, __func__, "out of memory to read %.120s", path);
	*ret_registry = registry;
	return SY_OK;
}
