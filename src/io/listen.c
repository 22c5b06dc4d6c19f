#include "listen.h"

#include <string.h>

#include "fail.h"

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

sy_status sy_listen_check(const char *listen, bool checked_or_insecure, sy_error *err)
{
	static const char *const nowhere[] = {"tcp://*", "tcp://0.0.0.0:", "tcp://[::]:"};
	static const char *const here[] = {"ipc://", "tcp://127.", "tcp://[::1]:", "tcp://localhost:"};
	for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
		if (starts_with(listen, nowhere[i]))
			return sy_fail(err, SY_E_INVALID, __func__,
			               "clients cannot connect to %.80s: listen at an address of this host",
			               listen);
	}
	for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
		if (starts_with(listen, here[i]))
			return SY_OK;
	}
	if (!starts_with(listen, "tcp://"))
		return sy_fail(err, SY_E_INVALID, __func__,
		               "cannot listen at \"%.80s\": give tcp://ADDRESS:PORT or ipc://PATH",
		               listen);
	const char *host = listen + strlen("tcp://");
	if (host[0] != '[' && strchr(host, ':') != strrchr(host, ':'))
		return sy_fail(err, SY_E_INVALID, __func__,
		               "cannot listen at %.80s: an IPv6 address stands in brackets, as in "
		               "tcp://[::1]:*", listen);
	if (!checked_or_insecure)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "%.80s can be reached from other hosts and nothing checks who connects: "
		               "give --keys DIR (`slabyard keygen DIR` makes them), or say --insecure",
		               listen);
	return SY_OK;
}
