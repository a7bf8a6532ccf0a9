# The hot state: kernel.pxd has the fields, kernel/python/state.py the same classes in Python and what they mean.

cdef extern from "<unistd.h>" nogil:
    Py_ssize_t pwrite(int descriptor, const void *data, size_t n, int64_t offset)


cdef class OpenFile:
    def __init__(self, int descriptor):
        self.descriptor = descriptor


cdef class FileTail:
    def __init__(self, by_disk):
        self.by_disk = by_disk

    def use(self, OpenFile file, int64_t base, int64_t until):
        self.file, self.base, self.until = file, base, until

    def holds(self, int64_t position):
        return self.is_open(position, 1)

    cdef bint is_open(self, int64_t position, Py_ssize_t n) noexcept:
        """Whether these bytes lie in the file that is known, and it still is open: it may have made room for others."""
        return self.file is not None and self.file.descriptor >= 0 and self.base <= position and position + n <= self.until

    cdef int write(self, int64_t position, const uint8_t *data, Py_ssize_t n) except -1:
        """All of it. What the system does not take is tried once more by the disk, which says what is wrong."""
        cdef Py_ssize_t done = 0, written
        if self.is_open(position, n):
            while done < n:
                written = pwrite(self.file.descriptor, data + done, <size_t>(n - done), position - self.base + done)
                if written <= 0:
                    break
                done += written
        if done < n:
            self.by_disk(position + done, PyMemoryView_FromMemory(<char *>data + done, n - done, PyBUF_READ))
        return 0


cdef class LogTail(FileTail):
    @property
    def room(self):
        return self.limit - self.end - BLANK_BYTES


cdef class QueueTail(FileTail):
    def __init__(self, str topic, int queue_id, int entry_bytes, by_disk, set changed_files):
        FileTail.__init__(self, by_disk)
        self.topic, self.queue_id, self.entry_bytes, self.changed_files = topic, queue_id, entry_bytes, changed_files
        self.file_name = ""

    @property
    def next_offset(self):
        return self.end + self.offsets_ahead


cdef class WatermarkState:
    def __init__(self, int64_t value):
        self.value = value


cdef class TimeSource:
    def __init__(self, monotonic, now_ms, bint is_system):
        self.monotonic, self.now_ms, self.is_system = monotonic, now_ms, is_system

    cdef double seconds(self) except? -1:
        return <double>kernel_now_ns() / 1e9 if self.is_system else <double>self.monotonic()

    cdef int64_t wall_ms(self) except? -1:
        return kernel_wall_ms() if self.is_system else <int64_t>self.now_ms()


cdef class Gate:
    def __init__(self):
        self.log_limit = -1

    def set(self, int reason, bint applies):
        self.closed = self.closed | reason if applies else self.closed & ~reason
