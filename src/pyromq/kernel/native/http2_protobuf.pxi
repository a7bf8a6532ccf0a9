# Protobuf's wire form, as far as hot calls need it: cursors over lengths that are checked before each step.

cdef struct Field:
    int number
    int kind              # 0 a number, 2 bytes
    uint64_t value
    Text text


cdef bint take_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) noexcept nogil:
    cdef uint64_t made = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at[0] < end and shift < 64:
        byte = at[0][0]
        at[0] += 1
        if shift == 63 and byte > 1:
            return False
        made |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            value[0] = made
            return True
        shift += 7
    return False


cdef bint take_field(const uint8_t **at, const uint8_t *end, Field *f) noexcept nogil:
    """The next field. False: at the end (`at` is there), or something that we do not read."""
    cdef uint64_t head
    if not take_varint(at, end, &head) or head > 2047:
        return False
    f.number, f.kind = <int>(head >> 3), <int>(head & 7)
    if not take_varint(at, end, &f.value):
        return False
    if f.kind == 0:
        return True
    if f.kind != 2 or f.value > <uint64_t>(end - at[0]):
        return False
    f.text.at, f.text.n = at[0], <Py_ssize_t>f.value
    at[0] += f.value
    return True


cdef inline uint8_t *put_varint(uint8_t *p, uint64_t v) noexcept nogil:
    while v > 127:
        p[0] = <uint8_t>(v | 128)
        p += 1
        v >>= 7
    p[0] = <uint8_t>v
    return p + 1


cdef inline int varint_bytes(uint64_t v) noexcept nogil:
    cdef int n = 1
    while v > 127:
        v >>= 7
        n += 1
    return n


cdef bint is_printable(Text t) noexcept nogil:
    """ASCII without controls, with more than blanks: what every check of texts passes."""
    cdef Py_ssize_t i
    cdef uint8_t odd = 0, inked = 0
    for i in range(t.n):  # without a way out: so the compiler takes many bytes at once
        odd |= (t.at[i] < 32) | (t.at[i] > 126)
        inked |= t.at[i] != 32
    return not odd and inked
