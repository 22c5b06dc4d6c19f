/* A number out of a unit's report, by its name: bytes in a state, or a count. */
#ifndef SY_TEST_NUMBER_OF_H
#define SY_TEST_NUMBER_OF_H

#include <slabyard/client.h>
#include <string.h>

/* UINT64_MAX: there is none of that name, as where the unit did not answer. */
static inline uint64_t number_of(const sy_unit_report *report, const char *name)
{
	for (size_t i = 0; i < report->byte_count; i++) {
		if (strcmp(report->bytes[i].name, name) == 0)
			return report->bytes[i].value;
	}
	for (size_t i = 0; i < report->count_count; i++) {
		if (strcmp(report->counts[i].name, name) == 0)
			return report->counts[i].value;
	}
	return UINT64_MAX;
}

#endif
