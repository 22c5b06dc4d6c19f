#include "mp_writer.h"

#include <msgpack/pack.h>

static int packed(void *data, const char *bytes, size_t count)
{
	struct sy_buf *buf = data;
	sy_buf_append(buf, bytes, count);
	return buf->failed ? -1 : 0;
}

static msgpack_packer packer_to(struct sy_buf *buf)
{
	msgpack_packer packer;
	msgpack_packer_init(&packer, buf, packed);
	return packer;
}

void sy_mp_write_uint(struct sy_buf *buf, uint64_t value)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_uint64(&packer, value);
}

void sy_mp_write_bool(struct sy_buf *buf, bool value)
{
	msgpack_packer packer = packer_to(buf);
	if (value)
		msgpack_pack_true(&packer);
	else
		msgpack_pack_false(&packer);
}

void sy_mp_write_nil(struct sy_buf *buf)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_nil(&packer);
}

void sy_mp_write_array(struct sy_buf *buf, uint32_t count)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_array(&packer, count);
}

void sy_mp_write_map(struct sy_buf *buf, uint32_t pairs)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_map(&packer, pairs);
}

uint8_t *sy_mp_write_bin_room(struct sy_buf *buf, size_t bytes)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_bin(&packer, bytes); /* of 32 bits; a longer one does not fit buf either */
	return sy_buf_extend(buf, bytes);
}

void sy_mp_write_bin(struct sy_buf *buf, const void *data, size_t bytes)
{
	uint8_t *room = sy_mp_write_bin_room(buf, bytes);
	if (room != NULL && bytes > 0)
		memcpy(room, data, bytes);
}

void sy_mp_write_str(struct sy_buf *buf, const void *text, size_t bytes)
{
	msgpack_packer packer = packer_to(buf);
	msgpack_pack_str(&packer, bytes);
	sy_buf_append(buf, text, bytes);
}

void sy_mp_write_text(struct sy_buf *buf, const char *text)
{
	sy_mp_write_str(buf, text, strlen(text));
}

void sy_request_id_store(uint8_t out[SY_REQUEST_ID_BYTES], struct sy_request_id id)
{
	sy_store_u64(out, id.session);
	sy_store_u32(out + 8, id.slot);
	sy_store_u64(out + 12, id.seq);
}

struct sy_request_id sy_request_id_load(const uint8_t in[SY_REQUEST_ID_BYTES])
{
	return (struct sy_request_id){
		.session = sy_load_u64(in), .slot = sy_load_u32(in + 8), .seq = sy_load_u64(in + 12)};
}
