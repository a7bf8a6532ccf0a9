# Plain SendMessage calls as remoting frames (request 310, binary header), and the broker's answers as responses.
# `kernel/grpc_sends.py` has the seam; proxy/messages/convert.py and limits.py are what this agrees with.

cdef enum:
    MOST_USER = 16            # properties of a message that we take: each is compared with all others
    MOST_KEYS = 16
    MOST_TOPICS = 10000       # verdicts that are kept
    TIME_END = 253402300799   # seconds: the year 10000, where protobuf's time ends

cdef struct Send:
    Text topic, body, tag, unique, group, trace, born_host
    Text name[MOST_USER]
    Text value[MOST_USER]
    Text key[MOST_KEYS]
    int users, keys
    int64_t attempt, born_ms
    bint is_gzip, is_born


@cython.final
cdef class TopicGrant:
    cdef bytes name, broker
    cdef uint32_t queues, turn
    cdef bint takes_plain, takes_fifo, is_revoked


@cython.final
cdef class HotSends:
    """One listener's: the broker's feed of sends, the proxy's rules and verdicts."""

    cdef readonly object feed
    cdef object host
    cdef bytes path, ok_status
    cdef int64_t body_bytes, properties, property_bytes, group_bytes
    cdef dict grants
    cdef set names
    cdef uint64_t name_lengths
    cdef TopicGrant last
    cdef Buffer burst, text
    cdef readonly int64_t taken           # messages that were answered without Python
    cdef readonly HotPops pops            # receives, acks and changes; None: Python serves them
    cdef readonly HotBeats beats          # heartbeats; None: Python serves them
    cdef readonly CallGuard guard         # None: nobody is asked who he is

    def __init__(self, host, feed, rules):
        self.host, self.feed, self.grants = host, feed, {}
        self.use(rules)

    def __dealloc__(self):
        free(self.burst.at)
        free(self.text.at)

    def serve_pops(self, HotPops pops not None):
        """Serve receives, acks and changes, too."""
        self.pops = pops

    def serve_beats(self, HotBeats beats not None):
        """Answer heartbeats, too, that say nothing new."""
        self.beats = beats

    def admit_by(self, CallGuard guard not None):
        """Serve those alone who have signed their calls and may make them."""
        self.guard = guard

    cdef void forget_time(self) noexcept:
        """Ask for the time anew: something else has come."""
        if self.guard is not None:
            self.guard.now = 0
        if self.pops is not None:
            self.pops.now = 0

    cdef bint may(self, Http2Session s, KnownUser caller, int method, Text group, Text topic, int64_t kind) except -1:
        return self.guard is None or self.guard.allows(s, caller, method, group, topic, kind)

    cdef int method_of(self, Headers headers) noexcept:
        """Which method besides sends a path is, of those that are served; NOT_HOT: none."""
        if self.beats is not None and is_path(headers, self.beats.path):
            return HOT_BEAT
        return NOT_HOT if self.pops is None else self.pops.method_of(headers)

    def use(self, rules):
        self.path, self.ok_status = rules.path.encode(), rules.ok_status
        self.body_bytes, self.properties = rules.body_bytes, rules.properties
        self.property_bytes, self.group_bytes = rules.property_bytes, rules.group_bytes
        self.names = {name.encode() for name in rules.names}
        self.name_lengths = 0
        for name in self.names:
            self.name_lengths |= <uint64_t>1 << min(<int>len(name), 63)
        self.revoke_all()

    def revoke(self, str topic):
        cdef TopicGrant grant = self.grants.pop(topic.encode(), None)
        if grant is not None:
            grant.is_revoked = True

    def revoke_all(self):
        cdef TopicGrant grant
        for grant in self.grants.values():
            if grant is not None:
                grant.is_revoked = True
        self.grants.clear()

    cdef TopicGrant grant_of(self, Text topic):
        cdef TopicGrant grant = self.last
        cdef bytes name
        if grant is not None and not grant.is_revoked and PyBytes_GET_SIZE(grant.name) == topic.n and memcmp(
            PyBytes_AS_STRING(grant.name), topic.at, <size_t>topic.n
        ) == 0:
            return grant
        name = PyBytes_FromStringAndSize(<const char *>topic.at, topic.n)
        if name in self.grants:
            grant = self.grants[name]
        else:
            verdict = self.host.judge(name.decode("ascii"))
            grant = None
            if verdict is not None and 0 < verdict.queues <= 65536:
                grant = TopicGrant.__new__(TopicGrant)
                grant.name, grant.broker, grant.queues = name, verdict.broker.encode(), verdict.queues
                grant.takes_plain, grant.takes_fifo = verdict.takes_plain, verdict.takes_fifo
            if len(self.grants) >= MOST_TOPICS:
                self.revoke_all()
            self.grants[name] = grant   # None too: it is not asked again until it is revoked
        self.last = grant
        return grant

    cdef bint is_users(self, Text name):
        """Whether a user may set a property of this name, and nothing follows from it."""
        if not self.name_lengths >> min(name.n, 63) & 1:
            return True
        return PyBytes_FromStringAndSize(<const char *>name.at, name.n) not in self.names

    cdef bint offer(self, Http2Session s, HttpCall call, KnownUser caller, Text request) except -1:
        """Put the message of a call as a frame behind those that are there. False: it is not plain."""
        cdef Send m
        cdef TopicGrant grant
        cdef int64_t size
        cdef int i, j
        cdef uint32_t queue
        m.topic.at = NULL  # gcc would see it unset
        if not read_send(request, &m) or not is_printable(m.topic) or m.topic.n > 127:
            return False
        if not 0 < m.body.n <= self.body_bytes or m.users > self.properties or not is_plain_send(&m):
            return False
        size = m.tag.n
        for i in range(m.keys):
            size += m.key[i].n
        for i in range(m.users):
            size += m.name[i].n + m.value[i].n
            if not self.is_users(m.name[i]):
                return False
            for j in range(i):
                if m.name[i].n == m.name[j].n and memcmp(m.name[i].at, m.name[j].at, <size_t>m.name[i].n) == 0:
                    return False
        if size > self.property_bytes or m.group.n >= self.group_bytes:
            return False
        if not self.may(s, caller, HOT_SEND, literal(NULL, 0), m.topic, 0):
            return False
        grant = self.grant_of(m.topic)
        if grant is None or not (grant.takes_fifo if m.group.n else grant.takes_plain):
            return False
        if m.group.n:
            queue = consistent_hash(<int64_t><int32_t>hash_text(m.group), grant.queues)
        else:
            queue = grant.turn % grant.queues
            grant.turn += 1
        self.write_frame(call.stream, &m, queue, grant, s.remote)
        return True

    cdef int write_frame(self, int32_t stream, const Send *m, uint32_t queue, TopicGrant grant, bytes remote) except -1:
        cdef Buffer *out = &self.burst
        cdef Text properties = self.write_properties(m, grant, remote)
        cdef uint8_t *start
        cdef uint8_t *r
        cdef uint8_t digits[20]
        cdef Text number
        number.at = digits
        reserve(out, <size_t>(256 + 2 * m.topic.n + PyBytes_GET_SIZE(grant.broker) + properties.n + m.body.n))
        start = out.at + out.used
        r = start + 8
        put16(r, 310)
        r[2] = 12                     # OTHER
        put16(r + 3, 0)
        put32(r + 5, <uint32_t>stream)
        put32(r + 9, 0)
        put32(r + 13, 0)
        r += 21
        r = put_entry(r, c'a', m.topic)
        r = put_entry(r, c'b', m.topic)
        r = put_entry(r, c'c', literal(b"TBW102", 6))
        r = put_entry(r, c'd', literal(b"4", 1))
        number.n = put_decimal(digits, queue)
        r = put_entry(r, c'e', number)
        r = put_entry(r, c'f', literal(b"1" if m.is_gzip else b"0", 1))
        number.n = put_decimal(digits, <uint64_t>m.born_ms)
        r = put_entry(r, c'g', number)
        r = put_entry(r, c'h', literal(b"0", 1))
        r = put_entry(r, c'i', properties)
        r = put_entry(r, c'j', literal(b"0", 1))
        number.at, number.n = <const uint8_t *>PyBytes_AS_STRING(grant.broker), PyBytes_GET_SIZE(grant.broker)
        r = put_entry(r, c'n', number)
        put32(start + 25, <uint32_t>(r - start - 29))
        put32(start + 4, <uint32_t>(r - start - 8) | <uint32_t>1 << 24)
        memcpy(r, m.body.at, <size_t>m.body.n)
        r += m.body.n
        put32(start, <uint32_t>(r - start - 4))
        out.used += <size_t>(r - start)
        return 0

    cdef Text write_properties(self, const Send *m, TopicGrant grant, bytes remote):
        """In the order of proxy/messages/convert.py."""
        cdef Buffer *out = &self.text
        cdef Text made, number
        cdef uint8_t digits[20]
        cdef int i
        number.at = digits
        out.used = 0
        for i in range(m.users):
            add_property(out, m.name[i], m.value[i])
        if m.tag.n:
            add_property(out, literal(b"TAGS", 4), m.tag)
        if m.keys:
            reserve(out, 6)
            memcpy(out.at + out.used, b"KEYS\x01", 5)
            out.used += 5
            for i in range(m.keys):
                reserve(out, <size_t>m.key[i].n + 1)
                memcpy(out.at + out.used, m.key[i].at, <size_t>m.key[i].n)
                out.used += <size_t>m.key[i].n
                out.at[out.used] = 2 if i == m.keys - 1 else c' '
                out.used += 1
        add_property(out, literal(b"UNIQ_KEY", 8), m.unique)
        number.n = put_decimal(digits, <uint64_t>m.attempt)
        add_property(out, literal(b"RECONSUME_TIME", 14), number)
        add_property(out, literal(b"PGROUP", 6), m.topic)
        if m.group.n:
            add_property(out, literal(b"__SHARDINGKEY", 13), m.group)
        if m.trace.n:
            add_property(out, literal(b"TRACE_CONTEXT", 13), m.trace)
        if m.born_host.n:
            add_property(out, literal(b"__BORNHOST", 10), m.born_host)
        else:
            add_property(out, literal(b"__BORNHOST", 10), whole_text(remote))
        number.n = put_decimal(digits, <uint64_t>m.born_ms)
        add_property(out, literal(b"BORN_TIMESTAMP", 14), number)
        made.at, made.n = out.at, <Py_ssize_t>out.used
        return made


cdef inline Text literal(const char *text, Py_ssize_t n) noexcept nogil:
    cdef Text made
    made.at, made.n = <const uint8_t *>text, n
    return made


cdef inline Text whole_text(bytes raw) noexcept:
    return literal(PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline uint8_t *put_entry(uint8_t *r, uint8_t name, Text value) noexcept nogil:
    put16(r, 1)
    r[2] = name
    put32(r + 3, <uint32_t>value.n)
    memcpy(r + 7, value.at, <size_t>value.n)
    return r + 7 + value.n


cdef int add_property(Buffer *out, Text name, Text value) except -1 nogil:
    cdef uint8_t *r
    reserve(out, <size_t>(name.n + value.n + 2))
    r = out.at + out.used
    memcpy(r, name.at, <size_t>name.n)
    r[name.n] = 1
    memcpy(r + name.n + 1, value.at, <size_t>value.n)
    r[name.n + 1 + value.n] = 2
    out.used += <size_t>(name.n + value.n + 2)
    return 0


cdef uint32_t hash_text(Text t) noexcept nogil:
    """String.hashCode of ASCII."""
    cdef uint32_t h = 0
    cdef Py_ssize_t i
    for i in range(t.n):
        h = h * 31 + t.at[i]
    return h


cdef uint32_t consistent_hash(int64_t value, uint32_t buckets) noexcept nogil:
    """Guava's bucket of a number: proxy/queues.py."""
    cdef uint64_t state = <uint64_t>value
    cdef int64_t candidate = 0
    cdef double following
    while True:
        state = <uint64_t>2862933555777941757 * state + 1
        following = <double>(candidate + 1) / (<double>(<int64_t>(state >> 33) + 1) / <double>(<int64_t>1 << 31))
        if following >= buckets:
            return <uint32_t>candidate
        candidate = <int64_t>following


cdef bint is_plain_send(const Send *m) noexcept nogil:
    """Whether all texts are such that no check can fail."""
    cdef int i
    if not is_printable(m.unique) or not m.is_born:
        return False
    if m.tag.n and (not is_printable(m.tag) or memchr(m.tag.at, c'|', <size_t>m.tag.n) != NULL):
        return False
    if (m.group.n and not is_printable(m.group)) or (m.trace.n and not is_printable(m.trace)):
        return False
    if m.born_host.n and (
        not is_printable(m.born_host) or m.born_host.at[0] == 32 or m.born_host.at[m.born_host.n - 1] == 32
    ):
        return False
    for i in range(m.keys):
        if not is_printable(m.key[i]):
            return False
    for i in range(m.users):
        if not is_printable(m.name[i]) or not is_printable(m.value[i]):
            return False
    return True


cdef bint read_send(Text request, Send *m) noexcept nogil:
    """A SendMessageRequest with one message; False for any field that we do not know, or one that comes twice."""
    cdef const uint8_t *at = request.at
    cdef const uint8_t *end = request.at + request.n
    cdef Field f
    cdef uint32_t seen = 0
    memset(m, 0, sizeof(Send))
    if not take_field(&at, end, &f) or f.number != 1 or f.kind != 2 or at != end:
        return False
    at = f.text.at
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 2 or f.number > 4:
            return False
        if f.number != 2:
            if seen >> f.number & 1:
                return False
            seen |= <uint32_t>1 << f.number
        if f.number == 1:
            if not read_name(f.text, &m.topic):
                return False
        elif f.number == 2:
            if m.users == MOST_USER or not read_pair(f.text, &m.name[m.users], &m.value[m.users]):
                return False
            m.users += 1
        elif f.number == 3:
            if not read_system(f.text, m):
                return False
        elif f.number == 4:
            m.body = f.text
        else:
            return False
    return True


cdef bint read_name(Text resource, Text *name) noexcept nogil:
    """The name of a Resource; its namespace says nothing here."""
    cdef const uint8_t *at = resource.at
    cdef const uint8_t *end = resource.at + resource.n
    cdef Field f
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 2 or f.number > 2 or f.number < 1:
            return False
        if f.number == 2:
            if name.at != NULL:
                return False
            name[0] = f.text
        elif f.text.n and not is_printable(f.text):
            return False
    return True


cdef bint read_pair(Text entry, Text *name, Text *value) noexcept nogil:
    cdef const uint8_t *at = entry.at
    cdef const uint8_t *end = entry.at + entry.n
    cdef Field f
    if not take_field(&at, end, &f) or f.kind != 2 or f.number != 1:
        return False
    name[0] = f.text
    if not take_field(&at, end, &f) or f.kind != 2 or f.number != 2 or at != end:
        return False
    value[0] = f.text
    return True


cdef bint read_system(Text properties, Send *m) noexcept nogil:
    cdef const uint8_t *at = properties.at
    cdef const uint8_t *end = properties.at + properties.n
    cdef Field f
    cdef uint32_t seen = 0
    while at < end:
        if not take_field(&at, end, &f) or f.number > 18:
            return False
        if f.number != 2:
            if seen >> f.number & 1:
                return False
            seen |= <uint32_t>1 << f.number
        if f.kind == 0:
            if f.number == 5 and f.value <= 2:
                m.is_gzip = f.value == 2
            elif f.number == 6 and f.value <= 2:
                pass                  # kinds follow from properties; the others are never plain
            elif f.number == 13 and f.value <= INT32_MAX:
                pass                  # the queue is chosen here
            elif f.number == 16 and f.value <= INT32_MAX:
                m.attempt = <int64_t>f.value
            else:
                return False
        elif f.number == 1:
            m.tag = f.text
        elif f.number == 2:
            if m.keys == MOST_KEYS or f.text.n == 0:
                return False
            m.key[m.keys] = f.text
            m.keys += 1
        elif f.number == 3:
            m.unique = f.text
        elif f.number == 4:
            pass                      # a digest of the body, which nobody checks
        elif f.number == 7:
            if not read_time(f.text, m):
                return False
        elif f.number == 8:
            m.born_host = f.text
        elif f.number == 17:
            m.group = f.text
        elif f.number == 18:
            m.trace = f.text
        else:
            return False
    return True


cdef bint read_time(Text stamp, Send *m) noexcept nogil:
    cdef const uint8_t *at = stamp.at
    cdef const uint8_t *end = stamp.at + stamp.n
    cdef Field f
    cdef uint64_t seconds = 0, nanos = 0
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 0:
            return False
        if f.number == 1 and not seconds and f.value <= <uint64_t>TIME_END:
            seconds = f.value
        elif f.number == 2 and not nanos and f.value < 1000000000:
            nanos = f.value
        else:
            return False
    m.born_ms = <int64_t>(seconds * 1000 + nanos // 1000000)
    m.is_born = m.born_ms > 0
    return True
