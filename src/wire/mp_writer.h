/* msgpack-c's packer onto a sy_buf, and the few shapes that messages are made of. What goes
 * wrong shows in buf->failed. */
#ifndef SY_MP_WRITER_H
#define SY_MP_WRITER_H

#include "buf.h"
#include "proto.h"

/* Bytes of a request id on the wire: session u64, slot u32, seq u64. */
enum { SY_REQUEST_ID_BYTES = 20 };

void sy_mp_write_uint(struct sy_buf *buf, uint64_t value);
void sy_mp_write_bool(struct sy_buf *buf, bool value);
void sy_mp_write_nil(struct sy_buf *buf);
void sy_mp_write_array(struct sy_buf *buf, uint32_t count);
void sy_mp_write_map(struct sy_buf *buf, uint32_t pairs);
void sy_mp_write_bin(struct sy_buf *buf, const void *data, size_t bytes);
void sy_mp_write_str(struct sy_buf *buf, const void *text, size_t bytes);
void sy_mp_write_text(struct sy_buf *buf, const char *text); /* NUL-terminated */
/* A bin of `bytes` that the caller fills in; NULL if buf failed. */
uint8_t *sy_mp_write_bin_room(struct sy_buf *buf, size_t bytes);

void sy_request_id_store(uint8_t out[SY_REQUEST_ID_BYTES], struct sy_request_id id);
struct sy_request_id sy_request_id_load(const uint8_t in[SY_REQUEST_ID_BYTES]);

#endif
