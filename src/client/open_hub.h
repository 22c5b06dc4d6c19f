/* From the options of a client or a store to a hub. */
#ifndef SY_OPEN_HUB_H
#define SY_OPEN_HUB_H

#include "hub.h"

struct sy_open {
	const char *run_dir, *directory, *name_space;
	struct sy_hub_config hub; /* its addresses and zero times are filled in */
};

enum { SY_OPEN_ADDRESS_BYTES = 512 };
static const uint64_t SY_OPEN_TIMEOUT_NS = 120u * 1000000000ull;

/* The directory's address, out of either. SY_E_INVALID: not exactly one is given, or it is too
 * long; SY_E_SYS: no such run directory. */
sy_status sy_open_address(const char *run_dir, const char *directory,
                          char ret_address[SY_OPEN_ADDRESS_BYTES], sy_error *err);

/* SY_E_INVALID, and what sy_hub_open says. */
sy_status sy_open_hub(const struct sy_open *open, struct sy_hub **ret_hub, sy_error *err);

#endif
