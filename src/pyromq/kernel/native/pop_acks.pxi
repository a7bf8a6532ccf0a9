# What an ack says: receipts, and the JSON body of a batch. What is of another shape than Java's clients write is Python's.

cdef enum:
    MOST_BATCHED = 64         # entries of a batch
    MOST_BITS = 128           # bytes of the bits of one

cdef struct Receipt:
    int64_t start, pop_time, invisible, revive

cdef struct BatchEntry:
    Text group, topic, bits
    int64_t start, pop_time, queue_id
    uint8_t raw[MOST_BITS]
    int raw_n


cdef bint read_receipt(Text text, Receipt *receipt) noexcept nogil:
    """`start popTime invisibleTime reviveQueue retry broker queue offset`, and perhaps a ninth field."""
    cdef Text field[9]
    cdef Py_ssize_t at = 0, begin = 0
    cdef int count = 0
    cdef int64_t number
    while at <= text.n:
        if at == text.n or text.at[at] == c' ':
            if count == 9:
                return False
            field[count].at, field[count].n = text.at + begin, at - begin
            count += 1
            begin = at + 1
        at += 1
    if count < 8:
        return False
    return (
        integer(field[0], 0, INT64_MAX, &receipt.start)
        and integer(field[1], INT64_MIN + 1, INT64_MAX, &receipt.pop_time)
        and integer(field[2], INT64_MIN + 1, INT64_MAX, &receipt.invisible)
        and integer(field[3], INT32_MIN, INT32_MAX, &receipt.revive)
        and integer(field[6], INT32_MIN, INT32_MAX, &number)
        and integer(field[7], INT64_MIN + 1, INT64_MAX, &number)
        and receipt.revive != 999     # popped in order
    )


cdef inline int base64_digit(uint8_t c) noexcept nogil:
    if c'A' <= c <= c'Z': return c - c'A'
    if c'a' <= c <= c'z': return c - c'a' + 26
    if c'0' <= c <= c'9': return c - c'0' + 52
    if c == c'+': return 62
    return 63 if c == c'/' else -1


cdef bint read_bits(BatchEntry *entry) noexcept nogil:
    """The bits of an entry, at most MOST_BITS bytes of them."""
    cdef Text text = entry.bits
    cdef Py_ssize_t at = 0
    cdef int digits = 0, digit
    cdef uint32_t word = 0
    entry.raw_n = 0
    if text.n % 4 or text.n > MOST_BITS // 3 * 4:
        return False
    while text.n and text.at[text.n - 1] == c'=' and entry.bits.n - text.n < 2:
        text.n -= 1
    for at in range(text.n):
        digit = base64_digit(text.at[at])
        if digit < 0:
            return False
        word = word << 6 | <uint32_t>digit
        digits += 1
        if digits == 4:
            put32(entry.raw + entry.raw_n, word << 8)
            entry.raw_n += 3
            digits, word = 0, 0
    if digits == 1 or (digits == 2 and word & 15) or (digits == 3 and word & 3):
        return False
    if digits:
        word <<= 6 * (4 - digits)
        entry.raw[entry.raw_n] = <uint8_t>(word >> 16)
        if digits == 3:
            entry.raw[entry.raw_n + 1] = <uint8_t>(word >> 8)
        entry.raw_n += digits - 1
    return True


cdef bint take_plain(Cursor *c, Text *text) noexcept nogil:
    """A string without escapes, in ASCII."""
    cdef bint escaped, wide
    return take(c, c'"') and take_string(c, text, &escaped, &wide) and not escaped and not wide


cdef bint take_long(Cursor *c, int64_t low, int64_t high, int64_t *value) noexcept nogil:
    cdef Text text
    blanks(c)
    return take_number(c, &text) and integer(text, low, high, value)


cdef bint take_batch_entry(Cursor *c, BatchEntry *entry) noexcept nogil:
    cdef Text name, text
    cdef int64_t number
    cdef int bit, seen = 0
    if not take(c, c'{'):
        return False
    while True:
        if not take_plain(c, &name) or not take(c, c':'):
            return False
        if same(name, b"c", 1):
            bit = 1
            if not take_plain(c, &entry.group):
                return False
        elif same(name, b"t", 1):
            bit = 2
            if not take_plain(c, &entry.topic):
                return False
        elif same(name, b"b", 1):
            bit = 4
            if not take_plain(c, &entry.bits) or not read_bits(entry):
                return False
        elif same(name, b"so", 2):
            bit = 8
            if not take_long(c, 0, INT64_MAX >> 1, &entry.start):
                return False
        elif same(name, b"pt", 2):
            bit = 16
            if not take_long(c, INT64_MIN + 1, INT64_MAX, &entry.pop_time):
                return False
        elif same(name, b"q", 1):
            bit = 32
            if not take_long(c, 0, INT32_MAX, &entry.queue_id):
                return False
        elif same(name, b"r", 1):
            bit = 64
            if not take_plain(c, &text) or not same(text, b"0", 1):
                return False          # a retry topic's name is Python's to find
        elif same(name, b"rq", 2):
            bit = 128
            if not take_long(c, INT32_MIN, INT32_MAX, &number) or number == 999:
                return False
        elif same(name, b"it", 2):
            bit = 256
            if not take_long(c, INT64_MIN + 1, INT64_MAX, &number):
                return False
        else:
            return False
        if seen & bit:
            return False
        seen |= bit
        if take(c, c'}'):
            return seen & 63 == 63
        if not take(c, c','):
            return False


cdef int read_batch(const uint8_t *p, Py_ssize_t n, BatchEntry *entries) noexcept nogil:
    """The entries of a batch's body, and how many; 0: not of the one shape that is for us."""
    cdef Cursor c
    cdef Text name, text
    cdef int count = 0, seen = 0, bit
    c.at, c.end = p, p + n
    if not take(&c, c'{'):
        return 0
    while True:
        if not take_plain(&c, &name) or not take(&c, c':'):
            return 0
        if same(name, b"brokerName", 10):
            bit = 1
            if not take_plain(&c, &text):
                return 0
        elif same(name, b"acks", 4):
            bit = 2
            if seen & bit or not take(&c, c'['):
                return 0
            while True:
                if count == MOST_BATCHED or not take_batch_entry(&c, entries + count):
                    return 0
                count += 1
                if take(&c, c']'):
                    break
                if not take(&c, c','):
                    return 0
        else:
            return 0
        if seen & bit:
            return 0
        seen |= bit
        if take(&c, c'}'):
            break
        if not take(&c, c','):
            return 0
    blanks(&c)
    return count if c.at == c.end else 0
