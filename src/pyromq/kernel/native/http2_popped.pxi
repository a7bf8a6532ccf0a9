# What the broker's feed answers to pops, acks and changes, as the responses of gRPC. A record becomes a Message as
# proxy/messages/convert.py makes it; one that is not plain is Python's to convert.

cdef extern from "http2_md5.h" nogil:
    void md5(const uint8_t *data, size_t length, uint8_t *digest)

cdef extern from "string.h" nogil:
    void *memmem(const void *haystack, size_t n, const void *needle, size_t m)

cdef enum:
    MOST_SHARES = 64
    PLACE_BYTES = 20
    RECORD_FIXED = 91         # bytes of a record of the first form with IPv4 hosts, without body, topic and properties
    MEANS_USER = 1, MEANS_TAG = 2, MEANS_KEYS = 4, MEANS_ID = 8, MEANS_BORN = 16, MEANS_GROUP = 32, MEANS_TRACE = 64
    MEANS_ODD = 128, MEANS_RECEIPT = 256

cdef tuple METHODS = (None, None, "ReceiveMessage", "AckMessage", "ChangeInvisibleDuration")
cdef int GONE = -1        # the code of a receive whose client went: `refused` of the host knows it

cdef struct PopHead:
    int64_t pop_time, invisible, revive
    int64_t queue[MOST_SHARES]
    int64_t start[MOST_SHARES]
    int shares

cdef struct Stored:
    Text record, body, topic, properties
    const uint8_t *born_at
    const uint8_t *stored_at
    int64_t queue, offset, position, born, stored, reconsumed
    uint32_t flags
    # Its receipt: as the broker wrote it into a record of a retry topic, or made from the answer's header.
    Text receipt
    int retry
    int64_t start, popped_queue, popped_offset
    # Of its properties:
    Text tag, keys, unique, born_host, group, trace
    Text name[MOST_USER]
    Text value[MOST_USER]
    int users


cdef int answer_pop(Http2Session s, const uint8_t *p, Py_ssize_t n, const uint8_t *body, Py_ssize_t body_n) except -1:
    """Answer the call that a frame with this JSON header is for."""
    cdef Text header = literal(<const char *>p, n)
    cdef int64_t opaque, code
    cdef HttpCall call
    cdef HotPops pops = s.hot.pops
    if pops is None or not find_number(header, literal(b'"opaque":', 9), &opaque) or not find_number(
        header, literal(b'"code":', 7), &code
    ):
        raise RuntimeError("the feed's answer to a pop is of a shape that is not known here")
    call = s.calls.get(<int32_t>opaque)
    if call is None or not call.is_hot or call.is_ended or call.is_started or s.is_over:
        if code == 0 and body_n:
            return give_back_late(s, call, <int32_t>opaque, header, body, body_n)
        if s.left is not None:
            s.left.pop(<int32_t>opaque, None)   # refused, or nothing came: nothing is to be given back
        return 0
    if code:
        return answer_refused(s, call, raw_bytes(header))
    if call.method == HOT_RECEIVE:
        answer_receive(s, call, header, body, body_n)
    elif call.method == HOT_CHANGE:
        answer_change(s, call, header)
        pops.changed += 1
    else:
        pops.acked += 1
        call.expected -= 1
        if call.expected:
            return 0
    return finish_hot(s, call)


cdef int finish_hot(Http2Session s, HttpCall call) except -1:
    """Send what was added, and the end of the call behind it."""
    s.drop_message(call)
    s.hot_calls += 1
    call.status, call.text, call.is_finishing = 0, None, True
    return s.submit_start(call)


cdef int answer_refused(Http2Session s, HttpCall call, bytes header) except -1:
    """Say what the broker said instead, in the proxy's words."""
    said = loads(header)
    add_refused(s, call, said["code"], said.get("remark") or "")
    return finish_hot(s, call)


cdef int add_refused(Http2Session s, HttpCall call, int code, str remark) except -1:
    cdef bytes message, ready = b""
    cdef size_t n = call.out.used - call.out.first
    if n > 5:
        ready = PyBytes_FromStringAndSize(<char *>call.out.at + call.out.first + 5, <Py_ssize_t>n - 5)
    s.drop_answer(call)
    for message in s.hot.pops.host.refused(METHODS[call.method], code, remark, ready):
        s.add(call, <const uint8_t *>PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message))
    return 0


cdef int answer_change(Http2Session s, HttpCall call, Text header) except -1:
    """A ChangeInvisibleDurationResponse: status, the receipt from now on."""
    cdef int64_t pop_time, invisible, revive
    cdef Buffer *out = &s.hot.pops.out
    cdef Text kept = whole_text(call.kept), ok = whole_text(s.hot.pops.ok_status), offset
    cdef uint8_t receipt[MOST_RECEIPT + 128]
    cdef uint8_t *r = receipt
    if (
        not find_number(header, literal(b'"popTime":"', 11), &pop_time)
        or not find_number(header, literal(b'"invisibleTime":"', 17), &invisible)
        or not find_number(header, literal(b'"reviveQid":"', 13), &revive)
    ):
        raise RuntimeError("the feed's answer to a change lacks a field")
    offset.at, offset.n = kept.at, <const uint8_t *>memchr(kept.at, c' ', <size_t>kept.n) - kept.at
    r = put_raw(r, offset)
    r[0] = c' '
    r = put_signed(r + 1, pop_time)
    r[0] = c' '
    r = put_signed(r + 1, invisible)
    r[0] = c' '
    r = put_signed(r + 1, revive)
    r = put_raw(r, literal(<const char *>kept.at + offset.n, kept.n - offset.n))
    out.used = 0
    reserve(out, <size_t>(ok.n + (r - receipt) + 32))
    out.used = <size_t>(
        put_bytes(put_bytes(out.at, 0x0A, ok), 0x12, literal(<const char *>receipt, r - receipt)) - out.at
    )
    return s.add(call, out.at, <Py_ssize_t>out.used)


# --- messages --------------------------------------------------------------------------------------------------------

cdef bint find_number(Text header, Text name, int64_t *value) noexcept nogil:
    """The number behind a name, its colon and, of a text, its quote."""
    cdef const uint8_t *at = <const uint8_t *>memmem(header.at, <size_t>header.n, name.at, <size_t>name.n)
    cdef Text digits
    if at == NULL:
        return False
    digits.at, digits.n = at + name.n, 0
    while digits.at + digits.n < header.at + header.n and (
        c'0' <= digits.at[digits.n] <= c'9' or digits.at[digits.n] == c'-'
    ):
        digits.n += 1
    return integer(digits, -INT64_MAX, INT64_MAX, value)


cdef bint read_pop_head(Text header, PopHead *head) noexcept nogil:
    """Times, and where the reads of its queues began: `0 queue start;…`."""
    cdef Text name = literal(b'"startOffsetInfo":"', 19), number
    cdef const uint8_t *at
    cdef const uint8_t *end = header.at + header.n
    cdef int field = 0
    cdef bint is_own = False
    head.shares = 0
    if (
        not find_number(header, literal(b'"popTime":"', 11), &head.pop_time)
        or not find_number(header, literal(b'"invisibleTime":"', 17), &head.invisible)
        or not find_number(header, literal(b'"reviveQid":"', 13), &head.revive)
    ):
        return False
    at = <const uint8_t *>memmem(header.at, <size_t>header.n, name.at, <size_t>name.n)
    if at == NULL:
        return False
    at += name.n
    number.at = at
    while at < end:
        if at[0] == c' ' or at[0] == c';' or at[0] == c'"':
            number.n = at - number.at
            if head.shares == MOST_SHARES:
                return False
            if field == 0:
                is_own = same(number, b"0", 1)     # records of retry topics have receipts of their own
            elif field == 1:
                if not integer(number, 0, INT32_MAX, &head.queue[head.shares]):
                    return False
            elif field > 2 or not integer(number, 0, INT64_MAX, &head.start[head.shares]):
                return False
            if at[0] != c' ':
                head.shares += field == 2 and is_own
            field = field + 1 if at[0] == c' ' else 0
            if at[0] == c'"':
                return True
            number.at = at + 1
        at += 1
    return False


cdef int answer_receive(Http2Session s, HttpCall call, Text header, const uint8_t *body, Py_ssize_t n) except -1:
    """Status, messages and the time of the delivery."""
    cdef HotPops pops = s.hot.pops
    cdef ReceiveGrant grant = call.grant
    cdef Buffer *out = &pops.out
    cdef PopHead head
    cdef list shares = []
    if not read_pop_head(header, &head):
        raise RuntimeError("the feed's answer to a pop lacks a field")
    out.used = 0
    add_framed(out, whole_text(pops.ok_element))
    add_messages(pops, grant, &head, body, n, shares)
    handed = make_tuple(HandedMessages, (head.pop_time, head.invisible, head.revive, shares))
    if shares and call.renews and grant.is_revoked and not pops.host.is_there(grant.verdict):
        pops.host.give_back(grant.verdict, handed)
        return add_refused(s, call, GONE, grant.verdict.client_id)
    if shares:
        call.handed = handed
    else:
        out.used = 0
        add_framed(out, whole_text(pops.no_match))
    add_time(out, head.pop_time)
    return s.add_ready(call, out.at, out.used)


cdef int add_messages(
    HotPops pops, ReceiveGrant grant, PopHead *head, const uint8_t *body, Py_ssize_t n, list shares
) except -1:
    """Put the messages that are for the client; `shares` gets where they came from."""
    cdef Stored m
    cdef Py_ssize_t at = 0, size
    cdef int64_t queue = -1, start = 0
    cdef uint8_t places[PLACE_BYTES * MOST_SHARES]
    cdef int count = 0, retry = 0
    while n - at >= RECORD_FIXED:
        size = <Py_ssize_t>get32(body + at)
        if not RECORD_FIXED <= size <= n - at:
            raise RuntimeError("a popped record is cut off")
        m.record.at, m.record.n = body + at, size
        at += size
        if not read_stored(&m):
            raise RuntimeError("a popped record is none")
        find_receipt(&m, head)
        if m.popped_queue != queue or m.start != start or m.retry != retry or count == MOST_SHARES:
            add_share(shares, queue, start, places, count, retry)
            queue, start, retry, count = m.popped_queue, m.start, m.retry, 0
        if add_message(pops, grant, head, &m):
            put_place(places + PLACE_BYTES * count, &m)
            count += 1
            pops.received += 1
    return add_share(shares, queue, start, places, count, retry)


cdef void put_place(uint8_t *r, const Stored *m) noexcept nogil:
    put64(r, <uint64_t>m.popped_offset)
    put64(r + 8, <uint64_t>m.position)
    put32(r + 16, <uint32_t>m.reconsumed)


cdef int add_share(list shares, int64_t queue, int64_t start, const uint8_t *places, int count, int retry) except -1:
    if count:
        places_of = PyBytes_FromStringAndSize(<const char *>places, count * PLACE_BYTES)
        shares.append(make_tuple(Share, (queue, start, places_of, retry)))
    return 0


cdef void find_receipt(Stored *m, const PopHead *head) noexcept nogil:
    """The receipt that is in the record, if it is one of this answer; else the one that follows from the header."""
    cdef GrpcReceipt own
    cdef int64_t revive
    cdef const uint8_t *at = m.properties.at
    cdef const uint8_t *end = at + m.properties.n
    m.receipt.n = 0
    while at < end:
        at = <const uint8_t *>memmem(at, <size_t>(end - at), b"POP_CK\x01", 7)
        if at == NULL:
            break
        if at == m.properties.at or (at - 1)[0] == 2:
            m.receipt.at = at + 7
            while m.receipt.at + m.receipt.n < end and m.receipt.at[m.receipt.n] != 2:
                m.receipt.n += 1
            break
        at += 7
    if (
        m.receipt.n
        and read_grpc_receipt(m.receipt, &own)
        and own.fields == 8
        and own.pop_time == head.pop_time
        and own.invisible == head.invisible
        and integer(own.field[3], 0, INT32_MAX, &revive)
        and revive == head.revive
        and integer(own.field[0], 0, INT64_MAX, &m.start)
    ):
        m.retry, m.popped_queue, m.popped_offset = <int>own.field[4].at[0] - 48, own.queue, own.offset
        return
    m.receipt.n = 0
    m.retry, m.popped_queue, m.popped_offset = 0, m.queue, m.offset
    m.start = start_of(head, m.queue, m.offset)


cdef int64_t start_of(const PopHead *head, int64_t queue, int64_t offset) noexcept nogil:
    cdef int i
    for i in range(head.shares):
        if head.queue[i] == queue:
            return head.start[i]
    return offset


cdef bint add_message(HotPops pops, ReceiveGrant grant, const PopHead *head, Stored *m) except -1:
    """Put one message behind the others. False: it is not for the client."""
    cdef bytes made
    cdef uint8_t place[PLACE_BYTES]
    cdef Buffer *out = &pops.out
    cdef uint8_t *r
    cdef list shares = []
    if is_plain_record(m) and sort_properties(pops, m) and m.reconsumed < grant.attempts:
        if not grant.tags or (m.tag.n and raw_bytes(m.tag) in grant.tags):
            put_message(pops, grant, head, m)
            return True
    put_place(place, m)
    add_share(shares, m.popped_queue, m.start, place, 1, m.retry)
    pops.odd += 1
    made = pops.host.message(
        grant.verdict, raw_bytes(m.record), make_tuple(HandedMessages, (head.pop_time, head.invisible, head.revive, shares))
    )
    if made is None:
        return False
    reserve(out, <size_t>(PyBytes_GET_SIZE(made) + 32))
    r = out.at + out.used
    r[0] = 0
    put32(r + 1, <uint32_t>(field_bytes(whole_text(made))))
    out.used = <size_t>(put_bytes(r + 5, 0x12, whole_text(made)) - out.at)
    return True


cdef bint read_stored(Stored *m) noexcept nogil:
    """The parts of a record, and whether they are all there."""
    cdef const uint8_t *p = m.record.at
    cdef Py_ssize_t at = 48
    cdef uint32_t magic = get32(p + 4)
    m.queue, m.offset, m.position = <int32_t>get32(p + 12), <int64_t>get64(p + 20), <int64_t>get64(p + 28)
    m.flags, m.born = get32(p + 36), <int64_t>get64(p + 40)
    m.born_at = p + at
    at += 20 if m.flags & 16 else 8
    m.stored = <int64_t>get64(p + at)
    m.stored_at = p + at + 8
    at += 28 if m.flags & 32 else 16
    if at + 19 > m.record.n:
        return False
    m.reconsumed, m.body.n = <int32_t>get32(p + at), <int32_t>get32(p + at + 12)
    m.body.at = p + at + 16
    if not 0 <= m.body.n <= m.record.n - at - 19:
        return False
    at += 16 + m.body.n
    if magic == <uint32_t>0xDAA320A7:
        m.topic.n = p[at]
        at += 1
    elif magic == <uint32_t>0xDAA320AB:
        m.topic.n = get16(p + at)
        at += 2
    else:
        return False
    m.topic.at = p + at
    at += m.topic.n
    if at + 2 > m.record.n:
        return False
    m.properties.at, m.properties.n = p + at + 2, get16(p + at)
    return at + 2 + m.properties.n == m.record.n


cdef bint is_plain_record(const Stored *m) noexcept nogil:
    """Whether all but its properties needs no look."""
    if m.flags & 48 or m.born <= 0 or m.stored <= 0 or m.reconsumed < 0 or m.reconsumed == INT32_MAX or m.queue < 0:
        return False
    if m.born // 1000 > <int64_t>TIME_END or m.stored // 1000 > <int64_t>TIME_END or m.offset < 0:
        return False
    if m.flags & 1 and (m.body.n < 2 or m.body.at[0] != 0x1F or m.body.at[1] != 0x8B):
        return False                  # compressed otherwise
    return is_printable(m.topic) and memchr(m.topic.at, c'%', <size_t>m.topic.n) == NULL


cdef bint sort_properties(HotPops pops, Stored *m) except -1:
    """Find what its properties say. False: something that Python has to look at."""
    cdef const uint8_t *at = m.properties.at
    cdef const uint8_t *end = at + m.properties.n
    cdef const uint8_t *stop
    cdef Text name, value
    cdef int meaning, seen = 0, i
    m.tag = m.keys = m.unique = m.born_host = m.group = m.trace = literal(NULL, 0)
    m.users = 0
    while at < end:
        name.at = at
        at = <const uint8_t *>memchr(at, 1, <size_t>(end - at))
        if at == NULL:
            return False
        name.n, value.at = at - name.at, at + 1
        stop = <const uint8_t *>memchr(value.at, 2, <size_t>(end - value.at))
        if stop == NULL:
            stop = end
        value.n, at = stop - value.at, stop + 1
        if not is_printable(name) or not is_printable(value):
            return False
        meaning = MEANS_USER
        if pops.name_lengths >> min(name.n, 63) & 1:
            meaning = pops.names.get(raw_bytes(name), MEANS_USER)
        if meaning & MEANS_ODD or meaning & seen & ~MEANS_USER or (meaning & MEANS_RECEIPT and not m.receipt.n):
            return False
        seen |= meaning
        if meaning & MEANS_USER:
            if m.users == MOST_USER:
                return False
            for i in range(m.users):
                if m.name[i].n == name.n and memcmp(m.name[i].at, name.at, <size_t>name.n) == 0:
                    return False
            m.name[m.users], m.value[m.users] = name, value
            m.users += 1
        if meaning & MEANS_TAG:
            m.tag = value
        elif meaning & MEANS_KEYS:
            m.keys = value
        elif meaning & MEANS_ID:
            m.unique = value
        elif meaning & MEANS_BORN:
            m.born_host = value
        elif meaning & MEANS_GROUP:
            m.group = value
        elif meaning & MEANS_TRACE:
            m.trace = value
    return not m.born_host.n or (m.born_host.at[0] != c' ' and m.born_host.at[m.born_host.n - 1] != c' ')


cdef int put_message(HotPops pops, ReceiveGrant grant, const PopHead *head, const Stored *m) except -1:
    """ReceiveMessageResponse.message, with gRPC's five bytes before it."""
    cdef Buffer *out = &pops.out
    cdef Text system = write_system(pops, grant, head, m)
    cdef Py_ssize_t size = 1 + varint_bytes(<uint64_t>field_bytes(m.topic)) + field_bytes(m.topic), pair, whole
    cdef uint8_t *r
    cdef int i
    for i in range(m.users):
        pair = field_bytes(m.name[i]) + field_bytes(m.value[i])
        size += 1 + varint_bytes(<uint64_t>pair) + pair
    size += field_bytes(system) + field_bytes(m.body)
    whole = 1 + varint_bytes(<uint64_t>size) + size
    reserve(out, <size_t>(whole + 5))
    r = out.at + out.used
    r[0] = 0
    put32(r + 1, <uint32_t>whole)
    r[5] = 0x12
    r = put_varint(r + 6, <uint64_t>size)
    r[0] = 0x0A
    r = put_bytes(put_varint(r + 1, <uint64_t>field_bytes(m.topic)), 0x12, m.topic)
    for i in range(m.users):
        r[0] = 0x12
        r = put_varint(r + 1, <uint64_t>(field_bytes(m.name[i]) + field_bytes(m.value[i])))
        r = put_bytes(put_bytes(r, 0x0A, m.name[i]), 0x12, m.value[i])
    r = put_some(put_bytes(r, 0x1A, system), 0x22, m.body)
    out.used = <size_t>(r - out.at)
    return 0


cdef Text write_system(HotPops pops, ReceiveGrant grant, const PopHead *head, const Stored *m):
    """SystemProperties, in the order of their numbers."""
    cdef Buffer *out = &pops.text
    cdef Text made, text, broker = whole_text(grant.broker)
    cdef uint8_t digest[16]
    cdef uint8_t hex_digest[32]
    cdef uint8_t *r
    md5(m.body.at, <size_t>m.body.n, digest)
    put_hex(hex_digest, digest, 16)
    out.used = 0
    reserve(out, <size_t>(2 * m.properties.n + broker.n + 1024))
    r = put_some(out.at, 0x0A, m.tag)
    r = put_keys(r, m.keys)
    if m.unique.n:
        r = put_bytes(r, 0x1A, m.unique)
    else:
        r[0], r[1] = 0x1A, 32         # the id by its place
        put_hex(r + 2, m.stored_at, 8)
        put_hex(r + 18, m.record.at + 28, 8)
        r += 34
    r[0], r[1], r[2], r[3] = 0x22, 36, 0x08, 2
    r = put_bytes(r + 4, 0x12, literal(<const char *>hex_digest, 32))
    r[0], r[1], r[2], r[3] = 0x28, 2 if m.flags & 1 else 1, 0x30, 2 if m.group.n else 1
    r = put_moment(r + 4, 0x3A, m.born)
    if m.born_host.n:
        r = put_bytes(r, 0x42, m.born_host)
    else:
        r = put_host(r, 0x42, m.born_at, False)
    r = put_moment(r, 0x4A, m.stored)
    r = put_host(r, 0x52, m.stored_at, True)
    r = put_own_receipt(r, m) if m.receipt.n else put_receipt(r, head, broker, m)
    if m.queue:
        r[0] = 0x68
        r = put_varint(r + 1, <uint64_t>m.queue)
    r[0] = 0x70
    r = put_moment(put_varint(r + 1, <uint64_t>m.offset), 0x7A, head.invisible)
    r[0], r[1] = 0x80, 0x01
    r = put_varint(r + 2, <uint64_t>(m.reconsumed + 1))
    if m.group.n:
        r[0], r[1] = 0x8A, 0x01
        r = put_raw(put_varint(r + 2, <uint64_t>m.group.n), m.group)
    if m.trace.n:
        r[0], r[1] = 0x92, 0x01
        r = put_raw(put_varint(r + 2, <uint64_t>m.trace.n), m.trace)
    made.at, made.n = out.at, r - out.at
    return made


cdef uint8_t *put_keys(uint8_t *r, Text keys) noexcept nogil:
    cdef Py_ssize_t at = 0, begin
    while at < keys.n:
        begin = at
        while at < keys.n and keys.at[at] != c' ':
            at += 1
        r = put_some(r, 0x12, literal(<const char *>keys.at + begin, at - begin))
        at += 1
    return r


cdef uint8_t *put_receipt(uint8_t *r, const PopHead *head, Text broker, const Stored *m) noexcept nogil:
    """`start popTime invisibleTime reviveQueue 0 broker queue offset position`."""
    cdef uint8_t text[256]
    cdef uint8_t *t = put_signed(text, m.start)
    cdef uint8_t tail[80]
    cdef uint8_t *e
    cdef Py_ssize_t size
    t[0] = c' '
    t = put_signed(t + 1, head.pop_time)
    t[0] = c' '
    t = put_signed(t + 1, head.invisible)
    t[0] = c' '
    t = put_signed(t + 1, head.revive)
    t = put_raw(t, literal(b" 0 ", 3))
    tail[0] = c' '
    e = put_signed(tail + 1, m.queue)
    e[0] = c' '
    e = put_signed(e + 1, m.offset)
    e[0] = c' '
    e = put_signed(e + 1, m.position)
    size = (t - text) + broker.n + (e - tail)
    r[0] = 0x62
    r = put_varint(r + 1, <uint64_t>size)
    r = put_raw(put_raw(r, literal(<const char *>text, t - text)), broker)
    return put_raw(r, literal(<const char *>tail, e - tail))


cdef uint8_t *put_own_receipt(uint8_t *r, const Stored *m) noexcept nogil:
    """The one in the record, and the position."""
    cdef uint8_t tail[24]
    cdef uint8_t *e
    tail[0] = c' '
    e = put_signed(tail + 1, m.position)
    r[0] = 0x62
    r = put_raw(put_varint(r + 1, <uint64_t>(m.receipt.n + (e - tail))), m.receipt)
    return put_raw(r, literal(<const char *>tail, e - tail))


cdef uint8_t *put_host(uint8_t *r, uint8_t head, const uint8_t *host, bint with_port) noexcept nogil:
    """`a.b.c.d` and perhaps `:port`, at most 26 bytes."""
    cdef uint8_t text[32]
    cdef uint8_t *t = text
    cdef int i
    for i in range(4):
        if i:
            t[0] = c'.'
            t += 1
        t += put_decimal(t, host[i])
    if with_port:
        t[0] = c':'
        t += 1
        t += put_decimal(t, get32(host + 4))
    return put_bytes(r, head, literal(<const char *>text, t - text))


cdef uint8_t *put_moment(uint8_t *r, uint8_t head, int64_t ms) noexcept nogil:
    """A Timestamp or a Duration that is not negative: seconds, nanoseconds."""
    cdef uint64_t seconds = <uint64_t>(ms // 1000), nanos = <uint64_t>(ms % 1000) * 1000000
    r[0] = head
    r[1] = 0
    if seconds:
        r[1] += 1 + varint_bytes(seconds)
    if nanos:
        r[1] += 1 + varint_bytes(nanos)
    r += 2
    if seconds:
        r[0] = 0x08
        r = put_varint(r + 1, seconds)
    if nanos:
        r[0] = 0x10
        r = put_varint(r + 1, nanos)
    return r


cdef inline Py_ssize_t field_bytes(Text t) noexcept nogil:
    """Of a field that is left out if it is empty; its number is below 16."""
    return 1 + varint_bytes(<uint64_t>t.n) + t.n if t.n else 0


cdef inline uint8_t *put_some(uint8_t *r, uint8_t head, Text t) noexcept nogil:
    return put_bytes(r, head, t) if t.n else r


cdef int add_framed(Buffer *out, Text message) except -1:
    reserve(out, <size_t>(message.n + 5))
    out.at[out.used] = 0
    put32(out.at + out.used + 1, <uint32_t>message.n)
    put_raw(out.at + out.used + 5, message)
    out.used += <size_t>(message.n + 5)
    return 0


cdef int add_time(Buffer *out, int64_t ms) except -1:
    """ReceiveMessageResponse.delivery_timestamp, which ends every answer."""
    cdef uint8_t text[32]
    cdef uint8_t *r = put_moment(text, 0x1A, ms)
    return add_framed(out, literal(<const char *>text, r - text))


# --- messages that nobody took ---------------------------------------------------------------------------------------

cdef int give_back_late(
    Http2Session s, HttpCall call, int32_t stream, Text header, const uint8_t *body, Py_ssize_t n
) except -1:
    """Give back the messages of an answer whose call is over."""
    cdef ReceiveGrant grant = None if s.left is None else s.left.pop(stream, None)
    cdef PopHead head
    cdef list shares = []
    if grant is None and call is not None and not call.is_started:
        grant, call.grant = call.grant, None   # the session is over, and the connection goes
    if grant is None or not read_pop_head(header, &head):
        return 0
    s.hot.pops.out.used = 0
    add_messages(s.hot.pops, grant, &head, body, n, shares)
    if shares:
        s.hot.pops.host.give_back(grant.verdict, make_tuple(HandedMessages, (head.pop_time, head.invisible, head.revive, shares)))
    return 0


cdef int call_is_over(Http2Session s, HttpCall call) except -1:
    """See what becomes of the messages of a receive that ends before its client has them."""
    if call.handed is not None:
        handed, call.handed = call.handed, None
        s.hot.pops.host.give_back((<ReceiveGrant>call.grant).verdict, handed)
    elif call.is_hot and call.method == HOT_RECEIVE and call.grant is not None and not call.is_started:
        if s.hot.pops.host.abandoned(s.peer, call.stream):
            return 0
        if s.left is None:
            s.left = {}
        s.left[call.stream] = call.grant   # its answer is on the way
    return 0


cdef int call_is_taken(Http2Session s, HttpCall call) except -1:
    """All of an answer has left."""
    handed, call.handed = call.handed, None
    if call.renews:
        s.hot.pops.host.delivered((<ReceiveGrant>call.grant).verdict, handed)
    return 0
