/* Parts of the audit (blob.h) that its files share. */
#ifndef SY_AUDIT_H
#define SY_AUDIT_H

#include "blob.h"

/* NULL, or what is wrong with a pool's free list. */
const char *sy_audit_pool(struct sy_core *core, const struct sy_pool *pool);
/* Do the links, ends and count of a list agree? */
bool sy_audit_chain(struct sy_core *core, const struct sy_pool *pool, size_t link_at,
                    const struct sy_chain *chain);
/* NULL, or what is wrong with the lists and heaps of parked requests. */
const char *sy_park_fault(struct sy_core *core);

#endif
