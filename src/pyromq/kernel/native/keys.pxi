# Keys of messages chained into the slot table of an index file, and a stretch of that table as the file has it.

cdef extern from *:
    """
    #define kernel_prefetch(address) __builtin_prefetch(address, 1)
    """
    void kernel_prefetch(const void *address) nogil

cdef enum:
    KEYS_AHEAD = 8            # whose slots are asked for while one is chained: they lie anywhere in 20 MB


# The slot table of an index file; a byte of `dirty` and of `due` stands for a page of PAGE_SLOTS slots.
cdef struct Slots:
    uint32_t *at
    Py_ssize_t count
    uint8_t *dirty
    uint8_t *due


cdef int chain(const Slots *slots, dict saved, const uint8_t *key, Py_ssize_t count, uint32_t number, int32_t seconds, uint8_t *entry) except -1:
    """Entries for `count` keys, for which `entry` has room, `number` being that of the first; how many slots had none.

    A page that is due goes to `saved`, as the file has it, before it changes.
    """
    cdef Py_ssize_t i, page
    cdef uint32_t slot, previous, slot_count = <uint32_t>slots.count
    cdef int fresh = 0
    for i in range(count):
        if i + KEYS_AHEAD < count:
            kernel_prefetch(slots.at + get32(key + KEYS_AHEAD * KEY_BYTES) % slot_count)
        slot = get32(key) % slot_count
        previous = slots.at[slot]
        memcpy(entry, key, KEY_BYTES)
        put32(entry + 12, <uint32_t>seconds)
        put32(entry + 16, previous)
        fresh += previous == 0
        page = slot // PAGE_SLOTS
        if slots.due[page]:
            saved[page] = turned(slots.at, page * PAGE_SLOTS, min((page + 1) * PAGE_SLOTS, slots.count))
            slots.due[page] = 0
        slots.at[slot] = number
        slots.dirty[page] = 1
        number += 1
        key += KEY_BYTES
        entry += 20
    return fresh


cdef bytes turned(const uint32_t *slots, Py_ssize_t first, Py_ssize_t until):
    cdef Py_ssize_t i
    cdef bytes out = PyBytes_FromStringAndSize(NULL, 4 * (until - first))
    cdef uint8_t *p = <uint8_t *>PyBytes_AS_STRING(out)
    for i in range(first, until):
        put32(p, slots[i])
        p += 4
    return out


def big_endian(const uint32_t[::1] slots, Py_ssize_t first, Py_ssize_t until):
    """A stretch of the slot table as it stands in the file: copied and turned in one pass."""
    until = min(until, slots.shape[0])
    if first < 0 or first > until:
        raise ValueError(f"no slots from {first} to {until}")
    return turned(&slots[0] + first, 0, until - first) if until > first else b""


def crc32(const uint8_t[::1] data, uint32_t before=0):
    """As zlib.crc32: for the tests, which compare."""
    return crc32_bytes(before, &data[0], <size_t>data.shape[0]) if data.shape[0] else before
