/* Parts of the audit (blob.h) that its two files share. */
#ifndef SY_AUDIT_H
#define SY_AUDIT_H

#include "blob.h"

/* NULL, or what is wrong with a pool's free list. */
const char *sy_audit_pool(struct sy_core *core, const struct sy_pool *pool);

#endif
