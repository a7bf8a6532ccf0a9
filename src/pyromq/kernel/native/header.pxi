# Headers of plain sends in both encodings. What is not of the one shape that Java's clients write is not for us: the
# caller then leaves the whole frame to Python, which knows every dialect.

cdef enum:
    GROUP = 0, TOPIC = 1, DEFAULT_TOPIC = 2, DEFAULT_QUEUES = 3, QUEUE = 4, SYS_FLAG = 5, BORN = 6, FLAG = 7
    PROPERTIES = 8, RECONSUME = 9, UNIT = 10, MAX_RECONSUME = 11, BATCH = 12, BROKER_NAME = 13
    FIELDS = 14

cdef struct Header:
    int64_t code, flag, opaque
    bint is_json
    bint escaped              # the properties hold JSON escapes
    uint32_t seen             # one bit a field
    Text field[FIELDS]


cdef int long_field(Text name) noexcept nogil:
    """Number of a field under its name in request 10; -1 for any other."""
    if same(name, b"topic", 5): return TOPIC
    if same(name, b"queueId", 7): return QUEUE
    if same(name, b"sysFlag", 7): return SYS_FLAG
    if same(name, b"flag", 4): return FLAG
    if same(name, b"properties", 10): return PROPERTIES
    if same(name, b"producerGroup", 13): return GROUP
    if same(name, b"defaultTopic", 12): return DEFAULT_TOPIC
    if same(name, b"defaultTopicQueueNums", 21): return DEFAULT_QUEUES
    if same(name, b"bornTimestamp", 13): return BORN
    if same(name, b"reconsumeTimes", 14): return RECONSUME
    if same(name, b"unitMode", 8): return UNIT
    if same(name, b"maxReconsumeTimes", 17): return MAX_RECONSUME
    if same(name, b"batch", 5): return BATCH
    if same(name, b"bname", 5): return BROKER_NAME
    return -1


cdef inline bint keep_field(Header *h, Text name, Text value, bint escaped) noexcept nogil:
    """False: a name that we do not know, or twice the same."""
    cdef int number
    if h.code == 10:
        number = long_field(name)
    elif name.n == 1 and c'a' <= name.at[0] <= c'n':
        number = name.at[0] - c'a'
    else:
        number = -1
    if number < 0 or h.seen & (<uint32_t>1 << number):
        return False
    if escaped:
        if number != PROPERTIES:
            return False
        h.escaped = True
    h.seen |= <uint32_t>1 << number
    h.field[number] = value
    return True


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end


cdef inline void blanks(Cursor *c) noexcept nogil:
    while c.at < c.end and (c.at[0] == c' ' or c.at[0] == c'\n' or c.at[0] == c'\r' or c.at[0] == c'\t'):
        c.at += 1


cdef inline bint take(Cursor *c, uint8_t mark) noexcept nogil:
    """Step over blanks and over one mark, if it is there."""
    blanks(c)
    if c.at < c.end and c.at[0] == mark:
        c.at += 1
        return True
    return False


cdef bint take_string(Cursor *c, Text *text, bint *escaped) noexcept nogil:
    """A string's inside, behind its first quote. ASCII alone; which escapes it has is seen when it is decoded."""
    text.at = c.at
    escaped[0] = False
    while c.at < c.end:
        if c.at[0] == c'"':
            text.n = c.at - text.at
            c.at += 1
            return True
        if c.at[0] < 32 or c.at[0] > 126:
            return False
        if c.at[0] == c'\\':
            escaped[0] = True
            c.at += 1
            if c.at >= c.end or c.at[0] < 32 or c.at[0] > 126:
                return False
        c.at += 1
    return False


cdef bint take_number(Cursor *c, Text *text) noexcept nogil:
    """A whole number without quotes. What follows it is the caller's to see."""
    text.at = c.at
    if c.at < c.end and c.at[0] == c'-':
        c.at += 1
    while c.at < c.end and c'0' <= c.at[0] <= c'9':
        c.at += 1
    text.n = c.at - text.at
    return text.n > 0


cdef bint take_fields(Cursor *c, Header *h) noexcept nogil:
    cdef Text name, value
    cdef bint escaped
    cdef int64_t number
    if not take(c, c'{'):
        return False
    if take(c, c'}'):
        return True
    while True:
        if not take(c, c'"') or not take_string(c, &name, &escaped) or escaped or not take(c, c':'):
            return False
        if take(c, c'"'):
            if not take_string(c, &value, &escaped):
                return False
        elif not take_number(c, &value) or not integer(value, INT64_MIN + 1, INT64_MAX, &number):
            return False
        if not keep_field(h, name, value, escaped):
            return False
        if take(c, c'}'):
            return True
        if not take(c, c','):
            return False


cdef bint read_json(const uint8_t *p, Py_ssize_t n, Header *h) noexcept nogil:
    """The code must come first, as it does where keys are sorted: the names of the fields depend on it."""
    cdef Cursor c
    cdef Text name, value
    cdef bint escaped
    cdef uint32_t top = 0, bit
    cdef int64_t number
    c.at = p
    c.end = p + n
    if not take(&c, c'{'):
        return False
    while True:
        if not take(&c, c'"') or not take_string(&c, &name, &escaped) or escaped or not take(&c, c':'):
            return False
        blanks(&c)
        if same(name, b"code", 4):
            bit = 1
            if not take_number(&c, &value) or not integer(value, 0, 1 << 20, &h.code):
                return False
            if h.code != 10 and h.code != 310 and h.code != 320:
                return False
        elif not top & 1:
            return False
        elif same(name, b"extFields", 9):
            bit = 2
            if not take_fields(&c, h):
                return False
        elif same(name, b"flag", 4):
            bit = 4
            if not take_number(&c, &value) or not integer(value, 0, 2, &h.flag):
                return False
        elif same(name, b"opaque", 6):
            bit = 8
            if not take_number(&c, &value) or not integer(value, -2147483648, 2147483647, &h.opaque):
                return False
        elif same(name, b"version", 7):
            bit = 16
            if not take_number(&c, &value) or not integer(value, -2147483648, 2147483647, &number):
                return False
        elif same(name, b"language", 8) or same(name, b"serializeTypeCurrentRPC", 23):
            bit = 32 if name.n == 8 else 64
            if not take(&c, c'"') or not take_string(&c, &value, &escaped) or escaped:
                return False
        else:
            return False
        if top & bit:
            return False
        top |= bit
        if take(&c, c'}'):
            break
        if not take(&c, c','):
            return False
    blanks(&c)
    return c.at == c.end and top & 15 == 15


cdef bint read_binary(const uint8_t *p, Py_ssize_t n, Header *h) noexcept nogil:
    cdef Py_ssize_t at = 21
    cdef Py_ssize_t i
    cdef Text name, value
    if n < 21 or get32(p + 13) != 0:
        return False  # too short, or with a remark
    h.code = get16(p)
    if h.code != 10 and h.code != 310 and h.code != 320:
        return False
    h.opaque = <int32_t>get32(p + 5)
    h.flag = <int32_t>get32(p + 9)
    if get32(p + 17) != <uint32_t>(n - 21):
        return False
    while at < n:
        if n - at < 2:
            return False
        name.n = get16(p + at)
        at += 2
        if n - at < name.n + 4:
            return False
        name.at = p + at
        at += name.n
        value.n = <Py_ssize_t>get32(p + at)
        at += 4
        if value.n < 1 or n - at < value.n:
            return False  # no length is null in Java: Python's to say
        value.at = p + at
        at += value.n
        for i in range(value.n):
            if value.at[i] > 126:
                return False
        if not keep_field(h, name, value, False):
            return False
    return True


cdef inline bint read_header(int encoding, const uint8_t *p, Py_ssize_t n, Header *h) noexcept nogil:
    memset(h, 0, sizeof(Header))
    h.is_json = encoding == 0
    if encoding == 0:
        return read_json(p, n, h)
    return encoding == 1 and read_binary(p, n, h)


cdef bint flag_field(Header *h, int number, bint *value) noexcept nogil:
    """A boolean that may be missing."""
    value[0] = False
    if not h.seen & (<uint32_t>1 << number):
        return True
    value[0] = same(h.field[number], b"true", 4)
    return value[0] or same(h.field[number], b"false", 5)


cdef Py_ssize_t unescape(Text t, uint8_t *out) noexcept nogil:
    """A JSON string's inside as bytes, never longer than it; -1: not plain ASCII, leave it to Python."""
    cdef Py_ssize_t i = 0, o = 0
    cdef int j, v, d
    while i < t.n:
        if t.at[i] != c'\\':
            out[o] = t.at[i]
            o += 1
            i += 1
            continue
        if i + 1 >= t.n:
            return -1
        if t.at[i + 1] == c'u':
            if t.n - i < 6:
                return -1
            v = 0
            for j in range(4):
                d = t.at[i + 2 + j]
                if c'0' <= d <= c'9':
                    d -= c'0'
                elif c'a' <= (d | 32) <= c'f':
                    d = (d | 32) - c'a' + 10
                else:
                    return -1
                v = v * 16 + d
            if v > 126:
                return -1
            i += 6
        else:
            d = t.at[i + 1]
            if d == c'"' or d == c'\\' or d == c'/':
                v = d
            elif d == c'n':
                v = 10
            elif d == c't':
                v = 9
            elif d == c'r':
                v = 13
            elif d == c'b':
                v = 8
            elif d == c'f':
                v = 12
            else:
                return -1
            i += 2
        out[o] = <uint8_t>v
        o += 1
    return o
