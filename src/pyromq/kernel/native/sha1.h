/* SHA-1 (FIPS 180-4) and HMAC (RFC 2104), for the signatures of RocketMQ's requests; by the processor's own instructions
 * where it has them (x86 with SHA).
 *
 * Own, so that building needs gcc alone and no OpenSSL headers, and so that what a secret makes of the two first blocks is
 * a plain struct, made once for each user and copied for each request: libcrypto's contexts are made on the heap, and that
 * costs about as much as a short message does. No branch and no address depends on a secret or on what is signed.
 * Reads exactly [data, data + length). */
#ifndef PYROMQ_SHA1_H
#define PYROMQ_SHA1_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define SHA1_BY_PROCESSOR 1
#endif

enum { SHA1_BLOCK = 64, SHA1_BYTES = 20 };

typedef struct {
  uint32_t h[5];
  uint64_t length;             /* of all that came in */
  uint8_t block[SHA1_BLOCK];   /* the last of it that makes no whole block yet */
} sha1_state;

typedef struct {
  sha1_state inner, outer;     /* with the key's block in each */
} hmac_key;

static int sha1_by_processor; /* whether it is used */

static int sha1_has_processor(void) {
#ifdef SHA1_BY_PROCESSOR
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 9 & 1) || !(c >> 19 & 1)) return 0; /* SSSE3, SSE4.1 */
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
#else
  return 0;
#endif
}

static void sha1_prepare(void) { sha1_by_processor = sha1_has_processor(); }

/* Use its instructions, if it has them, or plain C: for tests, which try both. Whether they were used before. */
static inline int sha1_use_processor(int may) {
  const int before = sha1_by_processor;
  sha1_by_processor = may && sha1_has_processor();
  return before;
}

#ifdef SHA1_BY_PROCESSOR
/* Four rounds a step: `w` has the message's words, each vector the four of one step, made from the four before it. */
#define SHA1_STEP(i, k)                                                                                    \
  if (i >= 4) w[i & 3] = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3]), w[(i + 3) & 3]); \
  e = i ? _mm_sha1nexte_epu32(before, w[i & 3]) : _mm_add_epi32(e, w[0]);                                  \
  before = abcd;                                                                                           \
  abcd = _mm_sha1rnds4_epu32(abcd, e, k);

__attribute__((target("sha,ssse3,sse4.1"))) static void sha1_blocks_by_processor(uint32_t h[5], const uint8_t *data, size_t blocks) {
  const __m128i swapped = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
  __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0x1B), e = _mm_set_epi32((int)h[4], 0, 0, 0);
  for (; blocks; blocks--, data += SHA1_BLOCK) {
    const __m128i abcd_then = abcd, e_then = e;
    __m128i w[4], before = abcd;
    for (int i = 0; i < 4; i++) w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), swapped);
    SHA1_STEP(0, 0) SHA1_STEP(1, 0) SHA1_STEP(2, 0) SHA1_STEP(3, 0) SHA1_STEP(4, 0)
    SHA1_STEP(5, 1) SHA1_STEP(6, 1) SHA1_STEP(7, 1) SHA1_STEP(8, 1) SHA1_STEP(9, 1)
    SHA1_STEP(10, 2) SHA1_STEP(11, 2) SHA1_STEP(12, 2) SHA1_STEP(13, 2) SHA1_STEP(14, 2)
    SHA1_STEP(15, 3) SHA1_STEP(16, 3) SHA1_STEP(17, 3) SHA1_STEP(18, 3) SHA1_STEP(19, 3)
    e = _mm_sha1nexte_epu32(before, e_then);
    abcd = _mm_add_epi32(abcd, abcd_then);
  }
  _mm_storeu_si128((__m128i *)h, _mm_shuffle_epi32(abcd, 0x1B));
  h[4] = (uint32_t)_mm_extract_epi32(e, 3);
}
#undef SHA1_STEP
#endif

static inline uint32_t sha1_rotated(uint32_t v, int by) { return v << by | v >> (32 - by); }

static void sha1_blocks_in_c(uint32_t h[5], const uint8_t *data, size_t blocks) {
  for (; blocks; blocks--, data += SHA1_BLOCK) {
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 16; i++)
      w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 | (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
    for (int i = 16; i < 80; i++) w[i] = sha1_rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
      uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
      uint32_t k = i < 20 ? 0x5A827999u : i < 40 ? 0x6ED9EBA1u : i < 60 ? 0x8F1BBCDCu : 0xCA62C1D6u;
      uint32_t next = sha1_rotated(a, 5) + f + e + k + w[i];
      e = d, d = c, c = sha1_rotated(b, 30), b = a, a = next;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
  }
}

static void sha1_blocks(uint32_t h[5], const uint8_t *data, size_t blocks) {
#ifdef SHA1_BY_PROCESSOR
  if (sha1_by_processor) {
    sha1_blocks_by_processor(h, data, blocks);
    return;
  }
#endif
  sha1_blocks_in_c(h, data, blocks);
}

static void sha1_begin(sha1_state *s) {
  static const uint32_t first[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  memcpy(s->h, first, sizeof first);
  s->length = 0;
}

static void sha1_add(sha1_state *s, const uint8_t *data, size_t length) {
  size_t used = s->length % SHA1_BLOCK;
  if (!length) return;
  s->length += length;
  if (used) {
    size_t part = SHA1_BLOCK - used < length ? SHA1_BLOCK - used : length;
    memcpy(s->block + used, data, part);
    if (used + part < SHA1_BLOCK) return;
    sha1_blocks(s->h, s->block, 1);
    data += part;
    length -= part;
  }
  if (length >= SHA1_BLOCK) sha1_blocks(s->h, data, length / SHA1_BLOCK);
  if (length % SHA1_BLOCK) memcpy(s->block, data + length / SHA1_BLOCK * SHA1_BLOCK, length % SHA1_BLOCK);
}

static void sha1_put_digest(uint8_t digest[SHA1_BYTES], const uint32_t h[5]) {
  for (int i = 0; i < 5; i++)
    digest[4 * i] = (uint8_t)(h[i] >> 24), digest[4 * i + 1] = (uint8_t)(h[i] >> 16), digest[4 * i + 2] = (uint8_t)(h[i] >> 8), digest[4 * i + 3] = (uint8_t)h[i];
}

static void sha1_end(sha1_state *s, uint8_t digest[SHA1_BYTES]) {
  const uint64_t bits = s->length * 8;
  size_t used = s->length % SHA1_BLOCK;
  s->block[used++] = 0x80;
  if (used > SHA1_BLOCK - 8) {
    memset(s->block + used, 0, SHA1_BLOCK - used);
    sha1_blocks(s->h, s->block, 1);
    used = 0;
  }
  memset(s->block + used, 0, SHA1_BLOCK - 8 - used);
  for (int i = 0; i < 8; i++) s->block[SHA1_BLOCK - 1 - i] = (uint8_t)(bits >> 8 * i);
  sha1_blocks(s->h, s->block, 1);
  sha1_put_digest(digest, s->h);
}

static inline void sha1_of(const uint8_t *data, size_t length, uint8_t digest[SHA1_BYTES]) {
  sha1_state s;
  sha1_begin(&s);
  sha1_add(&s, data, length);
  sha1_end(&s, digest);
}

static void hmac_prepare(hmac_key *key, const uint8_t *secret, size_t length) {
  uint8_t block[SHA1_BLOCK] = {0};
  if (length > SHA1_BLOCK) {
    sha1_begin(&key->inner);
    sha1_add(&key->inner, secret, length);
    sha1_end(&key->inner, block);
  } else if (length) {
    memcpy(block, secret, length);
  }
  for (int i = 0; i < SHA1_BLOCK; i++) block[i] ^= 0x36;
  sha1_begin(&key->inner);
  sha1_add(&key->inner, block, SHA1_BLOCK);
  for (int i = 0; i < SHA1_BLOCK; i++) block[i] ^= 0x36 ^ 0x5C;
  sha1_begin(&key->outer);
  sha1_add(&key->outer, block, SHA1_BLOCK);
}

/* `s` began as the key's inner state and has got all that is signed. The outer hash is of the key's block, which is in its
 * state already, and of the inner digest: one block, whose end is always the same. */
static void hmac_end(const hmac_key *key, sha1_state *s, uint8_t digest[SHA1_BYTES]) {
  uint8_t block[SHA1_BLOCK] = {[SHA1_BYTES] = 0x80, [62] = (SHA1_BLOCK + SHA1_BYTES) * 8 >> 8, [63] = (SHA1_BLOCK + SHA1_BYTES) * 8 & 255};
  uint32_t h[5];
  memcpy(h, key->outer.h, sizeof h);
  sha1_end(s, block);
  sha1_blocks(h, block, 1);
  sha1_put_digest(digest, h);
}

/* The HMAC of two pieces, one behind the other. */
static void hmac_of(const hmac_key *key, const uint8_t *first, size_t n, const uint8_t *second, size_t m, uint8_t digest[SHA1_BYTES]) {
  sha1_state s = key->inner;
  sha1_add(&s, first, n);
  sha1_add(&s, second, m);
  hmac_end(key, &s, digest);
}

/* Whether they are the same; how long it takes says nothing about where they differ. The compiler is told nothing of what
 * the differences come to, so it cannot end early. */
static int is_same_in_constant_time(const uint8_t a[SHA1_BYTES], const uint8_t b[SHA1_BYTES]) {
  uint32_t different = 0;
  for (int i = 0; i < SHA1_BYTES; i += 4) {
    uint32_t one, other;
    memcpy(&one, a + i, 4);
    memcpy(&other, b + i, 4);
    different |= one ^ other;
#ifdef __GNUC__
    __asm__("" : "+r"(different));
#endif
  }
  return different == 0;
}
#endif
