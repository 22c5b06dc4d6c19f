/* All of the public API: status and errors, blob indexes, the client, the store. */
#ifndef SLABYARD_SLABYARD_H
#define SLABYARD_SLABYARD_H

#include <slabyard/client.h>
#include <slabyard/directory.h>
#include <slabyard/index.h>
#include <slabyard/status.h>
#include <slabyard/store.h>

#endif
