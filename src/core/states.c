#include "states.h"

enum { ARROW = 1, ARROW_NEEDS_DISK = 2 };

static const uint8_t arrows[SY_BLOB_STATE_COUNT][SY_BLOB_STATE_COUNT] = {
#define ARROW_AT(from, to, disk, why) \
	[SY_BLOB_##from][SY_BLOB_##to] = ARROW | ((disk) != 0 ? ARROW_NEEDS_DISK : 0),
	SY_BLOB_ARROW_LIST(ARROW_AT)
#undef ARROW_AT
};

static const char *const names[SY_BLOB_STATE_COUNT] = {
#define STATE_NAME(name, value, text, region) [name] = text,
	SY_BLOB_STATE_LIST(STATE_NAME)
#undef STATE_NAME
};

static const bool has_region[SY_BLOB_STATE_COUNT] = {
#define STATE_REGION(name, value, text, region) [name] = (region) != 0,
	SY_BLOB_STATE_LIST(STATE_REGION)
#undef STATE_REGION
};

const char *sy_blob_state_name(uint8_t state)
{
	return state < SY_BLOB_STATE_COUNT ? names[state] : "unknown";
}

bool sy_blob_state_has_region(uint8_t state)
{
	return state < SY_BLOB_STATE_COUNT && has_region[state];
}

static uint8_t arrow(uint8_t from, uint8_t to)
{
	return from < SY_BLOB_STATE_COUNT && to < SY_BLOB_STATE_COUNT ? arrows[from][to] : 0;
}

bool sy_blob_arrow_exists(uint8_t from, uint8_t to)
{
	return arrow(from, to) != 0;
}

bool sy_blob_arrow_needs_disk(uint8_t from, uint8_t to)
{
	return (arrow(from, to) & ARROW_NEEDS_DISK) != 0;
}
