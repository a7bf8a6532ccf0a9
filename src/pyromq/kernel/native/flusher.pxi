# The flusher: a thread that syncs the log and says how far it got. It never takes the GIL, so nothing that Python does
# delays a sync; whatever is submitted while one runs shares the next. Those whom a sync has served come back together
# shortly after it: the next one waits for half as much as the last one had, for a part of the time that it took, and
# never where one alone writes.

cdef extern from "time.h" nogil:
    struct timespec:
        pass

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_create(pthread_t *thread, const void *attributes, void *(*body)(void *) noexcept nogil, void *argument)
    int pthread_join(pthread_t thread, void **result)
    int pthread_mutex_init(pthread_mutex_t *lock, const void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *lock)
    int pthread_mutex_unlock(pthread_mutex_t *lock)
    int pthread_mutex_destroy(pthread_mutex_t *lock)
    int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
    int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const timespec *until)
    int pthread_cond_signal(pthread_cond_t *cond)
    int pthread_cond_destroy(pthread_cond_t *cond)

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <signal.h>
    #include <time.h>
    #include <unistd.h>
    #if defined(_POSIX_SYNCHRONIZED_IO) && _POSIX_SYNCHRONIZED_IO > 0
    static int kernel_sync(int descriptor) { return fdatasync(descriptor); }
    #else
    static int kernel_sync(int descriptor) { return fsync(descriptor); }
    #endif
    /* errno of a sync of the file, 0 if it is on the medium. */
    static int kernel_sync_fault(int descriptor) {
      while (kernel_sync(descriptor)) if (errno != EINTR) return errno ? errno : EIO;
      return 0;
    }
    /* The reader looks at the state, not at the bytes: a full pipe has rung already. */
    static void kernel_ring(int bell) { char byte = 1; while (write(bell, &byte, 1) < 0 && errno == EINTR) {} }
    static int64_t kernel_wall_ms(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000LL + t.tv_nsec / 1000000LL; }
    static int64_t kernel_now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
    static struct timespec kernel_moment(int64_t ns) { struct timespec t = {ns / 1000000000LL, ns % 1000000000LL}; return t; }
    /* A condition whose time-outs go by the clock that never steps. */
    static void kernel_condition(pthread_cond_t *condition) {
      pthread_condattr_t how;
      pthread_condattr_init(&how);
      pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
      pthread_cond_init(condition, &how);
      pthread_condattr_destroy(&how);
    }
    /* Signals are for the thread of the event loop. */
    static void kernel_block_signals(void) { sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0); }
    """
    int kernel_sync_fault(int descriptor) nogil
    void kernel_ring(int bell) nogil
    void kernel_block_signals() nogil
    int64_t kernel_now_ns() nogil
    int64_t kernel_wall_ms() nogil
    timespec kernel_moment(int64_t ns) nogil
    void kernel_condition(pthread_cond_t *condition) nogil

cdef enum:
    MOST_JOBS = 64            # files that wait for a sync: each new one is a roll of the log
    GATHER_NS = 200000        # a sync waits no longer than this for company


cdef struct Job:
    int descriptor
    int64_t until


cdef struct Flushing:
    pthread_mutex_t lock
    pthread_cond_t work
    Job jobs[MOST_JOBS]       # a ring; the one that is synced right now is no more in it
    int first, count
    int64_t done              # everything below it is on the medium
    int fault                 # errno of the sync that failed: the last one
    int bell
    bint is_ending
    bint is_gathering


cdef inline int64_t waiting_bytes(const Flushing *state) noexcept nogil:
    return state.jobs[(state.first + state.count - 1) % MOST_JOBS].until - state.done


cdef void gather(Flushing *state, int64_t enough, int64_t most_ns) noexcept nogil:
    """With the lock held: until so many bytes wait, or so long."""
    cdef timespec end
    if enough <= waiting_bytes(state):
        return
    end = kernel_moment(kernel_now_ns() + most_ns)
    state.is_gathering = True
    while waiting_bytes(state) < enough and not state.is_ending:
        if pthread_cond_timedwait(&state.work, &state.lock, &end):
            break
    state.is_gathering = False


cdef void *flush_jobs(void *argument) noexcept nogil:
    cdef Flushing *state = <Flushing *>argument
    cdef Job job
    cdef int fault
    cdef int64_t last_bytes = 0, took_ns = 0, begun
    kernel_block_signals()
    pthread_mutex_lock(&state.lock)
    while not state.fault:
        while state.count == 0 and not state.is_ending:
            pthread_cond_wait(&state.work, &state.lock)
        if state.count == 0:
            break
        gather(state, last_bytes // 2, min(took_ns // 4, <int64_t>GATHER_NS))
        job = state.jobs[state.first]
        state.first = (state.first + 1) % MOST_JOBS
        state.count -= 1
        pthread_mutex_unlock(&state.lock)
        begun = kernel_now_ns()
        fault = kernel_sync_fault(job.descriptor)
        took_ns = kernel_now_ns() - begun
        pthread_mutex_lock(&state.lock)
        if fault:
            state.fault = fault
        else:
            last_bytes = job.until - state.done
            state.done = job.until
        kernel_ring(state.bell)
    pthread_mutex_unlock(&state.lock)
    return NULL


cdef class Flusher:
    """One thread. `bell` is the writing end of a pipe that does not block: a byte comes whenever `state` has changed.

    Descriptors are the caller's: open until `state` has passed what was submitted for them, or `end` has returned.
    """

    cdef Flushing *shared
    cdef pthread_t thread
    cdef bint is_running

    def __cinit__(self, int bell, int64_t done):
        self.shared = <Flushing *>realloc(NULL, sizeof(Flushing))
        if self.shared == NULL:
            raise MemoryError("no memory for the flusher")
        memset(self.shared, 0, sizeof(Flushing))
        self.shared.bell, self.shared.done = bell, done
        pthread_mutex_init(&self.shared.lock, NULL)
        kernel_condition(&self.shared.work)
        if pthread_create(&self.thread, NULL, flush_jobs, self.shared):
            raise OSError("the system makes no thread for the flusher")
        self.is_running = True

    def __dealloc__(self):
        if self.shared != NULL:
            self.end()
            pthread_cond_destroy(&self.shared.work)
            pthread_mutex_destroy(&self.shared.lock)
            free(self.shared)

    def submit(self, int descriptor, int64_t until):
        """Sync this file: the log is written up to `until`. False: too many wait, or one failed; nothing was noted."""
        cdef Flushing *state = self.shared
        cdef Job *last
        cdef bint taken = True
        pthread_mutex_lock(&state.lock)
        last = &state.jobs[(state.first + state.count + MOST_JOBS - 1) % MOST_JOBS]
        if state.fault or state.is_ending:
            taken = False
        elif state.count and last.descriptor == descriptor:
            last.until = until
            if state.is_gathering:
                pthread_cond_signal(&state.work)
        elif state.count == MOST_JOBS:
            taken = False
        else:
            last = &state.jobs[(state.first + state.count) % MOST_JOBS]
            last.descriptor, last.until = descriptor, until
            state.count += 1
            pthread_cond_signal(&state.work)
        pthread_mutex_unlock(&state.lock)
        return taken

    def state(self):
        """Up to where the log is synced, and the errno of a sync that failed, or 0."""
        cdef Flushing *state = self.shared
        pthread_mutex_lock(&state.lock)
        found = (state.done, state.fault)
        pthread_mutex_unlock(&state.lock)
        return found

    def end(self):
        """Blocks until what was submitted is done. Twice is fine."""
        if not self.is_running:
            return
        self.is_running = False
        pthread_mutex_lock(&self.shared.lock)
        self.shared.is_ending = True
        pthread_cond_signal(&self.shared.work)
        pthread_mutex_unlock(&self.shared.lock)
        with nogil:
            pthread_join(self.thread, NULL)
