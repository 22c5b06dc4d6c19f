/* The keys of a cluster whose control messages go between hosts (ZeroMQ CURVE): who has not got
 * them gets no answer. Two files in a directory that `slabyard keygen` makes:
 *
 *   server.key   for units and directories: their pair, and the public key of clients
 *   client.key   for clients: theirs, and the servers' public key
 *
 * Each line is a name, a blank and a key of 40 characters (Z85). */
#ifndef SY_CONTROL_KEYS_H
#define SY_CONTROL_KEYS_H

#include <slabyard/status.h>

enum { SY_CONTROL_KEY_BYTES = 41 }; /* with the NUL */

struct sy_control_keys {
	char server_public[SY_CONTROL_KEY_BYTES], server_secret[SY_CONTROL_KEY_BYTES];
	char client_public[SY_CONTROL_KEY_BYTES], client_secret[SY_CONTROL_KEY_BYTES];
};

/* Makes both files, and the directory if it is absent, readable by their owner alone. SY_E_SYS:
 * one is there already, the system refused, or this ZeroMQ has no CURVE. */
sy_status sy_control_keys_make(const char *dir, sy_error *err);

/* Reads server.key; client_secret is "" then. SY_E_SYS: it cannot be read; SY_E_AUTH: others may
 * read it; SY_E_INVALID: it is damaged. */
sy_status sy_control_keys_server(const char *dir, struct sy_control_keys *ret_keys, sy_error *err);
/* The same of client.key and server_secret. */
sy_status sy_control_keys_client(const char *dir, struct sy_control_keys *ret_keys, sy_error *err);

#endif
