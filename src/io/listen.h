/* Where a unit or a directory may listen. */
#ifndef SY_LISTEN_H
#define SY_LISTEN_H

#include <stdbool.h>

#include <slabyard/status.h>

/* Addresses of this host alone are free; one that others reach only if keys check who connects,
 * or that is wanted although nothing does. SY_E_INVALID, and what would do: no address, one that
 * names no host (others are told it, and cannot connect there), or neither of those. */
sy_status sy_listen_check(const char *listen, bool checked_or_insecure, sy_error *err);

#endif
