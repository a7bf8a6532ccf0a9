# Files of the store as a buffer is written to them, straight from memory.

cdef extern from "<unistd.h>" nogil:
    Py_ssize_t pwrite(int descriptor, const void *data, size_t n, int64_t offset)


cdef class Outlet:
    """An open file of the store that is written to: from position `base` of its sequence on."""

    cdef object file, name
    cdef bint is_real                     # a simulated disk has no descriptors
    cdef int64_t base

    cdef int use(self, file, int64_t base) except -1:
        self.file, self.base = file, base
        self.is_real = hasattr(file, "descriptor")
        self.name = file.name
        return 0

    cdef bint is_for(self, int64_t base) except -1:
        """Whether it is that file, and still open: it may have gone, or made room for others. Only a descriptor tells."""
        return self.is_real and self.base == base and <int>self.file.descriptor >= 0

    cdef int write(self, sequence, int64_t inside, const uint8_t *data, Py_ssize_t n) except -1:
        """All of it. What the system does not take is tried once more by Python's file, which says what is wrong. Without
        a sequence nobody but its owner closes the file."""
        cdef Py_ssize_t done = 0, taken
        cdef int descriptor = self.file.descriptor if self.is_real else -1
        if descriptor < 0 and self.is_real and sequence is not None:  # it made room for another just now
            self.use(sequence.file_at(self.base)[0], self.base)
            descriptor = self.file.descriptor
        if descriptor >= 0:
            while done < n:
                taken = pwrite(descriptor, data + done, <size_t>(n - done), inside + done)
                if taken <= 0:
                    break
                done += taken
        if done < n:
            self.file.pwrite(inside + done, PyMemoryView_FromMemory(<char *>data + done, n - done, PyBUF_READ))
        return 0
