# The hot state with C fields. Its twin is kernel/python/state.py, which says what each one means.

from libc.stdint cimport int64_t, uint8_t

cdef class OpenFile:
    cdef public int descriptor

cdef class FileTail:
    cdef readonly OpenFile file
    cdef readonly int64_t base, until
    cdef object by_disk
    cdef bint is_open(self, int64_t position, Py_ssize_t n) noexcept
    cdef int write(self, int64_t position, const uint8_t *data, Py_ssize_t n) except -1

cdef class LogTail(FileTail):
    cdef public int64_t start, end, limit, last_time, last_position
    cdef public object on_write

cdef class QueueTail(FileTail):
    cdef readonly str topic
    cdef readonly int queue_id, entry_bytes
    cdef public int64_t end, offsets_ahead, room_until, min_offset, readable_end
    cdef public bint is_removed
    cdef public str file_name
    cdef set changed_files

cdef class WatermarkState:
    cdef public int64_t value
    cdef public bint is_watched
