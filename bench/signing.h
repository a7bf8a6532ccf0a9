/* Signs requests of a load generator, as RocketMQ's clients do: HMAC-SHA1 over the values of all fields in the order of
 * their names, then the body. gRPC's sign their date alone. Included by mqload.c, popload.c and grpcload.c; the
 * digest is the kernel's own. */
#ifndef BENCH_SIGNING_H
#define BENCH_SIGNING_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../src/pyromq/kernel/native/sha1.h"

typedef struct { const char *name, *value; int name_len, value_len; } signed_field;

static const char *access_key = "", *secret_key = "";   /* no name: requests are not signed */
static hmac_key signing_key;

static void prepare_signing(void) {
  sha1_prepare();
  hmac_prepare(&signing_key, (const uint8_t *)secret_key, strlen(secret_key));
}
static int by_name(const void *a, const void *b) {
  const signed_field *one = a, *other = b;
  int least = one->name_len < other->name_len ? one->name_len : other->name_len, by = memcmp(one->name, other->name, least);
  return by ? by : one->name_len - other->name_len;
}
/* Writes the `authorization` header of a gRPC call. */
static inline void sign_date(char *out, size_t room, const char *date) {
  uint8_t digest[SHA1_BYTES]; char digits[2 * SHA1_BYTES + 1];
  sha1_state state = signing_key.inner;
  sha1_add(&state, (const uint8_t *)date, strlen(date));
  hmac_end(&signing_key, &state, digest);
  for (int i = 0; i < SHA1_BYTES; i++) sprintf(digits + 2 * i, "%02X", digest[i]);
  snprintf(out, room, "MQv2-HMAC-SHA1 Credential=%s/region/Rocketmq, SignedHeaders=x-mq-date-time, Signature=%s", access_key, digits);
}
/* `fields` are JSON members with strings for values, whose only escapes are \u00XX. Writes them, name and signature added. */
static inline void sign_fields(char *out, size_t room, const char *fields, const uint8_t *body, int body_len) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  signed_field all[32] = {{"AccessKey", access_key, 9, strlen(access_key)}};
  uint8_t plain[1400], digest[SHA1_BYTES]; char text[29]; int n = 1;
  sha1_state state = signing_key.inner;
  for (const char *p = fields; *p && n < 32; n++) {
    signed_field *f = &all[n];
    f->name = ++p; p = strchr(p, '"'); f->name_len = p - f->name;
    f->value = p += 3; p = strchr(p, '"'); f->value_len = p - f->value;
    if (*++p == ',') p++;
  }
  qsort(all, n, sizeof all[0], by_name);
  for (int i = 0; i < n; i++) {
    int at = 0;
    for (int k = 0; k < all[i].value_len; k++)
      if (all[i].value[k] == '\\') {
        char hex[3] = {all[i].value[k + 4], all[i].value[k + 5], 0};
        plain[at++] = strtol(hex, 0, 16); k += 5;
      } else plain[at++] = all[i].value[k];
    sha1_add(&state, plain, at);
  }
  if (body_len) sha1_add(&state, body, body_len);
  hmac_end(&signing_key, &state, digest);
  for (int i = 0, k = 0; i < 20; i += 3, k += 4) {
    uint32_t word = (uint32_t)digest[i] << 16 | digest[i + 1] << 8 | (i + 2 < 20 ? digest[i + 2] : 0);
    for (int d = 0; d < 4; d++) text[k + d] = alphabet[word >> (18 - 6 * d) & 63];
  }
  text[27] = '='; text[28] = 0;
  snprintf(out, room, "\"AccessKey\":\"%s\",\"Signature\":\"%s\",%s", access_key, text, fields);
}
#endif
