# Pulls: queue entries to ranges of the log, and what was read cut into records that are sure to be whole.

def pick_entries(bytes entries, int64_t first_offset, tag_codes, Py_ssize_t max_count, int64_t max_bytes, int64_t low):
    """As kernel/python/pull.py."""
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(entries)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(entries), taken = 0
    cdef int64_t offset = first_offset, total = 0, position, size, code
    cdef list ranges = []
    cdef bint full = False
    while n >= 20:
        if taken >= max_count:
            full = True
            break
        position, size, code = <int64_t>get64(p), <int32_t>get32(p + 8), <int64_t>get64(p + 12)
        if size != 0x7FFFFFFF:
            if size == 0:
                break
            if position >= low and (tag_codes is None or code in tag_codes):
                if taken and total + size > max_bytes:
                    full = True
                    break
                ranges.append(Range(position, size, offset))
                taken += 1
                total += size
        offset += 1
        p += 20
        n -= 20
    return Picked(ranges, offset, full)


cdef int64_t own_crc(const uint8_t *tail) noexcept nogil:
    """The CRC over the whole record, of its last CRC_BYTES: ten digits, the least first. -1: they are none."""
    cdef int64_t number = 0
    cdef int i
    if memcmp(tail, b"__CRC32#\001", 9) != 0 or tail[19] != 2:
        return -1
    for i in range(10):
        if tail[18 - i] < c'0' or tail[18 - i] > c'9':
            return -1
        number = number * 10 + (tail[18 - i] - c'0')
    return number


cdef bint is_sealed(const uint8_t *p, Py_ssize_t size, int64_t position) noexcept nogil:
    """Whether it is the record of that position, ends with its own CRC, and that fits."""
    cdef int64_t expected
    if size < FIXED_BYTES or get32(p) != <uint32_t>size or <int64_t>get64(p + 28) != position:
        return False
    if get32(p + 4) != MAGIC_V1 and get32(p + 4) != MAGIC_V2:
        return False
    expected = own_crc(p + size - CRC_BYTES)
    return expected >= 0 and expected == <int64_t>(crc32_bytes(0, p, <size_t>(size - CRC_BYTES)) & 0x7FFFFFFF)


def cut_sealed(ranges, parts):
    """The records of `ranges`, cut from `parts`, in which those that follow each other in the log were read together.

    None if any is not whole or has no CRC over all of it: then each needs a look of its own.
    """
    cdef int64_t position, size, expected = -1
    cdef Py_ssize_t at = 0, length = 0
    cdef const uint8_t *p = NULL
    cdef bytes part
    cdef list records = []
    pieces = iter(parts)
    for one in ranges:
        position, size = one[0], one[1]
        if position != expected:
            part = next(pieces, b"")
            p, length, at = <const uint8_t *>PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part), 0
        if size < FIXED_BYTES or length - at < size or not is_sealed(p + at, <Py_ssize_t>size, position):
            return None
        records.append(PyBytes_FromStringAndSize(<const char *>p + at, <Py_ssize_t>size))
        at += <Py_ssize_t>size
        expected = position + size
    return records
