# The hot state with C fields. Its twins are kernel/python/state.py, index_state.py and appender.py, which say what each
# class and field means.

from cpython.array cimport array as array_of
from libc.stdint cimport int64_t, uint8_t

cdef class OpenFile:
    cdef public int descriptor

cdef class FileTail:
    cdef readonly OpenFile file
    cdef readonly int64_t base, until
    cdef readonly object by_disk
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

cdef class SlotState:
    cdef readonly array_of slots
    cdef readonly bytearray changed, due
    cdef readonly dict saved

cdef class IndexTail:
    cdef readonly int64_t entry_limit, entries_at
    cdef public int64_t begin_time, end_time, begin_position, end_position, used_slots, next_entry
    cdef public int64_t room_until, pending_bytes
    cdef public SlotState slots
    cdef public list pending
    cdef public bint is_changed
    cdef readonly object write_pending
    cdef int chain(self, const uint8_t *keys, Py_ssize_t count, int64_t store_time) except -1

cdef class IndexState:
    cdef public IndexTail tail
    cdef public int64_t covered
    cdef int64_t most_pending
    cdef object roll
    cdef int chain(self, const uint8_t *keys, Py_ssize_t count, int64_t store_time) except -1

cdef class TimeSource:
    cdef readonly object monotonic, now_ms
    cdef bint is_system
    cdef double seconds(self) except? -1
    cdef int64_t wall_ms(self) except? -1

cdef class Gate:
    cdef public int closed
    cdef public double due
    cdef public int64_t log_limit

cdef class Part:
    cdef QueueTail tail
    cdef const uint8_t *entries
    cdef Py_ssize_t count       # of the entries
    cdef int64_t offsets        # that they stand for
    cdef bytes kept             # where the entries lie, if Python made them

cdef struct KeyRun:
    int64_t store_time
    Py_ssize_t until            # of the keys: those before it that no run before has

cdef struct Addition:
    const uint8_t *records
    Py_ssize_t n
    int64_t start, last_position, store_time
    const uint8_t *keys
    Py_ssize_t key_count
    const KeyRun *runs          # where records were stored at several times; NULL: all at `store_time`
    Py_ssize_t run_count

cdef class Appender:
    cdef LogTail log
    cdef IndexState index
    cdef WatermarkState appended, readable
    cdef dict listeners
    cdef list on_append
    cdef bint is_readable_at_once
    cdef object make_room, break_off, publish, roll, arrival_failed
    cdef public str stopped
    cdef public bint is_short
    cdef int put(self, const Addition *new, list parts) except -1
    cdef bint has_room(self, const Addition *new, list parts) noexcept
    cdef int reserve(self, const Addition *new, list parts) except -1
    cdef int write(self, const Addition *new, list parts) except -1
    cdef int chain(self, const Addition *new) except -1
    cdef int notify(self, int64_t end, list parts) except -1
    cdef int notify_arrival(self, QueueTail tail) except -1
