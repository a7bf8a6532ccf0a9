# Big-endian words, decimal and hex digits, growing buffers. Each writer's caller has made the room before.

cdef inline void put16(uint8_t *p, uint32_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 8)
    p[1] = <uint8_t>v


cdef inline void put32(uint8_t *p, uint32_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 24)
    p[1] = <uint8_t>(v >> 16)
    p[2] = <uint8_t>(v >> 8)
    p[3] = <uint8_t>v


cdef inline void put64(uint8_t *p, uint64_t v) noexcept nogil:
    put32(p, <uint32_t>(v >> 32))
    put32(p + 4, <uint32_t>v)


cdef inline uint32_t get16(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 8) | p[1]


cdef inline uint32_t get32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t get64(const uint8_t *p) noexcept nogil:
    return (<uint64_t>get32(p) << 32) | get32(p + 4)


cdef inline int put_decimal(uint8_t *p, uint64_t v) noexcept nogil:
    """At most 20 digits; how many."""
    cdef uint8_t digits[20]
    cdef int n = 0, i
    while True:
        digits[n] = <uint8_t>(48 + v % 10)
        n += 1
        v //= 10
        if v == 0:
            break
    for i in range(n):
        p[i] = digits[n - 1 - i]
    return n


cdef inline void put_hex(uint8_t *p, const uint8_t *raw, int n) noexcept nogil:
    """Two upper-case digits a byte."""
    cdef int i
    cdef const char *digits = b"0123456789ABCDEF"
    for i in range(n):
        p[2 * i] = <uint8_t>digits[raw[i] >> 4]
        p[2 * i + 1] = <uint8_t>digits[raw[i] & 15]


cdef struct Text:
    const uint8_t *at
    Py_ssize_t n


cdef inline bint same(Text t, const char *name, Py_ssize_t n) noexcept nogil:
    return t.n == n and memcmp(t.at, name, <size_t>n) == 0


cdef bint integer(Text t, int64_t low, int64_t high, int64_t *value) noexcept nogil:
    """A whole number as Java writes it: no sign but a minus, no leading zeroes, within bounds. False: not that."""
    cdef Py_ssize_t i = 0
    cdef uint64_t v = 0
    cdef bint negative
    if t.n == 0 or t.n > 19:
        return False
    negative = t.at[0] == c'-'
    if negative:
        i = 1
        if t.n == 1 or t.at[1] == c'0':
            return False
    if t.at[i] == c'0' and t.n > i + 1:
        return False
    while i < t.n:
        if t.at[i] < c'0' or t.at[i] > c'9':
            return False
        v = v * 10 + (t.at[i] - c'0')
        i += 1
    if v > <uint64_t>INT64_MAX:
        return False
    value[0] = -<int64_t>v if negative else <int64_t>v
    return low <= value[0] <= high


cdef struct Buffer:
    uint8_t *at
    size_t used
    size_t room


cdef int reserve(Buffer *b, size_t more) except -1 nogil:
    """Room for so many bytes behind what is used."""
    cdef size_t wanted
    cdef uint8_t *grown
    if b.room - b.used >= more:
        return 0
    wanted = 2 * b.room if b.room else 65536
    while wanted - b.used < more:
        wanted *= 2
    grown = <uint8_t *>realloc(b.at, wanted)
    if grown == NULL:
        with gil:
            raise MemoryError("no memory for a burst of records")
    b.at = grown
    b.room = wanted
    return 0
