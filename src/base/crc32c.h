/* CRC-32C (Castagnoli), the checksum of blob indexes. */
#ifndef SY_CRC32C_H
#define SY_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc` (0 at first). Uses the SSE4.2 instruction where the CPU has it. */
uint32_t sy_crc32c(uint32_t crc, const void *data, size_t bytes);
/* Of `count` runs of so many bytes, `stride` apart, each from `crc` on. The instruction takes
 * three cycles and one can begin in each: three runs side by side take hardly longer than one. */
void sy_crc32c_runs(uint32_t crc, const uint8_t *first, size_t stride, size_t bytes, size_t count,
                    uint32_t *ret_crcs);
/* The same on any CPU, by a table. */
uint32_t sy_crc32c_by_table(uint32_t crc, const void *data, size_t bytes);

#endif
