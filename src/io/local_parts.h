/* What both ends of the local socket have in common: its messages as bytes.
 *
 *   welcome  struct sy_local_welcome, 40 bytes, with one descriptor
 *   bye      magic u32, zero u32, last notice u64 */
#ifndef SY_LOCAL_PARTS_H
#define SY_LOCAL_PARTS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "local.h"

enum {
	SY_LOCAL_WELCOME_MAGIC = 0x4c53594c, /* "LYSL" */
	SY_LOCAL_BYE_MAGIC = 0x4253594c,     /* "LYSB" */
};

struct sy_local_bye {
	uint32_t magic, reserved;
	uint64_t last_notice;
};

/* SY_E_INVALID if the path is longer than a socket's name may be. */
sy_status sy_local_address(const char *path, struct sockaddr_un *ret_address, sy_error *err);

#endif
