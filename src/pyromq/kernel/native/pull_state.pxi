# What verdicts on pulls hold: flags that Python sets when a verdict no longer holds, offsets pulled, files that are read
# without waiting. kernel/python/state.py has the same classes in Python and what they mean.

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t preadv2(int fd, const iovec *parts, int count, int64_t offset, int flags)

cdef extern from *:
    """
    #ifndef RWF_NOWAIT
    #define RWF_NOWAIT 0x8
    #endif
    """
    const int RWF_NOWAIT


cdef class ChangeFlag:
    cdef public bint is_set


cdef class PulledOffset:
    cdef readonly int64_t value
    cdef str pair
    cdef set changed

    def __init__(self, int64_t value, str pair, set changed):
        self.value, self.pair, self.changed = value, pair, changed

    cpdef int note(self, int64_t offset) except -1:
        if self.value != offset:
            self.value = offset
            self.changed.add(self.pair)
        return 0


cdef class ResidentFiles:
    cdef int64_t file_bytes, base
    cdef object find, read_by_disk
    cdef OpenFile file                # used last

    def __init__(self, int64_t file_bytes, find, read_by_disk):
        self.file_bytes, self.find, self.read_by_disk = file_bytes, find, read_by_disk

    cdef bint read(self, int64_t position, uint8_t *into, Py_ssize_t n) except -1:
        """All `n` bytes, which lie in one file. False: not there, or not in memory."""
        cdef int64_t inside = position % self.file_bytes
        cdef iovec part
        if position < 0 or n > self.file_bytes - inside:
            return False
        try:
            if self.file is None or self.base != position - inside or self.file.descriptor < 0:
                self.file, self.base = self.find(position), position - inside
            if self.file is None:
                return copied(self.read_by_disk(position, n), into, n)
        except Exception:  # Python meets it too, and says what is wrong
            return False
        part.iov_base, part.iov_len = into, <size_t>n
        return preadv2(self.file.descriptor, &part, 1, inside, RWF_NOWAIT) == n


cdef bint copied(raw, uint8_t *into, Py_ssize_t n) except -1:
    """Of a disk that is no file: bytes, or None if they are not in memory."""
    if type(raw) is not bytes or PyBytes_GET_SIZE(raw) != n:
        return False
    memcpy(into, PyBytes_AS_STRING(raw), <size_t>n)
    return True
