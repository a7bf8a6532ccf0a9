# Plain ReceiveMessage, AckMessage and ChangeInvisibleDuration calls as remoting frames (requests 200050, 200051, 200053).
# `kernel/grpc_pops.py` has the seam; proxy/rpc/receive.py, ack.py and proxy/receipts.py are what this agrees with.

cdef enum:
    MOST_ENTRIES = 64         # of an ack
    MOST_CLIENTS = 20000      # whose verdicts are kept
    MOST_RECEIPT = 512
    MOST_WAITING = 4 << 20    # bytes that wait for the peer's windows: above that the RPC serves, which waits too

cdef enum:
    NOT_HOT = 0, HOT_SEND = 1, HOT_RECEIVE = 2, HOT_ACK = 3, HOT_CHANGE = 4, HOT_BEAT = 5

cdef struct Receive:
    Text group, topic, broker, expression
    int64_t filter_type, batch, invisible_ms, poll_ms
    bint renews, has_poll, has_invisible

cdef struct GrpcReceipt:
    Text field[9]
    int fields
    int64_t pop_time, invisible, queue, offset, position


@cython.final
cdef class ReceiveGrant:
    cdef readonly object verdict
    cdef bytes frame                  # its beginning
    cdef bytes broker
    cdef set tags
    cdef int64_t attempts, timeout_ms
    cdef bint is_revoked


@cython.final
cdef class AckGrant:
    cdef tuple acks, changes          # beginnings of frames, by the mark of a receipt


@cython.final
cdef class HotPops:
    """One listener's: the proxy's rules and verdicts."""

    cdef object host
    cdef object renewed               # sized: whether any message of any client was renewed
    cdef bytes receive_path, ack_path, change_path, broker, ok_status, ok_element, no_match
    cdef int64_t least_poll, most_poll, reserve_ms, least_invisible, most_invisible, renewed_ms, messages
    cdef dict names                   # of properties, and what they mean
    cdef uint64_t name_lengths
    cdef dict clients                 # of receives, by client, then by what else they are for
    cdef dict acks
    cdef Buffer text, out
    cdef int64_t now                  # of this burst; 0: not asked yet
    cdef readonly int64_t received, acked, changed    # messages, without Python
    cdef readonly int64_t odd                         # messages that Python turned into others

    def __init__(self, host, renewed, rules):
        self.host, self.renewed = host, renewed
        self.clients, self.acks = {}, {}
        self.use(rules)

    def __dealloc__(self):
        free(self.text.at)
        free(self.out.at)

    def use(self, rules):
        self.receive_path, self.ack_path = rules.receive_path.encode(), rules.ack_path.encode()
        self.change_path, self.broker = rules.change_path.encode(), rules.broker.encode()
        self.least_poll, self.most_poll, self.reserve_ms = rules.least_poll_ms, rules.most_poll_ms, rules.reserve_ms
        self.least_invisible, self.most_invisible = rules.least_invisible_ms, rules.most_invisible_ms
        self.renewed_ms, self.messages = rules.renewed_ms, rules.messages
        self.names = {name.encode(): int(meaning) for name, meaning in rules.names.items()}
        self.name_lengths = 0
        for name in self.names:
            self.name_lengths |= <uint64_t>1 << min(<int>len(name), 63)
        self.ok_status, self.no_match = rules.ok_status, rules.no_match
        self.ok_element = b"\x0a" + bytes((len(rules.ok_status),)) + rules.ok_status
        if len(rules.ok_status) > 127:
            raise ValueError("a status of more than 127 bytes")
        self.revoke_all()

    def revoke_client(self, str client_id):
        """Forget the verdicts on a client's receives."""
        self.revoke(self.clients.pop(client_id.encode("latin-1", "replace"), None))

    def revoke_all(self):
        for grants in self.clients.values():
            self.revoke(grants)
        self.clients.clear()
        self.acks.clear()

    cdef revoke(self, dict grants):
        cdef ReceiveGrant grant
        if grants is not None:
            for grant in grants.values():
                grant.is_revoked = True   # answers that wait for the log see it

    # --- offers ---------------------------------------------------------------------------------------------------

    cdef int method_of(self, Headers headers) noexcept:
        """Which of ours a path is; NOT_HOT: none."""
        if is_path(headers, self.ack_path):
            return HOT_ACK
        if is_path(headers, self.receive_path):
            return HOT_RECEIVE
        return HOT_CHANGE if is_path(headers, self.change_path) else NOT_HOT

    cdef bint offer(self, Http2Session s, HttpCall call, KnownUser caller, Text request) except -1:
        """Put a call as frames behind those that are there. False: it is not plain."""
        cdef Text client
        if s.unsent_bytes > MOST_WAITING or not call.headers.find_only(CLIENT, &client):
            return False
        if call.method == HOT_ACK:
            return self.offer_ack(s, call, caller, client, request)
        if call.method == HOT_RECEIVE:
            return self.offer_receive(s, call, caller, client, request)
        return self.offer_change(s, call, caller, client, request)

    cdef bint offer_receive(self, Http2Session s, HttpCall call, KnownUser caller, Text client, Text request) except -1:
        cdef Receive m
        cdef ReceiveGrant grant
        cdef int64_t poll_ms = 0
        if not read_receive(request, &m) or not 0 < m.batch:
            return False
        m.renews = m.renews and self.renewed_ms > 0
        if m.renews:
            m.invisible_ms = self.renewed_ms
        elif not m.has_invisible or not self.least_invisible <= m.invisible_ms <= self.most_invisible:
            return False
        if not m.invisible_ms or not s.hot.may(s, caller, HOT_RECEIVE, m.group, m.topic, 0):
            return False
        grant = self.receive_grant(client, &m)
        if grant is None or not self.find_poll(call.headers, &m, grant.timeout_ms, &poll_ms):
            return False
        call.grant, call.renews = grant, m.renews
        self.write_receive(&s.hot.burst, grant, call.stream, min(m.batch, self.messages), m.invisible_ms, poll_ms)
        return True

    cdef bint find_poll(self, Headers headers, const Receive *m, int64_t timeout_ms, int64_t *poll_ms) noexcept:
        """As `_poll_ms` of the RPC; False: it would refuse, or has to look."""
        cdef Text found
        cdef int64_t wanted, remaining = -1
        if headers.find(TIMEOUT, &found) and not (headers.find_only(TIMEOUT, &found) and read_timeout(found, &remaining)):
            return False
        if m.has_poll:
            wanted = m.poll_ms
        elif remaining >= 0:
            wanted = remaining - timeout_ms // 2
        else:
            wanted = self.most_poll
        wanted = min(max(wanted, self.least_poll), self.most_poll)
        if remaining >= 0 and wanted > remaining - self.reserve_ms:
            if remaining < self.least_poll + 10:      # time passes until the RPC would look
                return False
            wanted = max(remaining - self.reserve_ms, <int64_t>0)
        poll_ms[0] = wanted
        return True

    cdef int write_receive(
        self, Buffer *out, ReceiveGrant grant, int32_t stream, int64_t count, int64_t invisible, int64_t poll
    ) except -1:
        cdef size_t start = out.used
        cdef uint8_t *r
        cdef Text head = whole_text(grant.frame)
        reserve(out, <size_t>(head.n + 160))
        r = put_raw(out.at + start + 8, head)
        r = put_decimal_field(r, literal(b',"maxMsgNums":"', 15), count)
        r = put_decimal_field(r, literal(b',"invisibleTime":"', 18), invisible)
        r = put_decimal_field(r, literal(b',"pollTime":"', 13), poll)
        out.used = <size_t>(r - out.at)
        return end_frame(out, start, stream)

    cdef ReceiveGrant receive_grant(self, Text client, const Receive *m):
        """A verdict that holds; None: leave it to Python."""
        cdef bytes its_client = raw_bytes(client), key
        cdef ReceiveGrant grant
        cdef dict grants = self.clients.get(its_client)
        cdef uint8_t *r
        if not is_name(m.group) or not is_name(m.topic) or m.expression.n > 4096:
            return None
        self.text.used = 0
        reserve(&self.text, <size_t>(32 + m.group.n + m.topic.n + m.broker.n + m.expression.n))
        r = self.text.at
        r[0], r[1] = <uint8_t>m.filter_type, <uint8_t>m.group.n
        put16(r + 2, <uint32_t>m.topic.n)
        put16(r + 4, <uint32_t>m.broker.n)
        r = put_raw(put_raw(put_raw(put_raw(r + 6, m.group), m.topic), m.broker), m.expression)
        key = PyBytes_FromStringAndSize(<char *>self.text.at, r - self.text.at)
        if grants is not None:
            grant = grants.get(key)
            if grant is not None:
                return grant
        verdict = self.host.judge_receive(
            its_client.decode("latin-1"), raw_bytes(m.group).decode("ascii"), raw_bytes(m.topic).decode("ascii"),
            raw_bytes(m.broker).decode("ascii"), m.filter_type, raw_bytes(m.expression).decode("ascii"),
        )
        if verdict is None:
            return None
        grant = ReceiveGrant.__new__(ReceiveGrant)
        grant.verdict, grant.broker = verdict, verdict.broker.encode("ascii")
        grant.tags = {tag.encode() for tag in verdict.tags}
        grant.attempts, grant.timeout_ms = verdict.attempts, verdict.timeout_ms
        grant.frame = frame_head(200050, verdict.fields)
        if len(self.clients) >= MOST_CLIENTS:
            self.revoke_all()
        self.clients.setdefault(its_client, {})[key] = grant
        return grant

    # --- acks and changes -----------------------------------------------------------------------------------------

    cdef AckGrant ack_grant(self, Text group, Text topic):
        cdef bytes key
        cdef AckGrant grant
        if not is_name(group) or not is_name(topic):
            return None
        self.text.used = 0
        reserve(&self.text, <size_t>(1 + group.n + topic.n))
        self.text.at[0] = <uint8_t>group.n
        put_raw(put_raw(self.text.at + 1, group), topic)
        key = PyBytes_FromStringAndSize(<char *>self.text.at, 1 + group.n + topic.n)
        grant = self.acks.get(key)
        if grant is not None:
            return grant
        verdict = self.host.judge_ack(raw_bytes(group).decode("ascii"), raw_bytes(topic).decode("ascii"))
        if verdict is None:
            return None
        grant = AckGrant.__new__(AckGrant)
        its_group = raw_bytes(group).decode("ascii")
        fields = [{"consumerGroup": its_group, "topic": verdict.topics[mark]} for mark in range(3)]
        grant.acks = tuple([frame_head(200051, each) for each in fields])
        grant.changes = tuple([frame_head(200053, each) for each in fields])
        if len(self.acks) >= MOST_TOPICS:
            self.acks.clear()
        self.acks[key] = grant
        return grant

    cdef bint is_usable(self, Text client, Text group, Text receipt, GrpcReceipt *m) except -1:
        """Whether it is a receipt of this broker that is valid, and the one to use."""
        if not read_grpc_receipt(receipt, m) or m.field[5].n != PyBytes_GET_SIZE(self.broker) or memcmp(
            m.field[5].at, PyBytes_AS_STRING(self.broker), <size_t>m.field[5].n
        ) != 0:
            return False
        if self.now == 0:
            self.now = self.host.now_ms()
        if self.now >= m.pop_time + m.invisible:
            return False
        if len(self.renewed) == 0:
            return True
        return not self.host.is_renewed(
            raw_bytes(client).decode("latin-1"), raw_bytes(group).decode("ascii"), raw_bytes(receipt).decode("ascii")
        )

    cdef bint offer_ack(self, Http2Session s, HttpCall call, KnownUser caller, Text client, Text request) except -1:
        """One frame an entry; the response is ready before, since it says success of all of them."""
        cdef Text group, topic
        cdef Text entry[MOST_ENTRIES]
        cdef Text ids[MOST_ENTRIES]
        cdef Text receipt[MOST_ENTRIES]
        cdef GrpcReceipt m
        cdef AckGrant grant
        cdef Buffer *burst = &s.hot.burst
        cdef size_t before = burst.used, start
        cdef int i, count = read_ack(request, &group, &topic, entry)
        if count == 0 or not s.hot.may(s, caller, HOT_ACK, group, topic, 0):
            return False
        grant = self.ack_grant(group, topic)
        if grant is None:
            return False
        for i in range(count):
            if not read_ack_entry(entry[i], &ids[i], &receipt[i]) or not self.is_usable(client, group, receipt[i], &m):
                burst.used = before
                return False
            start = burst.used
            add_receipt(burst, <bytes>grant.acks[<int>m.field[4].at[0] - 48], &m)
            end_frame(burst, start, call.stream)
        call.expected = count
        self.write_acked(ids, receipt, count)
        s.add(call, self.out.at, <Py_ssize_t>self.out.used)
        return True

    cdef int write_acked(self, const Text *ids, const Text *receipts, int count) except -1:
        """An AckMessageResponse: status; entries of message id, receipt, status."""
        cdef Buffer *out = &self.out
        cdef Text ok = whole_text(self.ok_status)
        cdef uint8_t *r
        cdef Py_ssize_t size
        cdef int i
        out.used = 0
        reserve(out, <size_t>(ok.n + 16))
        out.used = <size_t>(put_bytes(out.at, 0x0A, ok) - out.at)
        for i in range(count):
            size = field_bytes(ids[i]) + field_bytes(receipts[i]) + 2 + ok.n
            reserve(out, <size_t>(size + 16))
            r = out.at + out.used
            r[0] = 0x12
            r = put_varint(r + 1, <uint64_t>size)
            r = put_some(put_some(r, 0x0A, ids[i]), 0x12, receipts[i])
            r = put_bytes(r, 0x1A, ok)
            out.used = <size_t>(r - out.at)
        return 0

    cdef bint offer_change(self, Http2Session s, HttpCall call, KnownUser caller, Text client, Text request) except -1:
        cdef Text group, topic, receipt
        cdef GrpcReceipt m
        cdef AckGrant grant
        cdef int64_t invisible
        cdef bint suspend
        cdef uint8_t *r
        cdef Buffer *burst = &s.hot.burst
        cdef size_t start = burst.used
        if not read_change(request, &group, &topic, &receipt, &invisible, &suspend) or invisible > self.most_invisible:
            return False
        if not s.hot.may(s, caller, HOT_CHANGE, group, topic, 0):
            return False
        grant = self.ack_grant(group, topic)
        if grant is None or not self.is_usable(client, group, receipt, &m):
            return False
        add_receipt(burst, <bytes>grant.changes[<int>m.field[4].at[0] - 48], &m)
        reserve(burst, 96)
        r = put_decimal_field(burst.at + burst.used, literal(b',"invisibleTime":"', 18), invisible)
        r = put_raw(r, literal(b',"suspend":"true"', 17) if suspend else literal(b',"suspend":"false"', 18))
        burst.used = <size_t>(r - burst.at)
        end_frame(burst, start, call.stream)
        call.expected = 1
        # What its new receipt has of the old one: the offset, and the fields from the mark on.
        call.kept = raw_bytes(m.field[7]) + b" " + raw_bytes(
            literal(<const char *>m.field[4].at, m.field[7].at + m.field[7].n - m.field[4].at)
        ) + b" %d" % m.position
        return True


cdef inline bint is_path(Headers headers, bytes path) noexcept:
    return PyBytes_GET_SIZE(path) == headers.path_n and memcmp(
        PyBytes_AS_STRING(path), PyBytes_AS_STRING(headers.raw) + headers.path_at, <size_t>headers.path_n
    ) == 0


cdef inline bytes raw_bytes(Text t):
    return PyBytes_FromStringAndSize(<const char *>t.at, t.n)


cdef inline bint is_name(Text t) noexcept nogil:
    return 0 < t.n <= 255 and is_printable(t)


cdef bint is_quotable(Text t) noexcept nogil:
    """Printable ASCII that stands in JSON as it is; it may be empty."""
    cdef Py_ssize_t i
    cdef uint8_t odd = 0
    for i in range(t.n):
        odd |= (t.at[i] < 32) | (t.at[i] > 126) | (t.at[i] == c'"') | (t.at[i] == c'\\')
    return not odd


cdef bytes frame_head(int code, fields):
    """The beginning of a frame's header, up to the fields that each request has of its own."""
    texts = [f'"{name}":{dumps(value)}' for name, value in fields.items()]
    return f'{{"code":{code},"extFields":{{{",".join(texts)}'.encode("ascii")


cdef inline uint8_t *put_raw(uint8_t *r, Text t) noexcept nogil:
    if t.n:
        memcpy(r, t.at, <size_t>t.n)
    return r + t.n


cdef inline uint8_t *put_signed(uint8_t *r, int64_t v) noexcept nogil:
    if v < 0:
        r[0] = c'-'
        return r + 1 + put_decimal(r + 1, <uint64_t>-v)
    return r + put_decimal(r, <uint64_t>v)


cdef inline uint8_t *put_decimal_field(uint8_t *r, Text head, int64_t v) noexcept nogil:
    r = put_signed(put_raw(r, head), v)
    r[0] = c'"'
    return r + 1


cdef int end_frame(Buffer *out, size_t start, int32_t stream) except -1 nogil:
    """Close a header behind its last field, and say how long it is."""
    cdef uint8_t *r
    cdef uint32_t size
    reserve(out, 64)
    r = put_signed(put_raw(out.at + out.used, literal(b'},"flag":0,"opaque":', 20)), stream)
    r[0] = c'}'
    out.used = <size_t>(r + 1 - out.at)
    size = <uint32_t>(out.used - start)
    put32(out.at + start, size - 4)
    put32(out.at + start + 4, size - 8)
    return 0


cdef int add_receipt(Buffer *out, bytes head, const GrpcReceipt *m) except -1:
    """The beginning of an ack or a change, with what a receipt says. `end_frame` closes it."""
    cdef Text front = whole_text(head), receipt
    cdef uint8_t *r
    receipt.at, receipt.n = m.field[0].at, m.field[7].at + m.field[7].n - m.field[0].at
    reserve(out, <size_t>(front.n + 2 * receipt.n + 64))
    r = put_raw(out.at + out.used + 8, front)
    r = put_raw(put_raw(r, literal(b',"queueId":"', 12)), m.field[6])
    r = put_raw(put_raw(r, literal(b'","offset":"', 12)), m.field[7])
    r = put_raw(put_raw(r, literal(b'","extraInfo":"', 15)), receipt)
    r[0] = c'"'
    out.used = <size_t>(r + 1 - out.at)
    return 0
