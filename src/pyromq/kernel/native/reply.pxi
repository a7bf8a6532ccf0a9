# Answers to sends. The constant parts are cut from what protocol/command.py writes (`SendSettings`); ours are the numbers.

# `ids` holds the positions of the messages, eight bytes each; `host` is the store host in hex digits.
cdef struct Answer:
    int64_t opaque, queue_id, queue_offset
    Text unique, ids, host
    bint is_json


cdef uint8_t *put_ids(uint8_t *r, const Answer *a) noexcept nogil:
    """Offset ids of the positions (eight bytes each) in `ids`, commas between: the host and 16 digits each."""
    cdef Py_ssize_t at = 0
    while at < a.ids.n:
        if at:
            r[0] = c','
            r += 1
        r = put_text(r, a.host)
        put_hex(r, a.ids.at + at, 8)
        r += 16
        at += 8
    return r


cdef inline Py_ssize_t ids_bytes(const Answer *a) noexcept nogil:
    return a.ids.n // 8 * (a.host.n + 16 + 1) - 1


cdef inline uint8_t *put_number(uint8_t *r, int64_t v) noexcept nogil:
    if v < 0:
        r[0] = c'-'
        return r + 1 + put_decimal(r + 1, <uint64_t>0 - <uint64_t>v)
    return r + put_decimal(r, <uint64_t>v)


cdef uint8_t *put_json(uint8_t *r, const Answer *a, const Text *piece) noexcept nogil:
    r = put_ids(put_text(r, piece[0]), a)
    r = put_number(put_text(r, piece[1]), a.queue_id)
    r = put_number(put_text(r, piece[2]), a.queue_offset)
    r = put_text(put_text(r, piece[3]), a.unique)
    r = put_number(put_text(r, piece[4]), a.opaque)
    return put_text(r, piece[5])


cdef uint8_t *put_value(uint8_t *r, Text name, uint8_t **length_at) noexcept nogil:
    """A field's name; its value follows, and its length is filled in behind that."""
    put16(r, <uint32_t>name.n)
    r = put_text(r + 2, name)
    length_at[0] = r
    return r + 4


cdef uint8_t *put_binary(uint8_t *start, const Answer *a, const Text *piece) noexcept nogil:
    """`piece`: fixed part, fields of the region, then the names of our four fields."""
    cdef uint8_t *r = put_text(start, piece[0])
    cdef uint8_t *length_at
    cdef uint8_t *block
    put32(start + 5, <uint32_t>a.opaque)
    put32(r, 0)
    block = r + 4
    r = put_text(r + 8, piece[1])
    r = put_ids(put_value(r, piece[2], &length_at), a)
    put32(length_at, <uint32_t>(r - length_at - 4))
    r = put_number(put_value(r, piece[3], &length_at), a.queue_id)
    put32(length_at, <uint32_t>(r - length_at - 4))
    r = put_number(put_value(r, piece[4], &length_at), a.queue_offset)
    put32(length_at, <uint32_t>(r - length_at - 4))
    r = put_text(put_value(r, piece[5], &length_at), a.unique)
    put32(length_at, <uint32_t>(r - length_at - 4))
    put32(block, <uint32_t>(r - block - 4))
    return r


cdef inline bint is_plain_text(Text t) noexcept nogil:
    """Needs no escape in JSON."""
    cdef Py_ssize_t i
    for i in range(t.n):
        if t.at[i] < 32 or t.at[i] > 126 or t.at[i] == c'"' or t.at[i] == c'\\':
            return False
    return True


cdef int put_answer(Buffer *out, const Answer *a, const Text *json, const Text *binary) except -1 nogil:
    """A whole frame behind those that are there. Its header's length has 24 bits; `SendSettings.batch_messages` sees to it."""
    cdef const Text *piece = json if a.is_json else binary
    cdef Py_ssize_t most = 8 + 4 * 8 + 3 * 20 + ids_bytes(a) + a.unique.n
    cdef uint8_t *start
    cdef uint8_t *r
    cdef int i
    for i in range(6):
        most += piece[i].n
    reserve(out, <size_t>most)
    start = out.at + out.used
    r = put_json(start + 8, a, piece) if a.is_json else put_binary(start + 8, a, piece)
    put32(start, <uint32_t>(r - start - 4))
    put32(start + 4, <uint32_t>(r - start - 8) | (0 if a.is_json else <uint32_t>1 << 24))
    out.used += <size_t>(r - start)
    return 0
