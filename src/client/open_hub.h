/* From the options of a client or a store to a hub. */
#ifndef SY_OPEN_HUB_H
#define SY_OPEN_HUB_H

#include "hub.h"

struct sy_open {
	const char *run_dir, *directory, *name_space;
	struct sy_hub_config hub; /* its addresses and zero times are filled in */
};

/* SY_E_INVALID, and what sy_hub_open says. */
sy_status sy_open_hub(const struct sy_open *open, struct sy_hub **ret_hub, sy_error *err);

#endif
