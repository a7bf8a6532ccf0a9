# The commit-log record of a plain message, as protocol/record.py writes it.

# One message to be stored. All texts lie in the received buffer or in the scratch buffer.
cdef struct Plain:
    Text topic, body, properties, tail, born_host, store_host
    int64_t queue_id, flag, sys_flag, born, reconsume_times
    int64_t queue_offset, position, store_time
    int64_t prepared          # where the half message is of a committed transaction
    bint end_mark             # the properties lack the mark behind their last pair
    bint with_crc


cdef inline Py_ssize_t property_bytes(const Plain *m) noexcept nogil:
    return m.properties.n + m.end_mark + m.tail.n + (CRC_BYTES if m.with_crc else 0)


cdef inline Py_ssize_t record_bytes(const Plain *m) noexcept nogil:
    return 75 + m.born_host.n + m.store_host.n + m.body.n + m.topic.n + property_bytes(m)


cdef inline uint8_t *put_text(uint8_t *r, Text t) noexcept nogil:
    if t.n:
        memcpy(r, t.at, <size_t>t.n)
    return r + t.n


cdef inline uint8_t *put_pair(uint8_t *r, Text name, Text value) noexcept nogil:
    r = put_text(r, name)
    r[0] = 1
    r = put_text(r + 1, value)
    r[0] = 2
    return r + 1


cdef void put_record(uint8_t *start, const Plain *m) noexcept nogil:
    """`record_bytes(m)` bytes."""
    cdef uint8_t *r = start
    cdef uint32_t crc
    cdef int i
    put32(r, <uint32_t>record_bytes(m))
    put32(r + 4, 0xDAA320A7)
    put32(r + 8, crc32_bytes(0, m.body.at, <size_t>m.body.n) & 0x7FFFFFFF)
    put32(r + 12, <uint32_t>m.queue_id)
    put32(r + 16, <uint32_t>m.flag)
    put64(r + 20, <uint64_t>m.queue_offset)
    put64(r + 28, <uint64_t>m.position)
    put32(r + 36, (<uint32_t>m.sys_flag & ~<uint32_t>0x30) | (0x10 if m.born_host.n > 8 else 0) | (0x20 if m.store_host.n > 8 else 0))
    put64(r + 40, <uint64_t>m.born)
    r = put_text(r + 48, m.born_host)
    put64(r, <uint64_t>m.store_time)
    r = put_text(r + 8, m.store_host)
    put32(r, <uint32_t>m.reconsume_times)
    put64(r + 4, <uint64_t>m.prepared)
    put32(r + 12, <uint32_t>m.body.n)
    r = put_text(r + 16, m.body)
    r[0] = <uint8_t>m.topic.n
    r = put_text(r + 1, m.topic)
    put16(r, <uint32_t>property_bytes(m))
    r = put_text(r + 2, m.properties)
    if m.end_mark:
        r[0] = 2
        r += 1
    r = put_text(r, m.tail)
    if m.with_crc:
        crc = crc32_bytes(0, start, <size_t>(r - start)) & 0x7FFFFFFF
        memcpy(r, b"__CRC32#\001", 9)
        for i in range(10):  # least significant digit first
            r[9 + i] = <uint8_t>(48 + crc % 10)
            crc //= 10
        r[19] = 2
