/* Signatures of remoting requests as clients write them: a digest of SHA-1 in Base64. */
#ifndef PYROMQ_SIGNATURE_TEXT_H
#define PYROMQ_SIGNATURE_TEXT_H
#include <stdint.h>

enum { SIGNATURE_CHARS = 28 };

/* The digest that a client gives by 28 characters; 0: they are none, or not as one is written. The text is the
 * client's own, so how long this takes tells him nothing. */
static int read_base64_digest(const uint8_t text[SIGNATURE_CHARS], uint8_t digest[20]) {
  uint8_t v[SIGNATURE_CHARS], odd = 0;
  for (int i = 0; i < SIGNATURE_CHARS; i++) { /* masks, not branches: which character comes cannot be foreseen */
    const uint8_t c = text[i], upper = (uint8_t)(c - 'A'), lower = (uint8_t)(c - 'a'), number = (uint8_t)(c - '0');
    const uint8_t is_upper = (uint8_t)-(upper < 26), is_lower = (uint8_t)-(lower < 26), is_number = (uint8_t)-(number < 10);
    const uint8_t is_plus = (uint8_t)-(c == '+'), is_slash = (uint8_t)-(c == '/');
    v[i] = (uint8_t)((is_upper & upper) | (is_lower & (lower + 26)) | (is_number & (number + 52)) | (is_plus & 62) | (is_slash & 63) |
                     (uint8_t)~(is_upper | is_lower | is_number | is_plus | is_slash));
  }
  for (int i = 0; i < SIGNATURE_CHARS - 1; i++) odd |= v[i];
  if (odd > 63 || text[SIGNATURE_CHARS - 1] != '=' || v[SIGNATURE_CHARS - 2] & 3) return 0;
  for (int i = 0; i < 6; i++) {
    const uint32_t word = (uint32_t)v[4 * i] << 18 | (uint32_t)v[4 * i + 1] << 12 | (uint32_t)v[4 * i + 2] << 6 | v[4 * i + 3];
    digest[3 * i] = (uint8_t)(word >> 16), digest[3 * i + 1] = (uint8_t)(word >> 8), digest[3 * i + 2] = (uint8_t)word;
  }
  digest[18] = (uint8_t)(v[24] << 2 | v[25] >> 4);
  digest[19] = (uint8_t)(v[25] << 4 | v[26] >> 2);
  return 1;
}
#endif
