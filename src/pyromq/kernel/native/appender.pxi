# The one way into the log: records, queue entries, index entries, watermarks. Its twin is kernel/python/appender.py.
#
# The numbers are the store's own state (kernel.pxd), read and written with the GIL held from the first look to the last, so
# that nothing changes in between. Where a file is not open or has no room, the store is asked first (`make_room`), and
# what an open file does not take goes through its disk (`FileTail.write`). A write that fails ends writing.

cdef enum:
    ENTRY_BYTES = 20          # of consume queues and of the index
    BLANK_BYTES = 8           # of the record that ends a file


cdef class Appender:
    """Bound to one store. Event loop only."""

    def __init__(
        self,
        LogTail log,
        IndexState index,
        WatermarkState appended,
        WatermarkState readable,
        dict listeners,
        list on_append,
        bint is_readable_at_once,
        calls,
    ):
        self.log, self.index, self.appended, self.readable = log, index, appended, readable
        self.listeners, self.on_append, self.is_readable_at_once = listeners, on_append, is_readable_at_once
        self.make_room, self.break_off, self.publish, self.roll, self.arrival_failed = calls

    def append(self, const uint8_t[::1] records, int64_t last_position, int64_t store_time, queues, bytes keys):
        cdef Addition new
        cdef Part part
        cdef QueueTail tail
        cdef bytes entries
        cdef int64_t offsets
        cdef list parts = []
        for tail, entries, offsets in queues:
            part = Part.__new__(Part)
            part.tail, part.kept, part.offsets = tail, entries, offsets
            part.entries, part.count = <const uint8_t *>PyBytes_AS_STRING(entries), PyBytes_GET_SIZE(entries) // tail.entry_bytes
            parts.append(part)
        new.records, new.n = &records[0] if records.shape[0] else NULL, records.shape[0]
        new.start, new.last_position, new.store_time = self.log.end, last_position, store_time
        new.keys, new.key_count = <const uint8_t *>PyBytes_AS_STRING(keys), PyBytes_GET_SIZE(keys) // KEY_BYTES
        new.runs, new.run_count = NULL, 0
        self.put(&new, parts)

    cdef int put(self, const Addition *new, list parts) except -1:
        if self.is_short or not self.has_room(new, parts):
            self.reserve(new, parts)
        try:
            self.write(new, parts)
        except Exception as fault:
            raise self.break_off(fault) from fault
        self.notify(new.start + new.n, parts)
        return 0

    # --- before the first byte ------------------------------------------------------------------------------------

    cdef bint has_room(self, const Addition *new, list parts) noexcept:
        """Whether open files have room for all of it. Nothing is changed."""
        cdef Part part
        cdef IndexTail index
        if not self.log.is_open(new.start, new.n):
            return False
        for part in parts:
            if part.count and not (
                (part.tail.end + part.count) * part.tail.entry_bytes <= part.tail.room_until
                and part.tail.is_open(part.tail.end * part.tail.entry_bytes, part.count * part.tail.entry_bytes)
            ):
                return False
        if self.index is None:
            return True
        index = self.index.tail
        return (
            index is not None
            and index.slots is not None
            and index.next_entry + new.key_count <= index.entry_limit
            and index.entries_at + (index.next_entry + new.key_count) * ENTRY_BYTES <= index.room_until
        )

    cdef int reserve(self, const Addition *new, list parts) except -1:
        cdef Part part
        self.make_room([(part.tail, part.count) for part in parts if part.count], new.key_count)
        return 0

    # --- the write ------------------------------------------------------------------------------------------------

    cdef int write(self, const Addition *new, list parts) except -1:
        cdef Part part
        cdef QueueTail tail
        cdef int64_t position
        cdef Py_ssize_t size
        cdef LogTail log = self.log
        log.write(new.start, new.records, new.n)
        log.end = new.start + new.n
        log.last_time, log.last_position = new.store_time, new.last_position
        if log.on_write is not None:
            log.on_write()
        for part in parts:
            if part.count:
                tail = part.tail
                position, size = tail.end * tail.entry_bytes, part.count * tail.entry_bytes
                if tail.is_open(position, size):
                    tail.changed_files.add(tail.file_name)
                tail.write(position, part.entries, size)
                tail.end += part.count
                tail.offsets_ahead += part.offsets - part.count
        if new.key_count and self.index is not None:
            self.chain(new)
        return 0

    cdef int chain(self, const Addition *new) except -1:
        """An index file notes times, so the keys of each store time are chained by themselves."""
        cdef Py_ssize_t i, first = 0
        if new.runs == NULL:
            return self.index.chain(new.keys, new.key_count, new.store_time)
        for i in range(new.run_count):
            if new.runs[i].until > first:
                self.index.chain(new.keys + first * KEY_BYTES, new.runs[i].until - first, new.runs[i].store_time)
                first = new.runs[i].until
        return 0

    # --- who waits for it -----------------------------------------------------------------------------------------

    cdef int notify(self, int64_t end, list parts) except -1:
        """As the store publishes it, and by the store itself wherever somebody waits for a watermark."""
        cdef Part part
        if not self.is_readable_at_once or self.appended.is_watched or self.readable.is_watched:
            self.publish([part.tail for part in parts if part.count], end)
            return 0
        for part in parts:
            part.tail.readable_end = max(part.tail.readable_end, part.tail.end + part.tail.offsets_ahead)
        self.appended.value = max(self.appended.value, end)
        self.readable.value = max(self.readable.value, end)
        if self.listeners:
            for part in parts:
                if part.count:
                    self.notify_arrival(part.tail)
        for listener in self.on_append:
            listener()
        return 0

    cdef int notify_arrival(self, QueueTail tail) except -1:
        """The messages are stored: a listener that fails is no reason for their senders to hear otherwise."""
        for listener in self.listeners.get(tail.topic, ()):
            try:
                listener(tail)
            except Exception:
                self.arrival_failed(tail.topic)
        return 0
