# Hot calls within one `receive`: their messages go to the broker's feed together, its answers become responses. What the
# feed leaves is told to Python as any other call.

cdef enum:
    MOST_HELD = 1 << 20       # bytes of a hot call that are held back; larger ones are told to Python as they come

cdef bytes METHOD = b":method", TYPE = b"content-type", ENCODING = b"grpc-encoding", CLIENT = b"x-mq-client-id"
cdef bytes TIMEOUT = b"grpc-timeout"


cdef int hot_method(Http2Session s, Headers headers) noexcept:
    """Which method that we know a call is of, if its headers pass every check; NOT_HOT: Python's."""
    cdef int method = HOT_SEND
    cdef Text found
    if not is_path(headers, s.hot.path):
        method = s.hot.method_of(headers)
    if method == NOT_HOT or not headers.find(METHOD, &found) or not same(found, b"POST", 4):
        return NOT_HOT
    if not headers.find(TYPE, &found) or found.n < 16 or memcmp(found.at, b"application/grpc", 16) != 0:
        return NOT_HOT
    if headers.find(ENCODING, &found) and not same(found, b"identity", 8):
        return NOT_HOT
    return method if headers.find(CLIENT, &found) and is_printable(found) else NOT_HOT


cdef inline bint is_one_message(HttpCall call, const uint8_t *data, size_t n) noexcept:
    return n >= 5 and data[0] == 0 and get32(data + 1) == n - 5 and <int64_t>(n - 5) <= call.limit


cdef bint hold_hot(Http2Session s, HttpCall call, const uint8_t *data, size_t n) except -1:
    """Keep a piece of a hot call until it is whole. False: it is too long, or no one message, and Python's from now on."""
    cdef size_t held = call.came.used - call.came.first
    if held + n <= MOST_HELD and s.pending + <int64_t>n <= s.pending_limit:
        pile(&call.came, data, n)
        s.pending += <int64_t>n
        return True
    tell_hot(s, call)
    return False


cdef int keep_request(Http2Session s, HttpCall call) except -1:
    """Copy a message that lies in the received bytes, which are gone when `receive` returns."""
    cdef Text request = call.request
    call.request.at, s.borrowed = NULL, None
    s.pending += <int64_t>request.n
    pile(&call.came, request.at, <size_t>request.n)
    return 0


cdef bint offer_hot(Http2Session s, HttpCall call) except -1:
    """Hand a call that is whole to the feed. False: the events of it are told, its end follows."""
    cdef Text request
    cdef KnownUser caller = None
    s.borrowed = None
    if call.request.at == NULL and is_one_message(
        call, call.came.at + call.came.first, call.came.used - call.came.first
    ):
        call.request.at = call.came.at + call.came.first
        call.request.n = <Py_ssize_t>(call.came.used - call.came.first)
    if s.hot.guard is not None:
        caller = s.hot.guard.caller(s, call.headers)
    if call.request.at != NULL and not s.is_leaving and (caller is not None or s.hot.guard is None):
        request.at, request.n = call.request.at + 5, call.request.n - 5
        if call.method == HOT_SEND:
            if s.hot.offer(s, call, caller, request):
                return True
        elif call.method == HOT_BEAT:
            if s.hot.beats.offer(s, call, caller, request):
                return True
        elif s.hot.pops.offer(s, call, caller, request):
            return True
    tell_hot(s, call)
    return False


cdef int tell_hot(Http2Session s, HttpCall call) except -1:
    """Tell Python what has come of a hot call; it is none any more."""
    cdef Text request = call.request
    call.is_hot = False
    call.grant = None
    call.request.at = NULL
    s.drop_answer(call)
    s.events.append(make_tuple(CallBegun, (call.stream, call.headers)))
    if request.at == NULL:
        if call.came.used > call.came.first:
            cut_held(s, call)
        return 0
    message = PyBytes_FromStringAndSize(<const char *>request.at + 5, request.n - 5)
    s.drop_message(call)
    s.events.append(make_tuple(MessageArrived, (call.stream, message)))
    return 0


cdef int cut_held(Http2Session s, HttpCall call) except -1:
    cdef size_t used = cut_messages(s, call, call.came.at + call.came.first, call.came.used - call.came.first)
    if call.is_ended:
        return 0
    s.pending -= <int64_t>used
    call.came.first += used
    if call.came.first == call.came.used:
        s.drop_message(call)
    return 0


cdef int feed_hot(Http2Session s) except -1:
    """Give the burst to the broker's feed; send the answers that may leave, park others, leave the rest to Python."""
    cdef bytes burst = PyBytes_FromStringAndSize(<char *>s.hot.burst.at, <Py_ssize_t>s.hot.burst.used)
    cdef bytes ready
    s.hot.burst.used = 0
    fed = s.hot.feed(s.peer, memoryview(burst))
    if isinstance(fed, bytes):
        ready = fed
        return send_answers(s, <const uint8_t *>PyBytes_AS_STRING(ready), PyBytes_GET_SIZE(ready))
    ready = fed.ready
    send_answers(s, <const uint8_t *>PyBytes_AS_STRING(ready), PyBytes_GET_SIZE(ready))
    if fed.waiting:
        s.parked = [*(s.parked or ()), *fed.waiting]
    for frame in fed.frames:
        leave_hot(s, bytes(frame))
    leave_hot(s, burst[fed.used:])
    return 0


cdef int leave_hot(Http2Session s, bytes frames) except -1:
    """Tell Python of the calls that these frames were made of."""
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(frames)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(frames), at = 0
    cdef HttpCall call
    while n - at >= 17:
        call = s.calls.get(stream_of(p + at))
        at += 4 + <Py_ssize_t>get32(p + at)
        if call is not None and call.is_hot and not call.is_ended:
            tell_hot(s, call)
            s.events.append(make_tuple(HalfClosed, (call.stream,)))
    return 0


cdef int32_t stream_of(const uint8_t *p) noexcept nogil:
    """Of a frame that we wrote. In JSON it is the last number."""
    cdef const uint8_t *at
    cdef int32_t made = 0, digit = 1
    if p[4]:
        return <int32_t>get32(p + 13)
    at = p + 4 + get32(p) - 2
    while c'0' <= at[0] <= c'9' and digit <= 1000000000:
        made += digit * <int32_t>(at[0] - c'0')
        digit = digit * 10 if digit < 1000000000 else INT32_MAX
        at -= 1
    return made


cdef int send_answers(Http2Session s, const uint8_t *p, Py_ssize_t n) except -1:
    """Answer the calls whose frames these are the answers of."""
    cdef Py_ssize_t at = 0, end, header_end
    cdef uint32_t word
    cdef HttpCall call
    while n - at >= 29:
        end, word = at + 4 + <Py_ssize_t>get32(p + at), get32(p + at + 4)
        header_end = at + 8 + <Py_ssize_t>(word & 0xFFFFFF)
        if word >> 24 == 0 and header_end <= end <= n:
            answer_pop(s, p + at + 8, header_end - at - 8, p + header_end, end - header_end)
            at = end
            continue
        if word >> 24 != 1 or end > n or header_end > end or header_end < at + 29:
            raise RuntimeError("the feed's answers to sends are of a shape that is not known here")
        call = s.calls.get(<int32_t>get32(p + at + 13))
        if call is not None and call.is_hot and not call.is_ended and not call.is_started and not s.is_over:
            answer_send(s, call, p + at + 8, header_end - at - 8)
        at = end
    return 0


cdef int answer_send(Http2Session s, HttpCall call, const uint8_t *p, Py_ssize_t n) except -1:
    """`p`: a binary header with at least its fixed part."""
    cdef Text unique, offset, remark
    cdef int64_t number = 0
    cdef uint32_t remark_n = get32(p + 13)
    cdef bytes message
    s.drop_message(call)
    s.hot_calls += 1
    s.hot.taken += 1
    if <int64_t>remark_n > n - 21:
        raise RuntimeError("the feed's answer to a send is cut off")
    if get16(p):
        remark = literal(<const char *>p + 17, <Py_ssize_t>remark_n)
        text = PyBytes_FromStringAndSize(<const char *>remark.at, remark.n).decode("utf-8", "replace")
        message = s.hot.host.answer_of(<int>get16(p), text)
        s.add(call, <const uint8_t *>PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message))
    else:
        find_result(p + 21 + remark_n, n - 21 - <Py_ssize_t>remark_n, &unique, &offset)
        if not integer(offset, 0, INT64_MAX, &number):
            raise RuntimeError("the feed's answer to a send has no offset")
        add_response(s, call, unique, <uint64_t>number)
    call.status, call.text, call.is_finishing = 0, None, True
    s.submit_start(call)
    return 0


cdef void find_result(const uint8_t *p, Py_ssize_t n, Text *unique, Text *offset) noexcept nogil:
    cdef Py_ssize_t at = 0, name_n
    cdef Text name
    cdef uint32_t value_n
    unique[0] = offset[0] = literal(NULL, 0)
    while n - at >= 6:
        name_n = <Py_ssize_t>get16(p + at)
        if name_n > n - at - 6:
            return
        name = literal(<const char *>p + at + 2, name_n)
        value_n = get32(p + at + 2 + name_n)
        at += 6 + name_n
        if <int64_t>value_n > n - at:
            return
        if same(name, b"queueOffset", 11):
            offset[0] = literal(<const char *>p + at, <Py_ssize_t>value_n)
        elif same(name, b"transactionId", 13):
            unique[0] = literal(<const char *>p + at, <Py_ssize_t>value_n)
        at += <Py_ssize_t>value_n


cdef int add_response(Http2Session s, HttpCall call, Text unique, uint64_t offset) except -1:
    """A SendMessageResponse of one entry: status, message id, transaction id, offset."""
    cdef Buffer *out = &s.hot.text
    cdef Text ok = whole_text(s.hot.ok_status)
    cdef Py_ssize_t entry = 1 + varint_bytes(<uint64_t>ok.n) + ok.n + 2 * (1 + varint_bytes(<uint64_t>unique.n) + unique.n)
    cdef uint8_t *r
    if offset:
        entry += 1 + varint_bytes(offset)
    out.used = 0
    reserve(out, <size_t>(entry + ok.n + 40))
    r = put_bytes(out.at, 0x0A, ok)
    r[0] = 0x12
    r = put_bytes(put_varint(r + 1, <uint64_t>entry), 0x0A, ok)
    r = put_bytes(put_bytes(r, 0x12, unique), 0x1A, unique)
    if offset:
        r[0] = 0x20
        r = put_varint(r + 1, offset)
    return s.add(call, out.at, r - out.at)


cdef inline uint8_t *put_bytes(uint8_t *r, uint8_t head, Text value) noexcept nogil:
    r[0] = head
    r = put_varint(r + 1, <uint64_t>value.n)
    if value.n:
        memcpy(r, value.at, <size_t>value.n)
    return r + value.n
