/* CRC-32 as zlib computes it (reflected 0xEDB88320), eight bytes a step from tables that are made once.
 *
 * Own, so that building needs gcc alone and no zlib headers. Reads exactly [data, data + length). */
#ifndef PYROMQ_CRC32_H
#define PYROMQ_CRC32_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc_table[8][256];

static void crc32_prepare(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    crc_table[0][n] = c;
  }
  for (uint32_t n = 0; n < 256; n++)
    for (int k = 1; k < 8; k++) crc_table[k][n] = crc_table[0][crc_table[k - 1][n] & 255] ^ (crc_table[k - 1][n] >> 8);
}

static uint32_t crc32_bytes(uint32_t crc, const uint8_t *data, size_t length) {
  crc = ~crc;
  for (; length && (length & 7); length--) crc = crc_table[0][(crc ^ *data++) & 255] ^ (crc >> 8);
  for (; length; length -= 8, data += 8) {
    uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
    crc = crc_table[7][low & 255] ^ crc_table[6][(low >> 8) & 255] ^ crc_table[5][(low >> 16) & 255] ^
          crc_table[4][low >> 24] ^ crc_table[3][data[4]] ^ crc_table[2][data[5]] ^ crc_table[1][data[6]] ^
          crc_table[0][data[7]];
  }
  return ~crc;
}
#endif
