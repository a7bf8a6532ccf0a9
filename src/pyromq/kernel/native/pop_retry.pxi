# Messages of a retry topic as pops hand them out: under the name that was asked for, with their receipt
# (broker/pop/retry_records.py).

cdef bint put_renamed(Buffer *out, const uint8_t *p, Py_ssize_t n, Text topic, Text receipt) except -1:
    """Add such a record. False: one that Python has to look at."""
    cdef Place place
    cdef Text names[MOST_PAIRS]
    cdef Text values[MOST_PAIRS]
    cdef int i, count
    cdef bint has_receipt = False
    cdef Py_ssize_t size = 0
    cdef uint8_t *r
    cdef uint8_t *start
    if not place_of(p, n, &place) or place.size != n or topic.n > 127:
        return False
    count = pairs_of(place.properties, names, values)
    if count < 0:
        return False
    reserve(out, <size_t>(n + topic.n + receipt.n + 16))
    start = out.at + out.used
    size = (place.body.at + place.body.n) - p
    memcpy(start, p, <size_t>size)
    put32(start + 4, MAGIC_V1)
    put32(start + 8, crc32_bytes(0, place.body.at, <size_t>place.body.n) & 0x7FFFFFFF)
    r = start + size
    r[0] = <uint8_t>topic.n
    r = put_text(r + 1, topic) + 2
    size = r - start
    for i in range(count):
        if same(names[i], b"__CRC32#", 8):    # it is that of the record as it is stored
            continue
        has_receipt = has_receipt or same(names[i], b"POP_CK", 6)
        r = put_pair(r, names[i], values[i])
    if not has_receipt:
        names[0].at, names[0].n = <const uint8_t *>b"POP_CK", 6
        r = put_pair(r, names[0], receipt)
    if r - start - size > 0x7FFF:
        return False
    put16(start + size - 2, <uint32_t>(r - start - size))
    put32(start, <uint32_t>(r - start))
    out.used += <size_t>(r - start)
    return True
