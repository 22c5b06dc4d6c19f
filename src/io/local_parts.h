/* What both ends of the local socket have in common: its messages as bytes.
 *
 *   welcome  struct sy_local_welcome, 40 bytes, with one descriptor
 *   refusal  in its place: magic u32, zero u32, why u64
 *   join     magic u32, zero u32, zero u64, with three descriptors
 *   bye      magic u32, zero u32, last notice u64 */
#ifndef SY_LOCAL_PARTS_H
#define SY_LOCAL_PARTS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "local.h"

enum {
	SY_LOCAL_WELCOME_MAGIC = 0x4c53594c, /* "LYSL" */
	SY_LOCAL_BYE_MAGIC = 0x4253594c,     /* "LYSB" */
	SY_LOCAL_JOIN_MAGIC = 0x4a53594c,    /* "LYSJ" */
	SY_LOCAL_REFUSAL_MAGIC = 0x5253594c, /* "LYSR" */
	SY_LOCAL_JOIN_FDS = 3,
};

/* A bye, a join or a refusal. */
struct sy_local_word {
	uint32_t magic, reserved;
	uint64_t number; /* of the last notice; why */
};

enum { SY_LOCAL_OTHER_USER = 1, SY_LOCAL_OTHER_NAMESPACE };

/* SY_E_INVALID if the path is longer than a socket's name may be. */
/* Sends with descriptors, never blocking; false: not sent. */
bool sy_local_send(int fd, const void *text, size_t bytes, const int *fds, size_t fd_count);
/* The descriptors that came with a message, at most max; those beyond are closed. */
size_t sy_local_take(struct msghdr *message, int *fds, size_t max);

sy_status sy_local_address(const char *path, struct sockaddr_un *ret_address, sy_error *err);

#endif
