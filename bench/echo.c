/* echo: the floor. Answers every frame of the RocketMQ remoting protocol with success, and does nothing else.
 *
 *   cc -O2 -o echo echo.c
 *   echo [FILE]          listens on a free port of 127.0.0.1 and says which
 *
 * With FILE: what was received is written there (pwrite at the end of what was written before, within 1 GB that is
 * allocated first) and synced (fdatasync) before the answers leave: the floor of a broker that answers after the sync.
 * One thread, epoll, one read for each wake, one write for each read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 4 << 20, FILE_BYTES = 1 << 30 };

typedef struct { int fd; size_t len; uint8_t in[ROOM]; } conn;

static char out[ROOM];

static void die(const char *what) { perror(what); exit(2); }
static void put32(char *p, uint32_t v) { p[0] = v >> 24; p[1] = v >> 16; p[2] = v >> 8; p[3] = v; }
static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

static long opaque_of(const uint8_t *header, uint32_t n) {
  const uint8_t *found = memmem(header, n, "\"opaque\":", 9);
  return found ? strtol((const char *)found + 9, 0, 10) : 0;
}

static size_t answer(char *p, long opaque) {
  int n = sprintf(p + 8, "{\"code\":0,\"language\":\"PYTHON\",\"version\":497,\"opaque\":%ld,\"flag\":1,\"extFields\":{"
                  "\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueId\":\"0\",\"queueOffset\":\"0\",\"transactionId\":"
                  "\"00000000000000000000000000000000\",\"MSG_REGION\":\"DefaultRegion\",\"TRACE_ON\":\"true\"},"
                  "\"serializeTypeCurrentRPC\":\"JSON\"}", opaque);
  put32(p, 4 + n); put32(p + 4, n);
  return 8 + n;
}

int main(int argc, char **argv) {
  int file = -1, one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0);
  off_t end = 0;
  if (argc > 1) {
    file = open(argv[1], O_CREAT | O_RDWR, 0600);
    if (file < 0 || posix_fallocate(file, 0, FILE_BYTES) || fsync(file)) die(argv[1]);
  }
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 64) || getsockname(listener, (void *)&at, &size)) die("listen");
  printf("echo ready on 127.0.0.1:%d\n", ntohs(at.sin_port)); fflush(stdout);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = 0}, events[64];
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int count = epoll_wait(poller, events, 64, -1);
    for (int i = 0; i < count; i++) {
      conn *c = events[i].data.ptr;
      if (!c) {
        c = malloc(sizeof *c); c->fd = accept(listener, 0, 0); c->len = 0;
        if (c->fd < 0) { free(c); continue; }
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        event.data.ptr = c; epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
        continue;
      }
      ssize_t got = read(c->fd, c->in + c->len, ROOM - c->len);
      if (got <= 0) { close(c->fd); free(c); continue; }
      c->len += got;
      size_t used = 0, made = 0;
      while (c->len - used >= 8 && c->len - used >= 4 + (size_t)get32(c->in + used) && made < ROOM - 1024) {
        made += answer(out + made, opaque_of(c->in + used + 8, get32(c->in + used + 4) & 0xffffff));
        used += 4 + get32(c->in + used);
      }
      if (!made) continue;
      if (file >= 0) {
        if (end + (off_t)used > FILE_BYTES) end = 0;
        if (pwrite(file, c->in, used, end) != (ssize_t)used || fdatasync(file)) die("file");
        end += used;
      }
      memmove(c->in, c->in + used, c->len - used); c->len -= used;
      for (size_t sent = 0; sent < made;) {
        ssize_t n = write(c->fd, out + sent, made - sent);
        if (n < 0 && errno != EAGAIN) break;
        if (n > 0) sent += n;
      }
    }
  }
}
