#include "control_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "fail.h"
#include "whole.h"

enum { PATH_BYTES = 4096, FILE_BYTES = 512, LINES = 3, RAW_BYTES = 32 };

static const char server_file[] = "server.key", client_file[] = "client.key";

/* One line of a file. */
struct line {
	const char *name;
	char *key;
};

static void server_lines(struct sy_control_keys *keys, struct line out[LINES])
{
	out[0] = (struct line){"server-public", keys->server_public};
	out[1] = (struct line){"server-secret", keys->server_secret};
	out[2] = (struct line){"client-public", keys->client_public};
}

static void client_lines(struct sy_control_keys *keys, struct line out[LINES])
{
	out[0] = (struct line){"server-public", keys->server_public};
	out[1] = (struct line){"client-public", keys->client_public};
	out[2] = (struct line){"client-secret", keys->client_secret};
}

static bool path_set(const char *dir, const char *name, char out[PATH_BYTES])
{
	return sy_format(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES;
}

static sy_status file_make(const char *dir, const char *name, const struct line lines[LINES],
                           sy_error *err)
{
	char path[PATH_BYTES], text[FILE_BYTES];
	size_t bytes = sy_format(text, sizeof text, "%s %s\n%s %s\n%s %s\n", lines[0].name,
	                         lines[0].key, lines[1].name, lines[1].key, lines[2].name,
	                         lines[2].key);
	if (!path_set(dir, name, path))
		return sy_fail(err, SY_E_INVALID, "sy_control_keys_make", "the path is too long");
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int why = fd < 0 || !sy_write_whole(fd, text, bytes) ? errno : sy_sync_whole(fd);
	if (fd >= 0)
		close(fd);
	if (why == 0)
		return SY_OK;
	if (fd >= 0)
		unlink(path);
	return sy_fail(err, SY_E_SYS, "sy_control_keys_make", "cannot make %s: %s", path,
	               strerror(why));
}

sy_status sy_control_keys_make(const char *dir, sy_error *err)
{
	struct sy_control_keys keys = {0};
	struct line lines[LINES];
	char path[PATH_BYTES];
	if (zmq_curve_keypair(keys.server_public, keys.server_secret) != 0 ||
	    zmq_curve_keypair(keys.client_public, keys.client_secret) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "this ZeroMQ makes no keys: %s",
		               zmq_strerror(zmq_errno()));
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return sy_fail(err, SY_E_SYS, __func__, "cannot make %s: %s", dir, strerror(errno));
	/* A pair of which one half is older would lock everybody out. */
	if (path_set(dir, client_file, path) && access(path, F_OK) == 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot make %s: %s", path, strerror(EEXIST));
	server_lines(&keys, lines);
	sy_status status = file_make(dir, server_file, lines, err);
	if (status != SY_OK)
		return status;
	client_lines(&keys, lines);
	status = file_make(dir, client_file, lines, err);
	if (status != SY_OK && path_set(dir, server_file, path))
		unlink(path);
	return status;
}

/* Takes "name key\n" from the front of *text. */
static bool line_take(const char **text, const struct line *line)
{
	uint8_t raw[RAW_BYTES];
	size_t name_bytes = strlen(line->name), key_bytes = SY_CONTROL_KEY_BYTES - 1;
	const char *at = *text;
	if (strncmp(at, line->name, name_bytes) != 0 || at[name_bytes] != ' ')
		return false;
	at += name_bytes + 1;
	if (strnlen(at, key_bytes + 1) <= key_bytes || at[key_bytes] != '\n')
		return false;
	memcpy(line->key, at, key_bytes);
	line->key[key_bytes] = '\0';
	*text = at + key_bytes + 1;
	return zmq_z85_decode(raw, line->key) != NULL;
}

static sy_status file_read(const char *dir, const char *name, const struct line lines[LINES],
                           sy_error *err)
{
	char path[PATH_BYTES], text[FILE_BYTES];
	struct stat info;
	if (!path_set(dir, name, path))
		return sy_fail(err, SY_E_INVALID, "sy_control_keys", "the path is too long");
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t got = fd >= 0 && fstat(fd, &info) == 0 ? sy_read_whole(fd, text, sizeof text - 1) : -1;
	int why = errno;
	if (fd >= 0)
		close(fd);
	if (got < 0)
		return sy_fail(err, SY_E_SYS, "sy_control_keys",
		               "cannot read the key %s: %s; `slabyard keygen DIR` makes keys", path,
		               strerror(why));
	if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return sy_fail(err, SY_E_AUTH, "sy_control_keys",
		               "others may read the key %s: chmod 600 it", path);
	text[got] = '\0';
	const char *at = text;
	bool ok = true;
	for (size_t i = 0; i < LINES && ok; i++)
		ok = line_take(&at, &lines[i]);
	if (!ok || *at != '\0')
		return sy_fail(err, SY_E_INVALID, "sy_control_keys",
		               "the key %s is damaged: copy it anew, or make new ones with `slabyard "
		               "keygen`", path);
	return SY_OK;
}

sy_status sy_control_keys_server(const char *dir, struct sy_control_keys *ret_keys, sy_error *err)
{
	struct sy_control_keys keys = {0};
	struct line lines[LINES];
	server_lines(&keys, lines);
	sy_status status = file_read(dir, server_file, lines, err);
	if (status == SY_OK)
		*ret_keys = keys;
	return status;
}

sy_status sy_control_keys_client(const char *dir, struct sy_control_keys *ret_keys, sy_error *err)
{
	struct sy_control_keys keys = {0};
	struct line lines[LINES];
	client_lines(&keys, lines);
	sy_status status = file_read(dir, client_file, lines, err);
	if (status == SY_OK)
		*ret_keys = keys;
	return status;
}
