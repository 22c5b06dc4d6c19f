#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "fail.h"
#include "units.h"

bool sy_address_from_host(const char *host, struct sockaddr_storage *ret_address,
                          socklen_t *ret_bytes)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memset(ret_address, 0, sizeof *ret_address);
	if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
		memcpy(ret_address, &v4, sizeof v4);
		*ret_bytes = sizeof v4;
		return true;
	}
	if (inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
		return false;
	memcpy(ret_address, &v6, sizeof v6);
	*ret_bytes = sizeof v6;
	return true;
}

bool sy_address_from_text(const char *text, struct sockaddr_storage *ret_address,
                          socklen_t *ret_bytes)
{
	char host[SY_UCX_ADDRESS_BYTES];
	const char *colon = strrchr(text, ':');
	uint64_t port = 0;

	if (colon == NULL || strlen(text) >= sizeof host)
		return false;
	size_t bytes = (size_t)(colon - text);
	bool bracketed = bytes >= 2 && text[0] == '[' && colon[-1] == ']';
	memcpy(host, text + bracketed, bytes - 2 * bracketed);
	host[bytes - 2 * bracketed] = '\0';
	if (sy_parse_u64(colon + 1, strlen(colon + 1), &port, NULL) != SY_OK || port == 0 ||
	    port > 65535 || !sy_address_from_host(host, ret_address, ret_bytes))
		return false;
	in_port_t net = htons((uint16_t)port);
	if (ret_address->ss_family == AF_INET)
		((struct sockaddr_in *)(void *)ret_address)->sin_port = net;
	else
		((struct sockaddr_in6 *)(void *)ret_address)->sin6_port = net;
	return true;
}

void sy_address_text(const struct sockaddr *address, char ret_text[SY_UCX_ADDRESS_BYTES])
{
	char host[INET6_ADDRSTRLEN] = "";

	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)address;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
		sy_format(ret_text, SY_UCX_ADDRESS_BYTES, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
	} else {
		const struct sockaddr_in6 *v6 = (const void *)address;
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
		sy_format(ret_text, SY_UCX_ADDRESS_BYTES, "[%s]:%u", host,
		          (unsigned)ntohs(v6->sin6_port));
	}
}
