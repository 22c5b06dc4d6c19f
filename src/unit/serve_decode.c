/* From a decoded message to the core's event, with the blob's index where one is needed. */
#include "serve_state.h"

#include <stdlib.h>

#include "guard.h"

/* A copy out of memory that clients may write at this very moment. The compiler must not read
 * that memory again later in place of the copy: what was checked is what is used. */
static void copy_unstable(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
	__asm__ volatile("" ::: "memory");
}

static bool grow_index(struct sy_serve_room *room, size_t bytes)
{
	if (room->index_capacity >= bytes)
		return true;
	size_t capacity = (size_t)sy_align_up(bytes, 4096);
	free(room->index_copy);
	room->index_copy = malloc(capacity);
	room->index_capacity = room->index_copy != NULL ? capacity : 0;
	return room->index_copy != NULL;
}

/* The index at the head of `blob`, copied, decoded and checked; NULL if it is not valid. Its
 * size is bounded by sy_index_peek. */
static const sy_index *read_index(struct sy_serve_room *room, const uint8_t *blob,
                                  uint64_t blob_bytes)
{
	_Alignas(8) uint8_t header[SY_INDEX_HEADER_BYTES];
	uint64_t index_bytes = 0;
	if (blob_bytes < sizeof header)
		return NULL;
	copy_unstable(header, blob, sizeof header);
	if (sy_index_peek(header, blob_bytes, &index_bytes, NULL) != SY_OK)
		return NULL;
	SY_ASSERT(index_bytes >= sizeof header && index_bytes <= blob_bytes);
	if (!grow_index(room, (size_t)index_bytes))
		return NULL;
	copy_unstable(room->index_copy, blob, (size_t)index_bytes);
	if (sy_index_decode(room->index_copy, (size_t)index_bytes, blob_bytes, room->columns,
	                    SY_ENTRIES_PER_BLOB_MAX, room->marks, SY_ENTRIES_PER_BLOB_MAX,
	                    &room->request.index, NULL) != SY_OK)
		return NULL;
	return &room->request.index;
}

static void fill_hello(const struct sy_hello_args *args, struct sy_event_request *event)
{
	event->hello.version = args->version;
	event->hello.slot_count = args->slot_count;
	event->hello.ns = args->ns;
	event->hello.identity = args->identity;
	event->hello.connection_count = args->connection_count;
	event->hello.token = args->token;
}

static void fill_commit(struct sy_serve *serve, const struct sy_commit_args *args,
                        struct sy_event_request *event)
{
	uint64_t offset = 0, nbytes = 0;
	event->commit.blob_id = args->blob_id;
	event->commit.generation = args->generation;
	event->commit.until_ns = args->until_ns;
	event->commit.next_bytes = args->next_bytes;
	event->commit.grant = args->grant;
	event->commit.nbytes = args->nbytes;
	event->commit.entry_count = args->entry_count;
	event->commit.index = NULL;
	if (!sy_core_commit_region(serve->core, event, &offset, &nbytes))
		return;
	SY_ASSERT(offset <= serve->params.slab_bytes && nbytes <= serve->params.slab_bytes - offset);
	event->commit.index = read_index(serve->room, serve->slab + offset, nbytes);
}

static void fill_put_inline(struct sy_serve *serve, const struct sy_put_inline_args *args,
                            struct sy_event_request *event)
{
	event->put_inline.index = NULL;
	event->put_inline.until_ns = args->until_ns;
	event->put_inline.ssd = args->ssd;
	if (!sy_core_wants_index(serve->core, event))
		return;
	const sy_index *index = read_index(serve->room, args->blob.data, args->blob.bytes);
	/* The core names the blob by its index; the message must not name another. */
	if (index != NULL && memcmp(&index->blob_id, &args->blob_id, sizeof index->blob_id) == 0)
		event->put_inline.index = index;
}

static bool fill_resolve(struct sy_serve *serve, const struct sy_resolve_args *args,
                         struct sy_event_request *event)
{
	uint64_t keys = args->field_of != NULL ? args->row_count
	                                       : (uint64_t)args->row_count * args->field_count;
	if (keys > SY_KEYS_PER_RESOLVE_MAX)
		return false;
	serve->room->request.key_count = (uint32_t)keys;
	serve->room->resolved.shape_count = 0;
	event->resolve.rows = args->rows;
	event->resolve.fields = args->fields;
	event->resolve.field_of = args->field_of;
	event->resolve.row_count = args->row_count;
	event->resolve.field_count = args->field_count;
	event->resolve.key_count = serve->room->request.key_count;
	event->resolve.inline_max_bytes = args->inline_max_bytes;
	event->resolve.out = &serve->room->resolved;
	return true;
}

static void fill_release(const struct sy_release_args *args, struct sy_event_request *event)
{
	event->release.rows = args->rows;
	event->release.fields = args->fields;
	event->release.row_count = args->row_count;
	event->release.field_count = args->field_count;
	event->release.all_fields = args->all_fields;
}

static void fill_scan(struct sy_serve *serve, const struct sy_scan_args *args,
                      struct sy_event_request *event)
{
	serve->room->request.scan_count = 0;
	serve->room->request.scan_cursor = 0;
	event->scan.cursor = args->cursor;
	event->scan.first_row = args->first_row;
	event->scan.last_row = args->last_row;
	event->scan.fields = args->fields;
	event->scan.field_count = args->field_count;
	event->scan.limit = args->limit;
	event->scan.out = serve->room->scan_items;
	event->scan.ret_count = &serve->room->request.scan_count;
	event->scan.ret_cursor = &serve->room->request.scan_cursor;
}

bool sy_serve_fill(struct sy_serve *serve, struct sy_event_request *ret_event,
                   enum sy_why *ret_why)
{
	const struct sy_request *wire = &serve->room->request.wire;
	ret_event->id = wire->id;
	ret_event->op = wire->op;
	ret_event->first_notice = wire->first_notice;
	ret_event->notice_count = wire->notice_count;
	ret_event->notices = wire->notices;
	switch (wire->op) {
	case SY_OP_HELLO:
		if (wire->hello.token != 0 &&
		    !serve->io.token_lives(serve->io.context, wire->hello.token)) {
			*ret_why = SY_WHY_TOKEN;
			return false;
		}
		fill_hello(&wire->hello, ret_event);
		return true;
	case SY_OP_ALLOC:
		ret_event->alloc.blob_id = wire->alloc.blob_id;
		ret_event->alloc.nbytes = wire->alloc.nbytes;
		ret_event->alloc.until_ns = wire->alloc.until_ns;
		ret_event->alloc.entry_count = wire->alloc.entry_count;
		ret_event->alloc.ssd = wire->alloc.ssd;
		return true;
	case SY_OP_COMMIT:
		fill_commit(serve, &wire->commit, ret_event);
		return true;
	case SY_OP_PUT_INLINE:
		fill_put_inline(serve, &wire->put_inline, ret_event);
		return true;
	case SY_OP_RESOLVE_KEYS:
		*ret_why = SY_WHY_TOO_MANY;
		return fill_resolve(serve, &wire->resolve, ret_event);
	case SY_OP_RELEASE_ROWS:
		fill_release(&wire->release, ret_event);
		return true;
	case SY_OP_PIN_CHECK:
		*ret_why = SY_WHY_TOO_MANY;
		if (wire->pin_check.count > SY_NAMES_PER_PIN_CHECK_MAX)
			return false;
		memset(serve->room->held, 0, wire->pin_check.count);
		ret_event->pin_check.names = wire->pin_check.names;
		ret_event->pin_check.count = wire->pin_check.count;
		ret_event->pin_check.held = serve->room->held;
		return true;
	case SY_OP_SCAN:
		fill_scan(serve, &wire->scan, ret_event);
		return true;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		return true;
	}
	*ret_why = SY_WHY_MALFORMED; /* no such op: the decoder lets none through */
	return false;
}
