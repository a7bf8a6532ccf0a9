# What is signed of a request: its fields as they came, put in the order of their names.

cdef enum:
    MOST_SIGNED = 24          # fields of a request whose signature is checked here
    MOST_SIGNED_NAME = 64

cdef struct SignedField:
    Text name, value
    uint64_t first            # the name's first bytes, so that most names are compared as numbers
    bint escaped, wide

cdef struct SignedFields:
    int count
    bint is_unescaped         # values that were escaped are as they are signed
    const uint8_t *end        # of the header
    SignedField field[MOST_SIGNED]

cdef struct FieldOrder:
    int count
    int place[MOST_SIGNED]


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* Eight bytes, the first one on top. */
    static inline uint64_t kernel_first_bytes(const uint8_t *p) {
    #if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
      uint64_t v;
      memcpy(&v, p, 8);
      return __builtin_bswap64(v);
    #else
      uint64_t v = 0;
      for (int i = 0; i < 8; i++) v = v << 8 | p[i];
      return v;
    #endif
    }
    /* Whether one of eight bytes is not printable ASCII, or a blank. */
    static inline int kernel_has_odd(uint64_t v) {
      const uint64_t ones = 0x0101010101010101u;
      return (((v + ones) | v | ((v - ones * 33) & ~v)) & ones * 128) != 0;
    }
    """
    uint64_t kernel_first_bytes(const uint8_t *p) nogil
    bint kernel_has_odd(uint64_t v) nogil


cdef inline uint64_t first_bytes(Text name, const uint8_t *end) noexcept nogil:
    """As a number, of a name of at least one byte, with zeroes behind a short one; what lies before `end` may be read."""
    cdef uint64_t v = 0
    cdef int i
    if end - name.at >= 8:
        v = kernel_first_bytes(name.at)
        return v if name.n >= 8 else v & ~(~<uint64_t>0 >> (8 * name.n))
    for i in range(<int>name.n):
        v |= <uint64_t>name.at[i] << (56 - 8 * i)
    return v


cdef bint keep_signed(SignedFields *fields, Text name, Text value, bint escaped, bint wide) noexcept nogil:
    """False: there are too many, or the name is none of ours: its place in Java's order is Python's to find."""
    cdef Py_ssize_t i = 8
    cdef SignedField *one
    cdef uint64_t blanks = <uint64_t>0x6161616161616161
    if fields.count == MOST_SIGNED or name.n < 1 or name.n > MOST_SIGNED_NAME:
        return False
    one = &fields.field[fields.count]
    one.first = first_bytes(name, fields.end)
    if kernel_has_odd(one.first if name.n >= 8 else one.first | blanks >> (8 * name.n)):
        return False
    while i < name.n:         # eight at a time, the last ones perhaps twice
        if kernel_has_odd(kernel_first_bytes(name.at + min(i, name.n - 8))):
            return False
        i += 8
    one.name, one.value, one.escaped, one.wide = name, value, escaped, wide
    fields.count += 1
    return True


cdef inline int compared(const SignedField *a, const SignedField *b) noexcept nogil:
    """Below, above or at 0: how the names are ordered."""
    cdef int by_bytes
    if a.first != b.first:
        return -1 if a.first < b.first else 1
    by_bytes = memcmp(a.name.at, b.name.at, <size_t>min(a.name.n, b.name.n))
    return by_bytes if by_bytes else <int>(a.name.n - b.name.n)


cdef bint sort_fields(const SignedFields *fields, FieldOrder *order) noexcept nogil:
    """Put the places of the fields into the order of their names. A client's requests of one code mostly have the same
    ones, so this begins with the order of the last. False: twice the same, or one that old clients do not sign."""
    cdef int i, at, by, place
    if order.count != fields.count:
        order.count = fields.count
        for i in range(fields.count):
            order.place[i] = i
    for i in range(fields.count):
        place = order.place[i]
        if same(fields.field[place].name, b"_UNIQUE_KEY_QUERY", 17):
            return False
        at = i
        while at > 0:
            by = compared(&fields.field[order.place[at - 1]], &fields.field[place])
            if by < 0:
                break
            if by == 0:
                order.place[at] = place     # whole again: it is the next request's first guess
                return False
            order.place[at] = order.place[at - 1]
            at -= 1
        order.place[at] = place
    return True


cdef inline bint is_named_so(const SignedField *field, Text name, uint64_t first) noexcept nogil:
    """`first`: of the name, as `first_bytes` has it."""
    if field.first != first or field.name.n != name.n:
        return False
    return name.n <= 8 or memcmp(field.name.at, name.at, <size_t>name.n) == 0
