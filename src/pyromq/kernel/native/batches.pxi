# Batch bodies (request 320) that Python stores: counted, named for the duplicate window, and made records of. One odd
# message makes the whole batch Python's, which says what is wrong with it.

cdef inline bint lacks_end(const Plain *m) noexcept nogil:
    return m.properties.n > 0 and m.properties.at[m.properties.n - 1] != 2


def count_messages(body, Py_ssize_t most_properties):
    """How many messages a batch body has; -1: one is malformed, or has more bytes of properties than that."""
    cdef const uint8_t[::1] view = body
    cdef Py_ssize_t n = view.shape[0], at = 0, size, count = 0
    cdef Plain m
    m.with_crc = False
    while at < n:
        size = cut_message(&view[at], n - at, &m)
        if size == 0 or m.properties.n > most_properties:
            return -1
        at += size
        count += 1
    return count


def named_batch(body, bytes mark, Py_ssize_t most_properties):
    """The body with `mark` and its place in the batch behind the properties of each message, and how many there are.
    None: there is none, one is malformed, or its properties would be longer than that."""
    cdef const uint8_t[::1] view = body
    cdef Py_ssize_t n = view.shape[0], at = 0, size, count = 0, given, left = PyBytes_GET_SIZE(mark)
    cdef uint8_t digits[24]
    cdef uint8_t *r
    cdef uint8_t *start
    cdef Buffer out
    cdef Plain m
    m.with_crc = False
    out.at, out.used, out.room = NULL, 0, 0
    try:
        while at < n:
            size = cut_message(&view[at], n - at, &m)
            if size == 0:
                return None
            given = m.properties.n + lacks_end(&m) + left + (put_number(digits, count) - digits) + 1
            if given > most_properties or given > 32767:
                return None
            reserve(&out, <size_t>(size + given))
            start = out.at + out.used
            memcpy(start, &view[at], <size_t>size)
            r = start + size
            if lacks_end(&m):
                r[0] = 2
                r += 1
            memcpy(r, PyBytes_AS_STRING(mark), <size_t>left)
            r = put_number(r + left, count)
            r[0] = 2
            put32(start, <uint32_t>(r + 1 - start))
            put16(start + 20 + m.body.n, <uint32_t>given)
            out.used += <size_t>(r + 1 - start)
            at += size
            count += 1
        return (PyBytes_FromStringAndSize(<const char *>out.at, <Py_ssize_t>out.used), count) if count else None
    finally:
        free(out.at)


def batch_records(body, bytes topic, tuple numbers, bytes born_host, bytes store_host, bint with_crc):
    """The records of a batch body, one behind another. `numbers`: queue, its next offset, sysFlag, born, reconsumed
    times, position in the log, store time. None: a message is malformed, or brings a whole-record CRC of its own."""
    cdef const uint8_t[::1] view = body
    cdef Py_ssize_t n = view.shape[0], at = 0, size
    cdef Buffer out
    cdef Plain m
    m.topic, m.born_host, m.store_host = text_of(topic), text_of(born_host), text_of(store_host)
    m.queue_id, m.queue_offset, m.sys_flag, m.born, m.reconsume_times, m.position, m.store_time = numbers
    m.with_crc, m.prepared = with_crc, 0
    m.tail.at, m.tail.n = NULL, 0
    if n < 1 or m.topic.n > 127 or memmem(&view[0], <size_t>n, b"__CRC32#", 8) != NULL:
        return None
    out.at, out.used, out.room = NULL, 0, 0
    try:
        while at < n:
            size = cut_message(&view[at], n - at, &m)
            if size == 0 or property_bytes(&m) > 32767:
                return None
            reserve(&out, <size_t>record_bytes(&m))
            put_record(out.at + out.used, &m)
            out.used += <size_t>record_bytes(&m)
            m.position += record_bytes(&m)
            m.queue_offset += 1
            at += size
        return PyBytes_FromStringAndSize(<const char *>out.at, <Py_ssize_t>out.used)
    finally:
        free(out.at)
