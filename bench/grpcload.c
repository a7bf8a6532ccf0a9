/* grpcload: a lean load generator for servers of RocketMQ's gRPC service (apache.rocketmq.v2), on nghttp2.
 *
 *   cc -O2 -o grpcload grpcload.c -lnghttp2
 *   grpcload send    -a 127.0.0.1:8081 -t Bench -c 4 -w 16 -s 128 -d 10 [-r rate] [-N n]
 *   grpcload receive -a 127.0.0.1:8081 -t Bench -g grp -c 4 -w 4 -n 32 -d 30
 *   grpcload e2e     -a 127.0.0.1:8081 -t Bench -g grp -c 4 -w 4 -r 5000 -s 128 -d 10
 *   grpcload idle    -a 127.0.0.1:8081 -t Bench -g grp -c 5000 -d 30
 *
 * send   : -c connections (a client each), -w calls in flight on each, -s body bytes, -d seconds, -N ends it after so
 *          many messages, -r calls per second in all (open loop: a latency counts from when the call was due)
 * receive: simple consumers; -w receives in flight on each connection, -n messages a receive, one AckMessage a message;
 *          ends when every receive finds nothing, or after -d seconds; seconds and latencies are of the acks
 * e2e    : half of the connections send at a fixed rate, the others receive as push consumers do (renewed by the server)
 *          and ack; latency from due time to receipt
 * idle   : clients with a telemetry stream and a heartbeat each 10 s (-b), ten in a group (-g and a number); their
 *          heartbeats are spread over that time, or come at one moment (-T)
 * With -u user and -k secret the calls are signed.
 * Request ids, dates and time-outs change from call to call, as real clients' do. Prints one JSON line: calls, messages,
 * seconds, rates, latency percentiles in microseconds, codes other than 20000 and gRPC statuses other than 0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "signing.h"

enum { MAXC = 20000, WORST_US = 20000000, MOST_HANDLE = 512 };
enum kind { SEND, RECEIVE, ACK, TELEMETRY, HEARTBEAT };
static const char *PATHS[] = {"SendMessage", "ReceiveMessage", "AckMessage", "Telemetry", "Heartbeat"};

typedef struct { uint8_t *at; size_t used, room; } buf;
typedef struct conn conn;
typedef struct call {
  enum kind kind; conn *c; double due;
  buf out; size_t sent; int open;             /* open: more may be sent later (telemetry) */
  buf in; int found; struct call *next;
} call;
struct conn { int fd, number, inflight, ready, is_sender, want_out; nghttp2_session *s; call *telemetry; char id[64], group[64]; double beat; };

static conn conns[MAXC];
static uint32_t *histogram;
static long samples, calls_done, messages, sent_messages, acks, empty, codes_bad, statuses_bad, resets, last_bad;
static unsigned long long serial;
static char host[64] = "127.0.0.1";
static int port = 8081, clients = 4, window = 16, size = 128, per_receive = 32, stop_sending, is_push, is_together;
static double seconds = 10, beat_s = 10, rate; static long most;
static const char *topic = "Bench", *group = "grpcload", *mode;
static double started, last_at;
static uint8_t *body; static int epfd; static call *spare; static double next_due;

static void die(const char *what) { perror(what); exit(2); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void put32(uint8_t *p, uint32_t v) { p[0] = v >> 24; p[1] = v >> 16; p[2] = v >> 8; p[3] = v; }
static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static void note(double from, double to) {
  long us = (long)((to - from) * 1e6);
  histogram[us < 0 ? 0 : us > WORST_US ? WORST_US : us]++; samples++;
}

/* --- protobuf -------------------------------------------------------------------------------------------------------- */
static void put(buf *b, const void *data, size_t n) {
  if (b->room - b->used < n) { b->room = 2 * (b->used + n) + 512; if (!(b->at = realloc(b->at, b->room))) die("memory"); }
  memcpy(b->at + b->used, data, n); b->used += n;
}
static void varint(buf *b, uint64_t v) { uint8_t one; do { one = (v & 127) | (v > 127 ? 128 : 0); put(b, &one, 1); v >>= 7; } while (v); }
static void number(buf *b, int field, uint64_t v) { varint(b, (uint64_t)field << 3); varint(b, v); }
static void bytes(buf *b, int field, const void *data, size_t n) { varint(b, (uint64_t)field << 3 | 2); varint(b, n); put(b, data, n); }
static void text(buf *b, int field, const char *t) { bytes(b, field, t, strlen(t)); }
static buf part[6];                                            /* scratch, by depth */
static buf *fresh(int depth) { part[depth].used = 0; return &part[depth]; }
static void inside(buf *b, int field, buf *p) { bytes(b, field, p->at, p->used); }
static void resource(buf *b, int field, const char *name) { buf *p = fresh(5); text(p, 2, name); inside(b, field, p); }
static void duration(buf *b, int field, uint64_t s) { buf *p = fresh(5); number(p, 1, s); inside(b, field, p); }

/* The next field: its number, or 0 at the end or for what cannot be read. */
static int field(const uint8_t **p, const uint8_t *end, uint64_t *value, const uint8_t **data) {
  uint64_t head = 0, v = 0; int shift = 0;
  if (*p >= end) return 0;
  do { head |= (uint64_t)(**p & 127) << shift; shift += 7; } while (*(*p)++ & 128 && *p < end);
  if ((head & 7) == 5 || (head & 7) == 1) { *p += (head & 7) == 5 ? 4 : 8; *value = 0; *data = NULL; return *p <= end ? head >> 3 : 0; }
  shift = 0;
  if (*p >= end) return 0;
  do { v |= (uint64_t)(**p & 127) << shift; shift += 7; } while (*(*p)++ & 128 && *p < end);
  *value = v; *data = NULL;
  if ((head & 7) == 2) { *data = *p; if (v > (uint64_t)(end - *p)) return 0; *p += v; }
  return head >> 3;
}

/* --- calls ----------------------------------------------------------------------------------------------------------- */
static call *new_call(conn *c, enum kind kind, double due) {
  call *k = spare;
  if (k) spare = k->next; else if (!(k = calloc(1, sizeof *k))) die("memory");
  k->kind = kind; k->c = c; k->due = due; k->out.used = k->in.used = k->sent = 0; k->open = k->found = 0;
  put(&k->out, "\0\0\0\0", 5);
  return k;
}
static ssize_t read_request(nghttp2_session *s, int32_t id, uint8_t *at, size_t room, uint32_t *flags, nghttp2_data_source *src, void *user) {
  call *k = src->ptr; size_t n = k->out.used - k->sent;
  (void)s; (void)id; (void)user;
  if (!n && k->open) return NGHTTP2_ERR_DEFERRED;
  if (n > room) n = room;
  memcpy(at, k->out.at + k->sent, n); k->sent += n;
  if (k->sent == k->out.used && !k->open) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return n;
}
static nghttp2_nv nv(const char *name, const char *value) {
  nghttp2_nv v = {(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME}; return v;
}
static void begin(call *k) {
  char path[96], authority[80], request_id[40], date[24], timeout[16], authorization[400]; time_t at = time(NULL); struct tm tm;
  put32(k->out.at + 1, k->out.used - 5);
  serial++;
  snprintf(path, sizeof path, "/apache.rocketmq.v2.MessagingService/%s", PATHS[k->kind]);
  snprintf(authority, sizeof authority, "%s:%d", host, port);
  snprintf(request_id, sizeof request_id, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(serial * 2654435761u), (unsigned)(serial & 0xffff), (unsigned)(serial % 4096), (unsigned)(getpid() % 4096), serial);
  strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", gmtime_r(&at, &tm));
  snprintf(timeout, sizeof timeout, "%llum", (k->kind == RECEIVE ? 8000 : 3000) - serial % 3);
  if (*access_key) sign_date(authorization, sizeof authorization, date);
  nghttp2_nv fields[] = {nv(":method", "POST"), nv(":scheme", "http"), nv(":path", path), nv(":authority", authority), nv("content-type", "application/grpc"),
    nv("te", "trailers"), nv("user-agent", "grpc-java-netty/1.53.0"), nv("x-mq-language", "JAVA"), nv("x-mq-protocol", "v2"), nv("x-mq-client-version", "5.0.7"),
    nv("x-mq-client-id", k->c->id), nv("x-mq-request-id", request_id), nv("x-mq-date-time", date), nv("grpc-accept-encoding", "gzip"), nv("grpc-timeout", timeout), nv("authorization", authorization)};
  int n = *access_key ? 16 : 15;
  if (k->kind == TELEMETRY) { fields[14] = fields[15]; n--; }   /* no time is set for it */
  nghttp2_data_provider source = {.source.ptr = k, .read_callback = read_request};
  if (nghttp2_submit_request(k->c->s, NULL, fields, n, &source, k) < 0) die("request");
}
static void send_one(conn *c, double due) {
  call *k = new_call(c, SEND, due); buf *m = fresh(0), *p = fresh(1), *t = fresh(2); char id[40]; struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  snprintf(id, sizeof id, "01%012X%08X%08X", (unsigned)getpid(), (unsigned)ts.tv_sec, (unsigned)++sent_messages);
  resource(m, 1, topic);
  text(p, 3, id); number(p, 5, 1); number(p, 6, 1);
  number(t, 1, ts.tv_sec); number(t, 2, ts.tv_nsec); inside(p, 7, t);
  text(p, 8, "loading-host"); number(p, 13, sent_messages % 4);
  inside(m, 3, p);
  if (size >= 8) memcpy(body, &due, 8);
  bytes(m, 4, body, size);
  inside(&k->out, 1, m);
  c->inflight++; begin(k);
}
static void receive_one(conn *c) {
  call *k = new_call(c, RECEIVE, now()); buf *q = fresh(0), *f = fresh(1);
  resource(&k->out, 1, group);
  resource(q, 1, topic); number(q, 3, 4); inside(&k->out, 2, q);
  number(f, 1, 1); text(f, 2, "*"); inside(&k->out, 3, f);
  number(&k->out, 4, per_receive);
  if (is_push) number(&k->out, 6, 1); else duration(&k->out, 5, 600);
  duration(&k->out, 7, 5);
  c->inflight++; begin(k);
}
static void ack_one(conn *c, const uint8_t *id, size_t id_n, const uint8_t *handle, size_t handle_n) {
  call *k = new_call(c, ACK, now()); buf *e = fresh(0);
  resource(&k->out, 1, group); resource(&k->out, 2, topic);
  bytes(e, 1, id, id_n); bytes(e, 2, handle, handle_n); inside(&k->out, 3, e);
  begin(k);
}
static void settings(conn *c) {
  call *k = new_call(c, TELEMETRY, now()); buf *s = fresh(0), *p = fresh(1), *e = fresh(2), *f = fresh(3), *u = fresh(4);
  number(s, 1, c->is_sender ? 1 : is_push ? 2 : 3); duration(s, 4, 3);
  if (c->is_sender) { resource(p, 1, topic); inside(s, 5, p); }
  else {
    resource(p, 1, c->group);
    resource(e, 1, topic); number(f, 1, 1); text(f, 2, "*"); inside(e, 2, f); inside(p, 2, e);
    duration(p, 5, 5); inside(s, 6, p);
  }
  number(u, 1, 1); text(u, 2, "5.0.7"); text(u, 4, "loading-host"); inside(s, 7, u);
  inside(&k->out, 2, s);
  k->open = 1; c->telemetry = k; begin(k);
}
static void heartbeat(conn *c) {
  call *k = new_call(c, HEARTBEAT, now());
  if (!c->is_sender) resource(&k->out, 1, c->group);
  number(&k->out, 2, c->is_sender ? 1 : is_push ? 2 : 3);
  begin(k);
}

/* --- answers --------------------------------------------------------------------------------------------------------- */
static long code_of(const uint8_t *p, size_t n) {
  const uint8_t *end = p + n, *data; uint64_t v; int f; long code = 0;
  while ((f = field(&p, end, &v, &data))) if (f == 1 && !data) code = v;
  return code;
}
static void take_message(call *k, const uint8_t *p, size_t n) {
  const uint8_t *end = p + n, *data, *id = NULL, *handle = NULL, *content = NULL; uint64_t v, id_n = 0, handle_n = 0; int f;
  while ((f = field(&p, end, &v, &data))) {
    if (f == 4 && data && v >= 8) content = data;
    if (f == 3 && data) {
      const uint8_t *q = data, *qend = data + v, *d; uint64_t w; int g;
      while ((g = field(&q, qend, &w, &d))) { if (g == 3 && d) { id = d; id_n = w; } if (g == 12 && d) { handle = d; handle_n = w; } }
    }
  }
  messages++; k->found++;
  if (content && !strcmp(mode, "e2e")) { double due; memcpy(&due, content, 8); if (due >= started && due <= now()) note(due, now()); }
  if (id && handle && handle_n < MOST_HANDLE) ack_one(k->c, id, id_n, handle, handle_n);
}
static void answered(call *k, const uint8_t *p, size_t n) {
  const uint8_t *end = p + n, *data; uint64_t v; int f; long code = 0;
  while ((f = field(&p, end, &v, &data))) {
    if (f == 1 && data && (code = code_of(data, v)) != 20000 && code != 40401) { codes_bad++; last_bad = code; }
    if (k->kind == RECEIVE && f == 2 && data) take_message(k, data, v);
  }
  if (k->kind == TELEMETRY) k->c->ready = 1;
  if (k->kind == ACK && code == 20000) { acks++; last_at = now(); }
  if (k->kind == SEND) calls_done += code == 20000;
}
static int on_chunk(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *user) {
  call *k = nghttp2_session_get_stream_user_data(s, id); size_t at = 0; (void)flags; (void)user;
  if (!k) return 0;
  put(&k->in, data, n);
  while (k->in.used - at >= 5 && k->in.used - at - 5 >= get32(k->in.at + at + 1)) {
    uint32_t length = get32(k->in.at + at + 1);
    answered(k, k->in.at + at + 5, length); at += 5 + length;
  }
  memmove(k->in.at, k->in.at + at, k->in.used - at); k->in.used -= at;
  return 0;
}
static int on_field(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t n, const uint8_t *value, size_t vn, uint8_t flags, void *user) {
  (void)s; (void)f; (void)flags; (void)user;
  if (n == 11 && !memcmp(name, "grpc-status", 11) && !(vn == 1 && *value == '0')) { statuses_bad++; last_bad = -atol((const char *)value); }
  return 0;
}
static int on_close(nghttp2_session *s, int32_t id, uint32_t error, void *user) {
  call *k = nghttp2_session_get_stream_user_data(s, id); conn *c = user;
  if (!k) return 0;
  if (error) resets++;
  if (k->kind == SEND) { c->inflight--; if (strcmp(mode, "e2e")) note(k->due, now()); }
  if (k->kind == RECEIVE) { c->inflight--; if (!k->found) empty++; }
  if (k->kind == ACK && !strcmp(mode, "receive")) note(k->due, now());
  k->next = spare; spare = k;
  return 0;
}

/* --- the loop -------------------------------------------------------------------------------------------------------- */
static void dial(conn *c, int number, nghttp2_session_callbacks *callbacks) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}; int one = 1; struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
  inet_pton(AF_INET, host, &to.sin_addr);
  if ((c->fd = socket(AF_INET, SOCK_STREAM, 0)) < 0 || connect(c->fd, (void *)&to, sizeof to)) die("connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->number = number; snprintf(c->id, sizeof c->id, "loading-host@%d@%d@%x", (int)getpid(), number, (unsigned)(number * 2654435761u));
  if (strcmp(mode, "idle")) snprintf(c->group, sizeof c->group, "%s", group); else snprintf(c->group, sizeof c->group, "%s-%d", group, number / 10);
  nghttp2_session_client_new(&c->s, callbacks, c);
  nghttp2_settings_entry e[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}, {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000}};
  nghttp2_submit_settings(c->s, 0, e, 2); nghttp2_session_set_local_window_size(c->s, 0, 0, 1 << 20);
  epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &ev);
}
static void flush(conn *c) {
  static uint8_t chunk[1 << 18]; size_t n; const uint8_t *data; ssize_t got = 0;
  while (nghttp2_session_want_write(c->s)) {
    for (n = 0; n < sizeof chunk - 65536 && (got = nghttp2_session_mem_send(c->s, &data)) > 0; n += got) memcpy(chunk + n, data, got);
    if (got < 0) die("nghttp2");
    for (size_t at = 0; at < n;) {
      ssize_t w = write(c->fd, chunk + at, n - at);
      if (w > 0) at += w; else if (errno == EAGAIN) usleep(50); else die("write");
    }
    if (!n) return;
  }
}
static int take(conn *c) {
  static uint8_t chunk[1 << 18]; ssize_t n = read(c->fd, chunk, sizeof chunk);
  if (n == 0 || (n < 0 && errno != EAGAIN)) return -1;
  return n < 0 ? 0 : nghttp2_session_mem_recv(c->s, chunk, n) < 0 ? -1 : 0;
}
static void fill(conn *c, double at) {
  if (!strcmp(mode, "idle")) {
    if (c->ready && !c->beat) c->beat = at + (is_together ? 0 : beat_s * c->number / clients);
    if (c->ready && at >= c->beat) { heartbeat(c); flush(c); while (c->beat <= at) c->beat += beat_s; }
    return;
  }
  if (c->is_sender) while (!rate && !stop_sending && c->inflight < window && (!most || sent_messages < most)) send_one(c, at);
  else while (c->ready && c->inflight < window && !(stop_sending && empty)) receive_one(c);
  flush(c);
}
static long percentile(double q) { if (!samples) return 0; long left = (long)(samples * q), us = 0; while (us < WORST_US && (left -= histogram[us]) >= 0) us++; return us; }

int main(int argc, char **argv) {
  int o; nghttp2_session_callbacks *cb; struct epoll_event evs[512]; struct rlimit many = {65536, 65536};
  if (argc < 2) { fprintf(stderr, "see the comment at the top of grpcload.c\n"); return 2; }
  mode = argv[1]; optind = 2; is_push = !strcmp(mode, "e2e");
  while ((o = getopt(argc, argv, "a:t:g:c:w:s:d:n:r:N:b:Tu:k:")) > 0) switch (o) {
    case 'a': if (sscanf(optarg, "%63[^:]:%d", host, &port) != 2) { fprintf(stderr, "-a host:port\n"); return 2; } break;
    case 't': topic = optarg; break; case 'g': group = optarg; break; case 'c': clients = atoi(optarg); break;
    case 'w': window = atoi(optarg); break; case 's': size = atoi(optarg); break; case 'd': seconds = atof(optarg); break;
    case 'n': per_receive = atoi(optarg); break; case 'r': rate = atof(optarg); break; case 'N': most = atol(optarg); break;
    case 'b': beat_s = atof(optarg); break; case 'T': is_together = 1; break;
    case 'u': access_key = optarg; break; case 'k': secret_key = optarg; break;
    default: return 2;
  }
  if (clients < 1 || clients > MAXC || size < 1) { fprintf(stderr, "-c from 1 to %d, -s from 1\n", MAXC); return 2; }
  setrlimit(RLIMIT_NOFILE, &many); prepare_signing();
  histogram = calloc(WORST_US + 1, sizeof *histogram); body = malloc(size); memset(body, 'x', size);
  nghttp2_session_callbacks_new(&cb);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
  nghttp2_session_callbacks_set_on_header_callback(cb, on_field);
  nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
  epfd = epoll_create1(0);
  int senders = !strcmp(mode, "send") ? clients : !strcmp(mode, "e2e") ? (clients + 1) / 2 : 0;
  for (int i = 0; i < clients; i++) {
    conns[i].is_sender = i < senders; dial(&conns[i], i, cb);
    if (strcmp(mode, "send")) settings(&conns[i]);
    flush(&conns[i]);
  }
  int is_idle = !strcmp(mode, "idle");
  double start = started = now(), end = start + seconds, at; next_due = start + 0.2;
  for (int turn = 0; (at = now()) < end; turn++) {
    int open = rate > 0 && senders;
    for (; open && next_due <= at && (!most || sent_messages < most); next_due += 1 / rate) send_one(&conns[turn++ % senders], next_due);
    for (int i = 0; i < clients; i++) if (turn % 64 == 0 || clients <= 64 || is_idle) fill(&conns[i], at);
    int n = epoll_wait(epfd, evs, 512, open ? 0 : is_idle ? 5 : 100);
    if (open && !n) usleep(100);
    for (int i = 0; i < n; i++) {
      conn *c = evs[i].data.ptr;
      if (take(c)) { fprintf(stderr, "the server closed connection %d\n", c->number); return 1; }
      fill(c, now()); flush(c);
    }
    if (!strcmp(mode, "send") && most && calls_done + codes_bad + statuses_bad >= most) break;
    if (!strcmp(mode, "receive") && empty >= clients * window) break;
  }
  double took = (last_at && !strcmp(mode, "receive") ? last_at : now()) - start;
  printf("{\"mode\":\"%s\",\"calls\":%ld,\"messages\":%ld,\"acks\":%ld,\"empty\":%ld,\"seconds\":%.3f,\"rate\":%.0f,\"p50_us\":%ld,\"p90_us\":%ld,\"p99_us\":%ld,"
         "\"p999_us\":%ld,\"samples\":%ld,\"codes\":%ld,\"statuses\":%ld,\"resets\":%ld,\"last_bad\":%ld}\n",
         mode, calls_done, messages, acks, empty, took, (senders == clients ? calls_done : messages) / took, percentile(.5), percentile(.9), percentile(.99),
         percentile(.999), samples, codes_bad, statuses_bad, resets, last_bad);
  return 0;
}
