#include "proto.h"

#define SY_NAME_CASE(name, value, text) \
	case name: \
		return text;

const char *sy_op_name(uint8_t op)
{
	switch (op) {
		SY_OP_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}

const char *sy_fault_name(uint8_t fault)
{
	switch (fault) {
		SY_FAULT_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}

const char *sy_busy_name(uint8_t busy)
{
	switch (busy) {
		SY_BUSY_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}

const char *sy_resource_name(uint8_t resource)
{
	switch (resource) {
		SY_RESOURCE_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}

const char *sy_why_text(uint8_t why)
{
	switch (why) {
		SY_WHY_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}

const char *sy_unit_state_name(uint8_t state)
{
	switch (state) {
		SY_UNIT_STATE_LIST(SY_NAME_CASE)
	default:
		return "unknown";
	}
}
