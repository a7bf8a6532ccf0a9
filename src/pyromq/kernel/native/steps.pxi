# The writer's steps for one buffer's plain sends: log, queue entries, index entries, watermarks. Twin: `put_encoded` of
# store/log/writer.py, which takes whatever is not as usual here (a file that ends, room to be made, an index file that is full).
#
# No number lives here. The store's own objects are read and written in place, with the GIL held from the first look to the
# last step, so nothing can change in between and there is nothing to revoke; only open files are kept, and asked whether
# they still are. A write that fails ends writing, as it does in Python.

cdef enum:
    BROKEN = 0, STORED = 1, NOT_USUAL = 2
    ENTRY_BYTES = 20          # of queues and of the index
    BLANK_BYTES = 8           # of the record that ends a file
    GATHERED_BYTES = 64 << 10 # of index entries that wait, as in store/index/index_file.py


# What one buffer adds: records from `start` on, hashed keys, and the lanes' entries behind each other in `packed`.
cdef struct Addition:
    const uint8_t *records
    Py_ssize_t n
    int64_t start, last, store_time
    const uint8_t *packed
    const uint8_t *keys
    Py_ssize_t key_count


cdef class Steps:
    """Bound to one store. Event loop only."""

    cdef object writer, log, room, appended, readable, index
    cdef LogTail tail
    cdef list on_append
    cdef bint at_once                 # what is appended is readable
    cdef object open_index            # the store's index file that is written

    def __init__(self, writer, log, queues, index, room, appended, readable, list on_append, bint at_once):
        self.writer, self.log, self.index, self.room = writer, log, index, room
        self.tail = log.tail
        self.appended, self.readable, self.on_append, self.at_once = appended, readable, on_append, at_once

    cdef int put(self, const Addition *new, list lanes) except -1:
        """NOT_USUAL: nothing was done, Python's writer takes it. BROKEN: writing has ended."""
        if not self.fits(new, lanes):
            return NOT_USUAL
        try:
            self.write(new, lanes)
        except Exception as fault:
            self.writer.broken(fault)
            return BROKEN
        self.tell(new.start + new.n, lanes)
        return STORED

    cdef bint roll(self) except -1:
        """The log's file is full: on to the next one, if that was made ahead. It ends as Python ends it."""
        if self.writer.stopped is not None or self.room.refused is not None:
            return False
        try:
            return self.log.roll_on()
        except Exception as fault:
            self.writer.broken(fault)
            return False

    # --- before the first byte ------------------------------------------------------------------------------------

    cdef bint fits(self, const Addition *new, list lanes) except -1:
        """Whether there are files with room for all of it. Nothing is changed."""
        cdef Lane lane
        if self.writer.stopped is not None or self.room.refused is not None or self.tail.end != new.start:
            return False
        if not self.tail.is_open(new.start, new.n):
            return False
        for lane in lanes:
            if lane.messages and not has_room(lane):
                return False
        if self.index is None:
            return new.key_count == 0
        return new.key_count > 0 and self.index_has_room(new)

    cdef bint index_has_room(self, const Addition *new) except -1:
        cdef list files = self.index.files
        cdef int64_t until
        if not files:
            return False
        file = files[len(files) - 1]
        until = <int64_t>file.header.next_entry + new.key_count
        if file.slots is None or until > <int64_t>file.entry_limit:
            return False
        if <int64_t>file.entries_at + until * ENTRY_BYTES > <int64_t>file.room_until:
            return False
        self.open_index = file
        return True

    # --- the steps ------------------------------------------------------------------------------------------------

    cdef int write(self, const Addition *new, list lanes) except -1:
        cdef Lane lane
        cdef LogTail log = self.tail
        log.write(new.start, new.records, new.n)
        log.end = new.start + new.n
        log.last_time = new.store_time
        log.last_position = new.last
        if log.on_write is not None:
            log.on_write()
        for lane in lanes:
            if lane.messages:
                lane.tail.write((lane.next - lane.messages) * ENTRY_BYTES, new.packed + lane.first, lane.messages * ENTRY_BYTES)
                lane.tail.changed_files.add(lane.tail.file_name)
                lane.tail.end = lane.next
        if new.key_count:
            self.write_index(new)
        return 0

    cdef int write_index(self, const Addition *new) except -1:
        cdef int64_t number, begin_time, until, seconds = 0
        cdef int fresh
        cdef Slots slots
        cdef bytes entries = PyBytes_FromStringAndSize(NULL, new.key_count * ENTRY_BYTES)
        file = self.open_index
        header, table = file.header, file.slots
        number, begin_time = header.next_entry, header.begin_time
        if begin_time > 0:
            seconds = min(max((new.store_time - begin_time) // 1000, 0), <int64_t>INT32_MAX)
        image = table.image
        slots_of(table.slots, table.changed, image.due, &slots)
        fresh = chain(
            &slots, image.saved, new.keys, new.key_count, <uint32_t>number, <int32_t>seconds, <uint8_t *>PyBytes_AS_STRING(entries)
        )
        if fresh:
            header.used_slots = <int64_t>header.used_slots + fresh
        if number == 1:
            header.begin_position = <int64_t>get64(new.keys + 4)
            header.begin_time = new.store_time
        header.next_entry = number + new.key_count
        header.end_position = self.index.covered = <int64_t>get64(new.keys + (new.key_count - 1) * KEY_BYTES + 4)
        header.end_time = new.store_time
        file.is_changed = True
        (<list>file.pending).append(entries)
        until = <int64_t>file.pending_bytes + new.key_count * ENTRY_BYTES
        file.pending_bytes = until
        if until >= GATHERED_BYTES:
            file.write_pending()
        return 0

    # --- who waits for it -----------------------------------------------------------------------------------------

    cdef int tell(self, int64_t end, list lanes) except -1:
        """As `MessageStore` tells after a put."""
        cdef Lane lane
        readable = self.readable
        if self.at_once and not readable.waiting:
            for lane in lanes:
                if lane.messages and lane.tail.readable_end < lane.next:
                    lane.tail.readable_end = lane.next
            advance(self.appended, end)
            advance(readable.watermark, end)
            for lane in lanes:
                if lane.messages:
                    for listener in (<dict>readable.listeners).get(lane.grant.topic, ()):
                        listener(lane.tail)
        else:
            readable.appended([lane.tail for lane in lanes if lane.messages], end)
            advance(self.appended, end)
            if self.at_once:
                readable.advance(end)
        for listener in self.on_append:
            listener()
        return 0


cdef bint has_room(Lane lane) except -1:
    """In the queue's last file."""
    cdef QueueTail tail = lane.tail
    if tail.end != lane.next - lane.messages or lane.next * ENTRY_BYTES > tail.room_until:
        return False
    return tail.is_open(tail.end * ENTRY_BYTES, lane.messages * ENTRY_BYTES)


cdef int slots_of(array_of slots, bytearray dirty, bytearray due, Slots *table) except -1:
    """The table of an index file, which nobody may change the length of while we hold the GIL."""
    table.count = len(slots)
    if slots.ob_descr.typecode != c'I' or not table.count or min(len(dirty), len(due)) * PAGE_SLOTS < table.count:
        raise ValueError("the pages do not cover the slots")
    table.at = slots.data.as_uints
    table.dirty, table.due = <uint8_t *>PyByteArray_AS_STRING(dirty), <uint8_t *>PyByteArray_AS_STRING(due)
    return 0


cdef int advance(mark, int64_t value) except -1:
    """A watermark, which nearly always nobody waits for."""
    if mark.listeners or mark.waiters:
        mark.advance(value)
    elif <int64_t>mark.value < value:
        mark.value = value
    return 0
