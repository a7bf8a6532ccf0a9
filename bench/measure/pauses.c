/* pauses: when a CPU served nobody. `cc -O2 -pthread`; `pauses LEAST_MS` until it is killed.
 *
 * A thread on each CPU, of real-time priority (where we may), sleeps half a millisecond over and over. When it wakes late,
 * no program could have run on that CPU meanwhile: a virtual machine had it taken away, or Linux was at work in a place
 * where it lets nobody in. Prints `CPU end-of-the-pause (wall clock, ms) length (ms)` for each of LEAST_MS or more.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static const double NAP_MS = 0.5;
static double least_ms;

static double ms(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1e3 + t.tv_nsec * 1e-6; }

static void *watch(void *argument) {
  long cpu = (long)argument;
  cpu_set_t one;
  CPU_ZERO(&one); CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  prctl(PR_SET_TIMERSLACK, 1);
  if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 90}))
    fprintf(stderr, "pauses: no real-time priority, so other programs count as pauses too\n");
  struct timespec nap = {0, (long)(NAP_MS * 1e6)};
  for (;;) {
    double before = ms(CLOCK_MONOTONIC);
    nanosleep(&nap, 0);
    double late = ms(CLOCK_MONOTONIC) - before - NAP_MS;
    if (late >= least_ms) { printf("%ld %.1f %.1f\n", cpu, ms(CLOCK_REALTIME), late); fflush(stdout); }
  }
  return 0;
}

int main(int argc, char **argv) {
  least_ms = argc > 1 ? atof(argv[1]) : 1;
  pthread_t thread;
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) pthread_create(&thread, 0, watch, (void *)cpu);
  pause();
}
