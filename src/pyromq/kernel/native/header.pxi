# Headers of plain sends and pulls in both encodings. What is not of the one shape that Java's clients write is not for us: the
# caller then leaves the whole frame to Python, which knows every dialect.

cdef enum:
    GROUP = 0, TOPIC = 1, DEFAULT_TOPIC = 2, DEFAULT_QUEUES = 3, QUEUE = 4, SYS_FLAG = 5, BORN = 6, FLAG = 7
    PROPERTIES = 8, RECONSUME = 9, UNIT = 10, MAX_RECONSUME = 11, BATCH = 12, BROKER_NAME = 13
    FIELDS = 16

cdef enum:
    PULL_GROUP = 0, PULL_TOPIC = 1, PULL_QUEUE = 2, PULL_OFFSET = 3, PULL_COUNT = 4, PULL_FLAGS = 5, PULL_COMMIT = 6
    PULL_SUSPEND = 7, PULL_VERSION = 8, PULL_SUBSCRIPTION = 9, PULL_KIND = 10, PULL_BYTES = 11, PULL_SOURCE = 12
    PULL_BROKER_NAME = 13

cdef enum:
    POP_GROUP = 0, POP_TOPIC = 1, POP_QUEUE = 2, POP_COUNT = 3, POP_INVISIBLE = 4, POP_POLL = 5, POP_BORN = 6, POP_INIT = 7
    POP_KIND = 8, POP_EXPRESSION = 9, POP_ORDER = 10, POP_ATTEMPT = 11, POP_EXTRA = 12, POP_OFFSET = 13
    POP_BROKER_NAME = 14, POP_SUSPEND = 15

cdef enum:
    SENDS = 0, PULLS = 1, POPS = 2, ENDS = 3   # what a header is read for: codes and names of fields depend on it
    SIGNED = 4                # the fields as they are, whatever their names: what is signed (guard.pxi)

cdef struct Header:
    int kind
    int64_t code, flag, opaque
    bint is_json
    bint escaped              # the properties hold JSON escapes
    bint wide                 # the properties hold bytes beyond ASCII: UTF-8, if they are any good
    uint32_t seen             # one bit a field
    Text field[FIELDS]
    SignedFields *signed      # for SIGNED alone


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


cdef int pull_field(Text name) noexcept nogil:
    """Number of a field of requests 11 and 361; -1 for any other."""
    if same(name, b"topic", 5): return PULL_TOPIC
    if same(name, b"queueId", 7): return PULL_QUEUE
    if same(name, b"queueOffset", 11): return PULL_OFFSET
    if same(name, b"consumerGroup", 13): return PULL_GROUP
    if same(name, b"maxMsgNums", 10): return PULL_COUNT
    if same(name, b"sysFlag", 7): return PULL_FLAGS
    if same(name, b"commitOffset", 12): return PULL_COMMIT
    if same(name, b"suspendTimeoutMillis", 20): return PULL_SUSPEND
    if same(name, b"subscription", 12): return PULL_SUBSCRIPTION
    if same(name, b"subVersion", 10): return PULL_VERSION
    if same(name, b"expressionType", 14): return PULL_KIND
    if same(name, b"maxMsgBytes", 11): return PULL_BYTES
    if same(name, b"ReqT", 4): return PULL_SOURCE
    if same(name, b"bname", 5): return PULL_BROKER_NAME
    return -1


cdef int pop_field(Text name) noexcept nogil:
    """Number of a field of requests 200050, 200051, 200053 and 200151; -1 for any other."""
    if same(name, b"topic", 5): return POP_TOPIC
    if same(name, b"queueId", 7): return POP_QUEUE
    if same(name, b"consumerGroup", 13): return POP_GROUP
    if same(name, b"extraInfo", 9): return POP_EXTRA
    if same(name, b"offset", 6): return POP_OFFSET
    if same(name, b"maxMsgNums", 10): return POP_COUNT
    if same(name, b"invisibleTime", 13): return POP_INVISIBLE
    if same(name, b"pollTime", 8): return POP_POLL
    if same(name, b"bornTime", 8): return POP_BORN
    if same(name, b"initMode", 8): return POP_INIT
    if same(name, b"expType", 7): return POP_KIND
    if same(name, b"exp", 3): return POP_EXPRESSION
    if same(name, b"order", 5): return POP_ORDER
    if same(name, b"attemptId", 9): return POP_ATTEMPT
    if same(name, b"bname", 5): return POP_BROKER_NAME
    if same(name, b"suspend", 7): return POP_SUSPEND
    return -1


cdef inline bint is_for_us(int kind, int64_t code) noexcept nogil:
    if kind == POPS:
        return code == 200050 or code == 200051 or code == 200053 or code == 200151
    if kind == PULLS:
        return code == 11 or code == 361
    if kind == ENDS:
        return code == 37
    return kind == SIGNED or code == 10 or code == 310 or code == 320


cdef inline bint is_of_a_signature(Text name) noexcept nogil:
    """What Java's signing clients add. The guard has looked at it, or nobody is asked who he is."""
    return (
        same(name, b"AccessKey", 9)
        or same(name, b"Signature", 9)
        or same(name, b"SecurityToken", 13)
        or same(name, b"OnsChannel", 10)
    )


cdef inline bint keep_field(Header *h, Text name, Text value, bint escaped, bint wide) noexcept nogil:
    """False: a name that we do not know, or twice the same, or more than ASCII where no properties are."""
    cdef int number
    cdef int64_t timeout
    if h.kind == SIGNED:
        return keep_signed(h.signed, name, value, escaped, wide)
    if h.kind == PULLS:
        number = pull_field(name)
    elif h.kind == POPS:
        number = pop_field(name)
    elif h.kind == ENDS:
        number = end_field(name)
    elif h.code == 10:
        number = long_field(name)
    elif name.n == 1 and c'a' <= name.at[0] <= c'n':
        number = name.at[0] - c'a'
    else:
        number = -1
    if number < 0:
        if h.kind == SENDS and same(name, b"timeoutMs", 9):  # says nothing to us: here nothing waits to be served
            return integer(value, 1, INT64_MAX, &timeout)
        return is_of_a_signature(name) and not escaped and not wide
    if h.seen & (<uint32_t>1 << number):
        return False
    if escaped or wide:
        if h.kind != SENDS or number != PROPERTIES:
            return False
        h.escaped, h.wide = escaped, wide
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
    if c.at < c.end and c.at[0] == mark:  # as nearly always: clients write no blanks
        c.at += 1
        return True
    blanks(c)
    if c.at < c.end and c.at[0] == mark:
        c.at += 1
        return True
    return False


cdef extern from *:
    """
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif
    /* The first byte that is not plain within a JSON string: a quote, a backslash, a control or more than ASCII. */
    static inline const uint8_t *kernel_skip_plain(const uint8_t *p, const uint8_t *end) {
    #ifdef __SSE2__
      while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i odd = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\\\'))),
            _mm_or_si128(_mm_cmplt_epi8(v, _mm_set1_epi8(32)), _mm_cmpeq_epi8(v, _mm_set1_epi8(127))));
        int mask = _mm_movemask_epi8(odd);
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
      }
    #endif
      while (p < end && *p >= 32 && *p < 127 && *p != '"' && *p != '\\\\') p++;
      return p;
    }
    """
    const uint8_t *kernel_skip_plain(const uint8_t *p, const uint8_t *end) nogil


cdef bint take_string(Cursor *c, Text *text, bint *escaped, bint *wide) noexcept nogil:
    """A string's inside, behind its first quote. Which escapes it has, and whether it is UTF-8, is seen later."""
    text.at = c.at
    escaped[0] = wide[0] = False
    while c.at < c.end:
        c.at = kernel_skip_plain(c.at, c.end)
        if c.at >= c.end:
            return False
        if c.at[0] == c'"':
            text.n = c.at - text.at
            c.at += 1
            return True
        if c.at[0] < 32 or c.at[0] == 127:
            return False
        if c.at[0] > 127:
            wide[0] = True
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
    cdef bint escaped, wide
    cdef int64_t number
    if not take(c, c'{'):
        return False
    if take(c, c'}'):
        return True
    while True:
        if not take(c, c'"') or not take_string(c, &name, &escaped, &wide) or escaped or wide or not take(c, c':'):
            return False
        if take(c, c'"'):
            if not take_string(c, &value, &escaped, &wide):
                return False
        elif not take_number(c, &value) or not integer(value, INT64_MIN + 1, INT64_MAX, &number):
            return False
        if not keep_field(h, name, value, escaped, wide):
            return False
        if take(c, c'}'):
            return True
        if not take(c, c','):
            return False


cdef bint read_json(const uint8_t *p, Py_ssize_t n, Header *h) noexcept nogil:
    """The code must come first, as it does where keys are sorted: the names of the fields depend on it."""
    cdef Cursor c
    cdef Text name, value
    cdef bint escaped, wide
    cdef uint32_t top = 0, bit
    cdef int64_t number
    c.at = p
    c.end = p + n
    if not take(&c, c'{'):
        return False
    while True:
        if not take(&c, c'"') or not take_string(&c, &name, &escaped, &wide) or escaped or wide or not take(&c, c':'):
            return False
        blanks(&c)
        if same(name, b"code", 4):
            bit = 1
            if not take_number(&c, &value) or not integer(value, 0, 1 << 20, &h.code):
                return False
            if not is_for_us(h.kind, h.code):
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
            if not take(&c, c'"') or not take_string(&c, &value, &escaped, &wide) or escaped or wide:
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
    return c.at == c.end and (top & 15 == 15 or (h.code == 200151 and top & 13 == 13))   # a batch of acks has no fields


cdef bint read_binary(const uint8_t *p, Py_ssize_t n, Header *h) noexcept nogil:
    cdef Py_ssize_t at = 21
    cdef Py_ssize_t i
    cdef Text name, value
    cdef bint wide
    if n < 21 or get32(p + 13) != 0:
        return False  # too short, or with a remark
    h.code = get16(p)
    if not is_for_us(h.kind, h.code):
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
        wide = False
        for i in range(value.n):
            if value.at[i] == 127:
                return False
            if value.at[i] > 127:
                wide = True
        if not keep_field(h, name, value, False, wide):
            return False
    return True


cdef inline bint read_header(
    int encoding, const uint8_t *p, Py_ssize_t n, Header *h, int kind=SENDS, SignedFields *signed=NULL
) noexcept nogil:
    memset(h, 0, sizeof(Header))
    h.kind, h.signed = kind, signed
    if signed != NULL:
        signed.count, signed.is_unescaped, signed.end = 0, False, p + n
    h.is_json = encoding == 0
    if encoding == 0:
        return read_json(p, n, h)
    return encoding == 1 and read_binary(p, n, h)


cdef inline int kind_of(int64_t code) noexcept nogil:
    """What its feed reads a header of this code for; SIGNED: no feed takes it."""
    cdef int kind
    for kind in range(SIGNED):
        if is_for_us(kind, code):
            return kind
    return SIGNED


cdef bint fit(Header *h, const SignedFields *fields, int kind) noexcept nogil:
    """Make of a header that was read for its signature the one that a feed of this kind reads. False: it is none for it,
    and the feed will find that by itself."""
    cdef int i
    h.kind, h.signed = kind, NULL
    for i in range(fields.count):
        if not keep_field(h, fields.field[i].name, fields.field[i].value, fields.field[i].escaped, fields.field[i].wide):
            return False
    h.escaped = h.escaped and not fields.is_unescaped
    return is_for_us(kind, h.code)


cdef enum:
    MOST_AHEAD = 512          # headers, then feeds read for themselves

# Headers that the guard has read, in the order of their frames. Good as long as it holds the buffer that they point into.
cdef struct HeadersAhead:
    int count, next
    const uint8_t *at[MOST_AHEAD]
    Header header[MOST_AHEAD]


cdef bint is_ahead(HeadersAhead *ahead, const uint8_t *p, int kind, Header *h) noexcept nogil:
    """Take a header that was read for this kind of feed."""
    cdef int low = ahead.next, high = ahead.count, middle
    if low >= high or ahead.at[low] != p:  # not the next one: other feeds had that
        low = 0
        while low < high:
            middle = (low + high) // 2
            if ahead.at[middle] < p:
                low = middle + 1
            else:
                high = middle
    if low == ahead.count or ahead.at[low] != p or ahead.header[low].kind != kind:
        return False
    ahead.next = low + 1
    h[0] = ahead.header[low]
    return True


cdef inline bint read_once(
    HeadersAhead *ahead, int encoding, const uint8_t *p, Py_ssize_t n, Header *h, int kind
) noexcept nogil:
    """As `read_header`, for a feed: what the guard before it has read is not read again. NULL: there is no guard."""
    return (ahead != NULL and ahead.count and is_ahead(ahead, p, kind, h)) or read_header(encoding, p, n, h, kind)


cdef bint flag_field(Header *h, int number, bint *value) noexcept nogil:
    """A boolean that may be missing."""
    value[0] = False
    if not h.seen & (<uint32_t>1 << number):
        return True
    value[0] = same(h.field[number], b"true", 4)
    return value[0] or same(h.field[number], b"false", 5)


cdef int hex_unit(const uint8_t *p) noexcept nogil:
    """Four hexadecimal digits; -1: they are not."""
    cdef int i, d, v = 0
    for i in range(4):
        d = p[i]
        if c'0' <= d <= c'9':
            d -= c'0'
        elif c'a' <= (d | 32) <= c'f':
            d = (d | 32) - c'a' + 10
        else:
            return -1
        v = v * 16 + d
    return v


cdef inline int put_utf8(uint8_t *out, int v) noexcept nogil:
    """A code point that is no surrogate; how many bytes it takes, at most half of its escapes."""
    if v < 0x80:
        out[0] = <uint8_t>v
        return 1
    if v < 0x800:
        out[0], out[1] = <uint8_t>(0xC0 | v >> 6), <uint8_t>(0x80 | (v & 63))
        return 2
    if v < 0x10000:
        out[0], out[1], out[2] = <uint8_t>(0xE0 | v >> 12), <uint8_t>(0x80 | (v >> 6 & 63)), <uint8_t>(0x80 | (v & 63))
        return 3
    out[0], out[1] = <uint8_t>(0xF0 | v >> 18), <uint8_t>(0x80 | (v >> 12 & 63))
    out[2], out[3] = <uint8_t>(0x80 | (v >> 6 & 63)), <uint8_t>(0x80 | (v & 63))
    return 4


cdef Py_ssize_t unescape(Text t, uint8_t *out) noexcept nogil:
    """A JSON string's inside as bytes, never longer than it; -1: an escape that is none, leave it to Python."""
    cdef Py_ssize_t i = 0, o = 0, run
    cdef int v, low
    cdef const uint8_t *found
    cdef const char *escaped = b'ntrbf"\\/'
    cdef const char *meant = b'\n\t\r\b\f"\\/'
    while i < t.n:
        found = <const uint8_t *>memchr(t.at + i, c'\\', <size_t>(t.n - i))
        run = (t.n if found == NULL else found - t.at) - i
        if run:
            memcpy(out + o, t.at + i, <size_t>run)
            o += run
            i += run
            continue
        if i + 1 >= t.n:
            return -1
        v = t.at[i + 1]
        if v == c'u':
            if t.n - i < 6:
                return -1
            v = hex_unit(t.at + i + 2)
            i += 6
            if v < 0 or 0xDC00 <= v <= 0xDFFF:
                return -1
            if 0xD800 <= v <= 0xDBFF:
                if t.n - i < 6 or t.at[i] != c'\\' or t.at[i + 1] != c'u':
                    return -1
                low = hex_unit(t.at + i + 2)
                if not 0xDC00 <= low <= 0xDFFF:
                    return -1
                i += 6
                v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00)
            o += put_utf8(out + o, v)
            continue
        found = <const uint8_t *>memchr(escaped, v, 8)
        if found == NULL:
            return -1
        out[o] = <uint8_t>meant[found - <const uint8_t *>escaped]
        o += 1
        i += 2
    return o
