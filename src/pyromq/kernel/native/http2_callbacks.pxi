# What nghttp2 calls while it reads and writes. An exception is kept in the session and raised when nghttp2 is done.

cdef int failed(Http2Session s, fault) noexcept:
    if s.fault is None:
        s.fault = fault
    return NGHTTP2_ERR_CALLBACK_FAILURE


cdef inline HttpCall call_of(Http2Session s, int32_t stream):
    if s.last is not None and s.last.stream == stream:
        return s.last
    s.last = s.calls.get(stream)
    return s.last


cdef int frame_begun(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user) noexcept:
    cdef Http2Session s = <Http2Session>user
    if hd.type == NGHTTP2_HEADERS or (hd.type == NGHTTP2_DATA and hd.length > 0):
        s.idle = 0
        return 0
    s.idle += 1
    if s.idle <= s.most_idle:
        return 0
    try:
        s.give_up(f"more than {s.most_idle} frames in a row that no call gains from")
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int headers_begun(nghttp2_session *session, const nghttp2_frame *frame, void *user) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    try:
        if frame.hd.type == NGHTTP2_HEADERS and frame.headers.cat == NGHTTP2_HCAT_REQUEST:
            call = HttpCall.__new__(HttpCall)
            call.stream, call.limit = frame.hd.stream_id, s.message_bytes
            s.calls[call.stream] = s.last = call
        else:
            call = call_of(s, frame.hd.stream_id)
            if call is not None:
                call.header_bytes = 0
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int header_came(
    nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
    const uint8_t *value, size_t value_n, uint8_t flags, void *user
) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    cdef uint8_t lengths[4]
    try:
        call = call_of(s, frame.hd.stream_id)
        if call is None:
            return 0
        call.header_bytes += <int64_t>(name_n + value_n) + 32
        if call.header_bytes > s.header_limit or name_n > 65535 or value_n > 65535:
            s.give_up(f"a header list of more than {s.header_limit} bytes")
            return 0
        if call.headers is not None:
            return 0  # trailers of a request say nothing to gRPC
        put16(lengths, <uint32_t>name_n)
        put16(lengths + 2, <uint32_t>value_n)
        pile(&call.head, lengths, 4)
        pile(&call.head, name, name_n)
        if name_n == 5 and memcmp(name, b":path", 5) == 0:
            call.path_at, call.path_n = <Py_ssize_t>call.head.used, <Py_ssize_t>value_n
        pile(&call.head, value, value_n)
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int headers_are_whole(Http2Session s, HttpCall call) except -1:
    cdef Headers headers = Headers.__new__(Headers)
    cdef bytes path
    cdef int64_t most
    headers.raw = PyBytes_FromStringAndSize(<char *>call.head.at, <Py_ssize_t>call.head.used)
    headers.path_at, headers.path_n = call.path_at, call.path_n
    call.headers = headers
    for path, most in s.large:
        if PyBytes_GET_SIZE(path) == call.path_n and memcmp(
            PyBytes_AS_STRING(path), call.head.at + call.path_at, <size_t>call.path_n
        ) == 0:
            call.limit = most
    free(call.head.at)
    call.head.at = NULL
    call.head.first = call.head.used = call.head.room = 0
    if s.hot is not None and not s.is_leaving:
        call.method = hot_method(s, headers)
        call.is_hot = call.method != NOT_HOT
    if not call.is_hot:
        s.events.append(make_tuple(CallBegun, (call.stream, headers)))
    return 0


cdef int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *user) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    try:
        if frame.hd.type == NGHTTP2_RST_STREAM:
            s.resets += 2
            if s.resets > 2 * s.most_resets:
                s.give_up(f"more than {s.most_resets} calls reset beyond those that ended")
            return 0
        if frame.hd.type != NGHTTP2_HEADERS and frame.hd.type != NGHTTP2_DATA:
            return 0
        call = call_of(s, frame.hd.stream_id)
        if call is None or call.is_ended:
            return 0
        if frame.hd.type == NGHTTP2_HEADERS and call.headers is None:
            headers_are_whole(s, call)
        if frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
            call.is_half_closed = True
            if call.is_hot and offer_hot(s, call):
                return 0
            if call.came.used > call.came.first:
                s.refuse(call, 13, "Encountered end-of-stream mid-frame")
            else:
                s.events.append(make_tuple(HalfClosed, (call.stream,)))
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int data_came(
    nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t n, void *user
) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    try:
        call = call_of(s, stream)
        if call is None or call.is_ended:
            return 0
        if call.is_hot:
            if call.request.at != NULL:
                keep_request(s, call)  # more comes behind it: it was no one message
            elif flags & NGHTTP2_FLAG_END_STREAM and call.came.used == 0 and is_one_message(call, data, n):
                call.request.at, call.request.n = data, <Py_ssize_t>n   # as nearly always: nothing is copied
                s.borrowed = call
                return 0
            if hold_hot(s, call, data, n):
                return 0
        take_data(s, call, data, n)
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int take_data(Http2Session s, HttpCall call, const uint8_t *data, size_t n) except -1:
    """Cut whole messages from what came before and this; keep the rest."""
    cdef size_t used, held = call.came.used - call.came.first
    if held == 0:
        used = cut_messages(s, call, data, n)
        if used < n and not call.is_ended:
            s.pending += <int64_t>(n - used)
            pile(&call.came, data + used, n - used)
            return check_pending(s, call)
        return 0
    s.pending += <int64_t>n
    pile(&call.came, data, n)
    used = cut_messages(s, call, call.came.at + call.came.first, call.came.used - call.came.first)
    if call.is_ended:
        return 0  # what it had is gone
    s.pending -= <int64_t>used
    call.came.first += used
    if call.came.first == call.came.used:
        s.drop_message(call)
        return 0
    return check_pending(s, call)


cdef int check_pending(Http2Session s, HttpCall call) except -1:
    if s.pending > s.pending_limit:
        s.refuse(call, 8, f"more than {s.pending_limit} bytes of unfinished messages on one connection")
    return 0


cdef size_t cut_messages(Http2Session s, HttpCall call, const uint8_t *p, size_t n) except? 0xFFFFFFFF:
    """Tell of each whole message; return the bytes that they took. A message too large ends the call."""
    cdef size_t at = 0
    cdef uint32_t length
    while n - at >= 5 and not call.is_ended:
        length = get32(p + at + 1)
        if p[at] > 1:
            s.refuse(call, 13, "gRPC frame header malformed: reserved bits not zero")
        elif length > call.limit:
            s.refuse(call, 8, f"gRPC message exceeds maximum size {call.limit}: {length}")
        elif n - at - 5 < length:
            break
        else:
            message = PyBytes_FromStringAndSize(<const char *>p + at + 5, <Py_ssize_t>length)
            at += 5 + <size_t>length
            if p[at - length - 5]:
                message = unpacked(s, call, message)
            if message is not None:
                s.events.append(make_tuple(MessageArrived, (call.stream, message)))
    return at


cdef bytes unpacked(Http2Session s, HttpCall call, bytes message):
    """Return a compressed message as it was; None: the call is refused. Words of protocol/grpc/framing.py."""
    cdef bytes plain
    cdef int64_t most = min(call.limit, MOST_UNPACKED)
    cdef str encoding = call.headers.get("grpc-encoding", "identity")
    if encoding == "identity":
        s.refuse(call, 13, "Can't decode compressed gRPC message as compression not configured")
        return None
    if encoding != "gzip":
        s.refuse(call, 12, f"Can't find decompressor for {encoding[:64]}")
        return None
    reader = zlib.decompressobj(31)
    try:
        plain = reader.decompress(message, most + 1)
    except zlib.error as fault:
        s.refuse(call, 13, f"a message marked gzip cannot be unpacked: {fault}")
        return None
    if len(plain) > most:
        s.refuse(call, 8, f"Decompressed gRPC message exceeds maximum size {most}")
        return None
    if not reader.eof or reader.unused_data:
        s.refuse(call, 13, "a message marked gzip is cut off, or has more behind its end")
        return None
    return plain


cdef int stream_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *user) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    try:
        call = s.calls.pop(stream, None)
        s.last = None
        if s.borrowed is call:
            s.borrowed = None
        if s.resets:
            s.resets -= 1
        if call is None:
            return 0
        s.drop_message(call)
        s.unsent_bytes -= <int64_t>(call.out.used - call.out.first)
        call.out.first = call.out.used
        if call.grant is not None:
            call_is_over(s, call)
        if not call.is_ended and call.headers is not None:
            call.is_ended = True
            if not call.is_hot:  # else nobody has heard of it
                s.events.append(make_tuple(CallReset, (stream, code)))
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef ssize_t read_answer(
    nghttp2_session *session, int32_t stream, uint8_t *buf, size_t length, uint32_t *flags,
    nghttp2_data_source *source, void *user
) noexcept:
    """Hand out bytes of an answer; behind the last ones the trailers."""
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call = <HttpCall>source.ptr
    cdef size_t n = min(length, call.out.used - call.out.first)
    cdef nghttp2_nv fields[2]
    try:
        if n == 0 and not call.is_finishing:
            call.is_deferred = True
            return NGHTTP2_ERR_DEFERRED
        if n:
            memcpy(buf, call.out.at + call.out.first, n)
        call.out.first += n
        s.unsent_bytes -= <int64_t>n
        s.idle = 0
        if call.out.first == call.out.used:
            free(call.out.at)
            call.out.at = NULL
            call.out.first = call.out.used = call.out.room = 0
            if call.handed is not None:
                call_is_taken(s, call)
            if call.is_finishing:
                flags[0] |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM
                status = b"%d" % call.status if call.status else b"0"
                check(nghttp2_submit_trailer(session, stream, fields, status_fields(fields, status, call.text)))
                call.is_ended = True
    except BaseException as fault:
        return failed(s, fault)
    return <ssize_t>n


cdef int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) noexcept:
    cdef Http2Session s = <Http2Session>user
    cdef HttpCall call
    try:
        if frame.hd.type == NGHTTP2_GOAWAY and frame.goaway.error_code:
            if s.reason is None:
                text = frame.goaway.opaque_data[:frame.goaway.opaque_data_len] if frame.goaway.opaque_data_len else b""
                s.reason = text.decode("ascii", "replace") or f"the peer broke the protocol, error {frame.goaway.error_code}"
        elif frame.hd.type == NGHTTP2_HEADERS and frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
            call = s.calls.get(frame.hd.stream_id)
            if call is not None and not call.is_half_closed:  # nobody reads what it would still send
                check(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, call.stream, ErrorCode.NO_ERROR))
    except BaseException as fault:
        return failed(s, fault)
    return 0


cdef int prepare() except -1:
    global callbacks, options
    if nghttp2_session_callbacks_new(&callbacks) or nghttp2_option_new(&options):
        raise MemoryError("no memory for HTTP/2")
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, frame_begun)
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, headers_begun)
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header_came)
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came)
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came)
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed)
    nghttp2_option_set_no_closed_streams(options, 1)  # they serve priorities, which gRPC has not
    nghttp2_option_set_max_outbound_ack(options, 1 << 20)  # `Http2Limits.idle_frames` is what counts
    nghttp2_option_set_stream_reset_rate_limit(options, 1 << 40, 1 << 40)  # we count without a clock, as the twin does
    return 0


prepare()
