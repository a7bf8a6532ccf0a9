/* CRC-32 as zlib computes it (reflected 0xEDB88320), eight bytes a step from tables that are made once; where the
 * processor multiplies without carry (x86 with PCLMULQDQ), 64 bytes a step by folding, as Intel's paper of 2009 shows.
 *
 * Own, so that building needs gcc alone and no zlib headers. Reads exactly [data, data + length). */
#ifndef PYROMQ_CRC32_H
#define PYROMQ_CRC32_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CRC_FOLDS 1
#endif

static uint32_t crc_table[8][256];
static int crc_may_fold;

static void crc32_prepare(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    crc_table[0][n] = c;
  }
  for (uint32_t n = 0; n < 256; n++)
    for (int k = 1; k < 8; k++) crc_table[k][n] = crc_table[0][crc_table[k - 1][n] & 255] ^ (crc_table[k - 1][n] >> 8);
#ifdef CRC_FOLDS
  crc_may_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

#ifdef CRC_FOLDS
#define CRC_TARGET __attribute__((target("pclmul,sse4.1")))

CRC_TARGET static inline __m128i crc_folded(__m128i sum, __m128i by, const uint8_t *next) {
  __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)next));
}

/* Of at least 64 bytes, a multiple of 16; takes and gives the inverted sum. The constants are powers of x modulo the
 * polynomial, bits reversed: x^(512+32), x^(512-32); x^(128+32), x^(128-32); x^64; then Barrett's two. */
CRC_TARGET static uint32_t crc32_fold(uint32_t crc, const uint8_t *data, size_t length) {
  const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  const __m128i last = _mm_set_epi64x(0, 0x0163cd6124), barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  const __m128i low_half = _mm_setr_epi32(~0, 0, ~0, 0);
  __m128i part[4], sum, t;
  for (int k = 0; k < 4; k++) part[k] = _mm_loadu_si128((const __m128i *)(data + 16 * k));
  part[0] = _mm_xor_si128(part[0], _mm_cvtsi32_si128((int)crc));
  data += 64;
  length -= 64;
  for (; length >= 64; length -= 64, data += 64)
    for (int k = 0; k < 4; k++) part[k] = crc_folded(part[k], by_four, data + 16 * k);
  sum = part[0];
  for (int k = 1; k < 4; k++) {
    __m128i low = _mm_clmulepi64_si128(sum, by_one, 0x00), high = _mm_clmulepi64_si128(sum, by_one, 0x11);
    sum = _mm_xor_si128(_mm_xor_si128(low, high), part[k]);
  }
  for (; length; length -= 16, data += 16) sum = crc_folded(sum, by_one, data);
  t = _mm_clmulepi64_si128(sum, by_one, 0x10);
  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), t);
  t = _mm_srli_si128(sum, 4);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low_half), last, 0x00), t);
  t = _mm_clmulepi64_si128(_mm_and_si128(sum, low_half), barrett, 0x10);
  t = _mm_clmulepi64_si128(_mm_and_si128(t, low_half), barrett, 0x00);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, t), 1);
}
#endif

static uint32_t crc32_bytes(uint32_t crc, const uint8_t *data, size_t length) {
  crc = ~crc;
#ifdef CRC_FOLDS
  if (crc_may_fold && length >= 64) {
    crc = crc32_fold(crc, data, length & ~(size_t)15);
    data += length & ~(size_t)15;
    length &= 15;
  }
#endif
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
