# The index's hot state: kernel.pxd has the fields, kernel/python/index_state.py the same classes in Python.

cdef class SlotState:
    def __init__(self, array_of slots, bytearray changed, bytearray due, dict saved):
        self.slots = slots
        self.use(changed, due, saved)

    def use(self, bytearray changed, bytearray due, dict saved):
        self.changed, self.due, self.saved = changed, due, saved

    def beyond(self, uint32_t number):
        cdef Slots table
        cdef int64_t slot
        cdef list found = []
        slots_of(self, &table)
        for slot in range(table.count):
            if table.at[slot] >= number:
                found.append(slot)
        return found

    @property
    def used(self):
        cdef Slots table
        cdef int64_t slot, used = 0
        slots_of(self, &table)
        for slot in range(table.count):
            used += table.at[slot] != 0
        return used


cdef int slots_of(SlotState state, Slots *table) except -1:
    """The table of an index file, whose length nobody changes while we have the GIL."""
    cdef Py_ssize_t pages = min(len(state.changed), len(state.due))
    table.count = len(state.slots)
    if state.slots.ob_descr.typecode != c'I' or not table.count or pages * PAGE_SLOTS < table.count:
        raise ValueError("the pages do not cover the slots")
    table.at = state.slots.data.as_uints
    table.dirty = <uint8_t *>PyByteArray_AS_STRING(state.changed)
    table.due = <uint8_t *>PyByteArray_AS_STRING(state.due)
    return 0


cdef class IndexTail:
    def __init__(self, int64_t entry_limit, int64_t entries_at, write_pending):
        self.entry_limit, self.entries_at, self.write_pending = entry_limit, entries_at, write_pending
        self.pending = []
        self.next_entry = 1

    def set_header(self, int64_t begin_time, int64_t end_time, int64_t begin_position, int64_t end_position, int64_t used_slots, int64_t next_entry):
        self.begin_time, self.end_time = begin_time, end_time
        self.begin_position, self.end_position = begin_position, end_position
        self.used_slots, self.next_entry = used_slots, next_entry

    def add(self, bytes keys, Py_ssize_t first, Py_ssize_t count, int64_t store_time):
        if first < 0 or count < 1 or (first + count) * KEY_BYTES > PyBytes_GET_SIZE(keys) or count > self.entry_limit - self.next_entry:
            raise ValueError(f"{count} keys from {first} on are more than there are, or than fit")
        self.chain(<const uint8_t *>PyBytes_AS_STRING(keys) + first * KEY_BYTES, count, store_time)

    cdef int chain(self, const uint8_t *keys, Py_ssize_t count, int64_t store_time) except -1:
        """Within the file's limit."""
        cdef int64_t number = self.next_entry, seconds = 0
        cdef Slots slots
        cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * ENTRY_BYTES)
        if self.slots is None:
            raise ValueError("the slots are not loaded")
        if self.begin_time > 0:
            seconds = min(max((store_time - self.begin_time) // 1000, 0), <int64_t>INT32_MAX)
        slots_of(self.slots, &slots)
        self.used_slots += chain(
            &slots, self.slots.saved, keys, count, <uint32_t>number, <int32_t>seconds, <uint8_t *>PyBytes_AS_STRING(entries)
        )
        if number == 1:
            self.begin_position, self.begin_time = <int64_t>get64(keys + 4), store_time
        self.next_entry = number + count
        self.end_position, self.end_time = <int64_t>get64(keys + (count - 1) * KEY_BYTES + 4), store_time
        self.is_changed = True
        self.pending.append(entries)
        self.pending_bytes += count * ENTRY_BYTES
        return 0


cdef class IndexState:
    def __init__(self, roll, int64_t most_pending):
        self.roll, self.most_pending = roll, most_pending
        self.covered = -1

    def add(self, bytes keys, int64_t store_time):
        self.chain(<const uint8_t *>PyBytes_AS_STRING(keys), PyBytes_GET_SIZE(keys) // KEY_BYTES, store_time)

    cdef int chain(self, const uint8_t *keys, Py_ssize_t count, int64_t store_time) except -1:
        cdef int64_t some
        while count:
            if self.tail is None or self.tail.next_entry >= self.tail.entry_limit:
                self.roll()
            if self.tail is None:
                raise ValueError("no index file is open")
            some = min(<int64_t>count, self.tail.entry_limit - self.tail.next_entry)
            if some < 1:
                raise ValueError("the index file has no room")
            self.tail.chain(keys, <Py_ssize_t>some, store_time)
            self.covered = self.tail.end_position
            keys += some * KEY_BYTES
            count -= <Py_ssize_t>some
        if self.tail is not None and self.tail.pending_bytes >= self.most_pending:
            self.tail.write_pending()
        return 0
