/* The registry on disk: one file, replaced whole.
 *
 *   0   magic "SYDIR03\n"
 *   8   crc32c of the body, u32
 *   12  bytes of the body, u32
 *   16  body: the reply to `units` of dir_message.h, with every slot
 *
 * It is written aside, synced, renamed and its folder synced, so that after a crash at any
 * instant one of the two is there, whole. */
#ifndef SY_DIR_STORE_H
#define SY_DIR_STORE_H

#include "registry.h"

/* On SY_OK what the registry holds survives a crash of the host. SY_E_SYS; the former file is
 * then still there. */
sy_status sy_dir_store_save(const char *path, const struct sy_registry *registry, sy_error *err);

/* The registry as stored, its epoch raised and its leases begun anew at now_ns
 * (sy_registry_restore); owned by the caller. NULL and SY_OK: there is no such file.
 * SY_E_PROTOCOL: it is damaged; SY_E_SYS. */
sy_status sy_dir_store_load(const char *path, uint64_t now_ns, struct sy_registry **ret_registry,
                            sy_error *err);

#endif
