/* Socket addresses as text: "10.0.0.1:4791", "[fe80::1]:4791". */
#ifndef SY_ADDRESS_H
#define SY_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "join.h"

/* A numeric host without a port; port 0. False: it is none. */
bool sy_address_from_host(const char *host, struct sockaddr_storage *ret_address,
                          socklen_t *ret_bytes);
bool sy_address_from_text(const char *text, struct sockaddr_storage *ret_address,
                          socklen_t *ret_bytes);
void sy_address_text(const struct sockaddr *address, char ret_text[SY_UCX_ADDRESS_BYTES]);

#endif
