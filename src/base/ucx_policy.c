#include "ucx_policy.h"
#include "fail.h"

#include <string.h>

static const char set_tls[] = "export UCX_TLS=rc,sm,self";

static bool starts_with(const char *word, size_t bytes, const char *prefix)
{
	size_t length = strlen(prefix);
	return bytes >= length && memcmp(word, prefix, length) == 0;
}

static bool is_word(const char *word, size_t bytes, const char *other)
{
	return bytes == strlen(other) && memcmp(word, other, bytes) == 0;
}

static bool is_rdma(const char *word, size_t bytes)
{
	static const char *const prefixes[] = {"rc", "dc", "ud", "ib"};
	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
		if (starts_with(word, bytes, prefixes[i]))
			return true;
	}
	return false;
}

/* What the words of a list, "a,b", name. */
struct named {
	bool rdma, tcp, all;
};

static struct named list_read(const char *list)
{
	struct named named = {0};
	for (const char *at = list;; at++) {
		size_t bytes = strcspn(at, ",");
		named.rdma = named.rdma || is_rdma(at, bytes);
		named.tcp = named.tcp || starts_with(at, bytes, "tcp");
		named.all = named.all || is_word(at, bytes, "all");
		at += bytes;
		if (*at == '\0')
			return named;
	}
}

static sy_status tls_check(const char *tls, sy_error *err)
{
	if (tls == NULL || tls[0] == '\0')
		return sy_fail(err, SY_E_POLICY, "sy_ucx_policy_check",
		               "UCX_TLS is not set, so UCX may take TCP: %s", set_tls);
	bool excludes = tls[0] == '^';
	struct named named = list_read(excludes ? tls + 1 : tls);
	const char *fault = NULL;
	if (excludes)
		fault = named.tcp ? NULL : "does not exclude tcp";
	else if (named.all)
		fault = "allows all, and so TCP";
	else if (named.tcp)
		fault = "allows TCP";
	else if (!named.rdma)
		fault = "names no RDMA transport";
	if (fault == NULL)
		return SY_OK;
	return sy_fail(err, SY_E_POLICY, "sy_ucx_policy_check", "UCX_TLS=%.80s %s: %s", tls, fault,
	               set_tls);
}

/* "mlx5_0:1": a name, a colon, a decimal number. A network interface has no port. */
static bool has_port(const char *word, size_t bytes)
{
	const char *colon = memchr(word, ':', bytes);
	if (colon == NULL || colon == word || colon + 1 == word + bytes)
		return false;
	for (const char *at = colon + 1; at < word + bytes; at++) {
		if (*at < '0' || *at > '9')
			return false;
	}
	return true;
}

sy_status sy_ucx_policy_check(const char *tls, const char *net_devices, sy_error *err)
{
	sy_status status = tls_check(tls, err);
	if (status != SY_OK || net_devices == NULL || strcmp(net_devices, "all") == 0)
		return status;
	for (const char *at = net_devices;; at++) {
		size_t bytes = strcspn(at, ",");
		if (!has_port(at, bytes))
			return sy_fail(err, SY_E_POLICY, __func__,
			               "UCX_NET_DEVICES=%.80s names something else than an RDMA device with "
			               "its port: export UCX_NET_DEVICES=mlx5_0:1, or unset it", net_devices);
		at += bytes;
		if (*at == '\0')
			return SY_OK;
	}
}

sy_status sy_path_from_name(const char *what, const char *name, sy_path *ret_path, sy_error *err)
{
	static const char *const names[] = {"auto", "shm", "ucx"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_path = (sy_path)i;
			return SY_OK;
		}
	}
	return sy_fail(err, SY_E_INVALID, __func__, "%s %.60s: it is auto, shm or ucx", what, name);
}

sy_status sy_policy_from_name(const char *what, const char *name, sy_policy *ret_policy,
                              sy_error *err)
{
	static const char *const names[] = {"", "same-host", "rdma", "allow-tcp"};

	for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_policy = (sy_policy)i;
			return SY_OK;
		}
	}
	return sy_fail(err, SY_E_INVALID, __func__, "%s %.60s: it is same-host, rdma or allow-tcp",
	               what, name);
}
