#include <slabyard/status.h>

/* The list cannot spell these from its constants; the compiler's switch warning and a test keep
 * the two in step. */
const char *sy_status_name(sy_status status)
{
	switch (status) {
	case SY_OK:
		return "Ok";
	case SY_E_BUSY:
		return "Busy";
	case SY_E_TIMEOUT:
		return "Timeout";
	case SY_E_UNIT_FULL:
		return "UnitFull";
	case SY_E_TRANSFER:
		return "Transfer";
	case SY_E_TRANSFER_FAILED:
		return "TransferFailed";
	case SY_E_STALE_READ:
		return "StaleRead";
	case SY_E_INVALID:
		return "Invalid";
	case SY_E_LOST:
		return "Lost";
	case SY_E_FATAL:
		return "Fatal";
	case SY_E_POLICY:
		return "Policy";
	case SY_E_PROTOCOL:
		return "Protocol";
	case SY_E_AUTH:
		return "Auth";
	case SY_E_SYS:
		return "Sys";
	}
	return "Unknown";
}

const char *sy_status_python(sy_status status)
{
	switch (status) {
#define SY_STATUS_PYTHON(name, value, python, meaning) \
	case name: \
		return python;
		SY_STATUS_LIST(SY_STATUS_PYTHON)
#undef SY_STATUS_PYTHON
	}
	return "Exception";
}

const char *sy_status_meaning(sy_status status)
{
	switch (status) {
#define SY_STATUS_MEANING(name, value, python, meaning) \
	case name: \
		return meaning;
		SY_STATUS_LIST(SY_STATUS_MEANING)
#undef SY_STATUS_MEANING
	}
	return "no such status";
}
