#include "name_set.h"
#include "bytes.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

struct name {
	uint64_t hash;
	size_t at, bytes; /* in the set's text */
	uint32_t scope;
	bool is_used;
};

/* Open addressing, at most half full; slots a power of two. */
struct sy_name_set {
	struct name *names;
	size_t slots, count;
	struct sy_text text;
};

struct sy_name_set *sy_name_set_new(void)
{
	struct sy_name_set *set = calloc(1, sizeof *set);
	if (set == NULL)
		return NULL;
	set->names = calloc(FIRST_SLOTS, sizeof *set->names);
	if (set->names == NULL) {
		free(set);
		return NULL;
	}
	set->slots = FIRST_SLOTS;
	return set;
}

void sy_name_set_free(struct sy_name_set *set)
{
	if (set == NULL)
		return;
	sy_text_done(&set->text);
	free(set->names);
	free(set);
}

void sy_name_set_clear(struct sy_name_set *set)
{
	memset(set->names, 0, set->slots * sizeof *set->names);
	set->count = 0;
	sy_text_cut(&set->text, 0);
}

static uint64_t name_hash(uint32_t scope, const char *name, size_t bytes)
{
	uint64_t hash = sy_mix64(scope + ((uint64_t)bytes << 32) + 1);
	size_t at = 0;
	for (; bytes - at >= 8; at += 8)
		hash = sy_mix64(hash ^ sy_load_u64(name + at));
	for (; at < bytes; at++)
		hash = sy_mix64(hash ^ (uint8_t)name[at]);
	return hash;
}

static bool grow(struct sy_name_set *set)
{
	size_t slots = set->slots * 2;
	struct name *names = calloc(slots, sizeof *names);
	if (names == NULL)
		return false;
	for (size_t i = 0; i < set->slots; i++) {
		if (!set->names[i].is_used)
			continue;
		size_t at = set->names[i].hash & (slots - 1);
		while (names[at].is_used)
			at = (at + 1) & (slots - 1);
		names[at] = set->names[i];
	}
	free(set->names);
	set->names = names;
	set->slots = slots;
	return true;
}

bool sy_name_set_add(struct sy_name_set *set, uint32_t scope, const char *name, size_t bytes,
                     bool *ret_is_new)
{
	uint64_t hash = name_hash(scope, name, bytes);
	if (set->count * 2 >= set->slots && !grow(set))
		return false;
	size_t at = hash & (set->slots - 1);
	for (; set->names[at].is_used; at = (at + 1) & (set->slots - 1)) {
		const struct name *one = &set->names[at];
		if (one->hash == hash && one->scope == scope && one->bytes == bytes &&
		    (bytes == 0 || memcmp(set->text.data + one->at, name, bytes) == 0)) {
			*ret_is_new = false;
			return true;
		}
	}
	struct name added = {.hash = hash, .at = set->text.bytes, .bytes = bytes, .scope = scope,
	                     .is_used = true};
	sy_text_add(&set->text, name, bytes);
	if (set->text.failed)
		return false;
	set->names[at] = added;
	set->count++;
	*ret_is_new = true;
	return true;
}
