# Files of the store as a pull reads them: without waiting, straight into the answer.

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

cdef class Files:
    """A file sequence of the store, read without waiting. The file used last is kept while it is open."""

    cdef object sequence, file
    cdef int64_t base, file_bytes

    def __init__(self, sequence):
        self.sequence = sequence
        self.file_bytes = sequence.file_bytes

    cdef bint read(self, int64_t position, uint8_t *into, Py_ssize_t n) except -1:
        """All `n` bytes, which lie in one file. False: not there, or not in memory."""
        cdef int64_t inside = position % self.file_bytes
        cdef iovec part
        cdef int fd = -1
        if position < 0 or n > self.file_bytes - inside:
            return False
        if self.file is not None and self.base == position - inside:
            fd = self.file.descriptor  # -1 once it was closed: it went, or made room for others
        if fd < 0:
            self.file = None
            try:
                if not self.sequence.has(position):
                    return False
                file = self.sequence.file_at(position)[0]
                if not hasattr(file, "descriptor"):
                    return copied(file.pread_resident(inside, n), into, n)
                self.file, self.base = file, position - inside
                fd = file.descriptor
            except Exception:  # Python meets it too, and says what is wrong
                return False
        part.iov_base, part.iov_len = into, <size_t>n
        return preadv2(fd, &part, 1, inside, RWF_NOWAIT) == n


cdef bint copied(raw, uint8_t *into, Py_ssize_t n) except -1:
    """Of a disk that is no file: bytes, or None if they are not in memory."""
    if type(raw) is not bytes or PyBytes_GET_SIZE(raw) != n:
        return False
    memcpy(into, PyBytes_AS_STRING(raw), <size_t>n)
    return True
