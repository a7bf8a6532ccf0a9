# The session: what Python calls. What nghttp2 calls is in http2_callbacks.pxi.

cdef enum:
    SHOWN_TEXT = 1024         # bytes of an error's text that go into the trailers
    KEPT_ROOM = 1 << 20       # of the shared output buffer, between two calls
    MOST_UNPACKED = 16 << 20  # bytes of a compressed message, whatever its method allows

cdef Buffer shared_output     # filled and emptied within one call of Python's: the event loop's thread only

cdef object limits_read       # of the session that was made last
cdef list large_read

cdef nghttp2_session_callbacks *callbacks
cdef nghttp2_option *options


cdef inline nghttp2_nv fixed(const char *name, size_t name_n, const char *value, size_t value_n) noexcept:
    cdef nghttp2_nv made
    made.name, made.namelen = <uint8_t *>name, name_n
    made.value, made.valuelen = <uint8_t *>value, value_n
    made.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
    return made


cdef nghttp2_nv STATUS_200 = fixed(b":status", 7, b"200", 3)
cdef nghttp2_nv CONTENT_TYPE = fixed(b"content-type", 12, b"application/grpc", 16)
cdef nghttp2_nv IDENTITY = fixed(b"grpc-encoding", 13, b"identity", 8)
cdef nghttp2_nv ACCEPTED = fixed(b"grpc-accept-encoding", 20, b"gzip", 4)
cdef nghttp2_nv OK_STATUS = fixed(b"grpc-status", 11, b"0", 1)


cdef bytes percent_encoded(str text):
    """Return a text as `grpc-message` has it: what is not printable ASCII as %XX of its UTF-8."""
    cdef bytes raw = text.encode("utf-8", "replace")[:SHOWN_TEXT]
    return b"".join([bytes((one,)) if 32 <= one <= 126 and one != 37 else b"%%%02X" % one for one in raw])


cdef list large_of(limits):
    """Return which methods take larger messages than others: read anew only where the limits are others."""
    global limits_read, large_read
    if limits is not limits_read:
        limits_read, large_read = limits, [(path.encode(), int(most)) for path, most in limits.large.items()]
    return large_read


cdef bint check(int outcome) except False:
    if outcome == NGHTTP2_ERR_NOMEM:
        raise MemoryError("no memory for an answer of HTTP/2")
    if outcome < 0:
        raise ValueError(f"nghttp2: {nghttp2_strerror(outcome).decode()}")
    return True


@cython.final
cdef class Http2Session:
    """One connection, server side. Its twin is `transport/http2/session.py`; `kernel/http2.py` has events and limits."""

    cdef nghttp2_session *session
    cdef readonly object limits
    cdef int64_t message_bytes, pending_limit, output_limit, header_limit
    cdef int64_t most_resets, most_idle
    cdef list large                   # path and bytes of a message: one list for all sessions of a server
    cdef dict calls                   # HttpCall by stream
    cdef HttpCall last                # the one that the frame before was for
    cdef list events
    cdef object fault                 # raised in one of nghttp2's calls
    cdef str reason                   # why the connection ends
    cdef bint is_over
    cdef bytes made                   # output that nobody has taken yet
    cdef int64_t pending              # bytes of unfinished messages
    cdef readonly int64_t unsent_bytes
    cdef HotSends hot
    cdef bint is_leaving              # a GOAWAY was sent: Python decides on what still comes
    cdef object peer                  # the connection, as the broker's feed knows it
    cdef str source                   # its machine; None: not asked yet
    cdef KnownUser caller             # who has signed its last hot call
    cdef bytes signed, signed_date    # how he did: its headers
    cdef bytes remote
    cdef HttpCall borrowed            # its message lies in the received bytes, and its frame is not whole yet
    cdef list parked                  # answers that wait for the log
    cdef dict left                    # receives that ended before their answer came: the verdict by stream
    cdef readonly int64_t hot_calls   # served without Python
    cdef int64_t resets, idle
    cdef Place *place                 # of nghttp2's memory; NULL: it is malloc's
    cdef uint8_t *kept                # what lay there, packed, while the session rests
    cdef uint32_t kept_n, used        # the sweep in which it was used last
    cdef int busy                     # calls of nghttp2 or of the broker that are not over
    cdef void *before                 # of those that are awake
    cdef void *after

    def __init__(self, limits=None):
        global is_being_made
        cdef nghttp2_settings_entry entries[3]
        cdef nghttp2_mem memory
        cdef int outcome
        if self.session != NULL:
            raise RuntimeError("a session is made once")
        limits = Http2Limits() if limits is None else limits
        self.limits = limits
        self.message_bytes, self.pending_limit = limits.message_bytes, limits.pending_bytes
        self.output_limit, self.header_limit = limits.output_bytes, limits.header_bytes
        self.most_resets, self.most_idle = limits.resets, limits.idle_frames
        self.large = large_of(limits)
        self.calls, self.events, self.made = {}, [], b""
        self.place = take_place()
        memory = memory_in(self.place)
        is_being_made = True
        outcome = nghttp2_session_server_new3(&self.session, callbacks, <void *>self, options, &memory)
        is_being_made = False
        if outcome:
            raise MemoryError("no memory for a connection of HTTP/2")
        self.join_awake()
        self.touch()
        entries[0].settings_id, entries[0].value = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams
        entries[1].settings_id, entries[1].value = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.window
        entries[2].settings_id, entries[2].value = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.header_bytes
        check(nghttp2_submit_settings(self.session, NGHTTP2_FLAG_NONE, entries, 3))
        check(nghttp2_session_set_local_window_size(self.session, NGHTTP2_FLAG_NONE, 0, limits.window))

    def __dealloc__(self):
        if self.kept != NULL:
            self.wake()
        nghttp2_session_del(self.session)
        if self.place != NULL:
            self.leave_awake()
            leave_place(self.place)

    def receive(self, data):
        """Take bytes of the peer; return what they mean, in order."""
        cdef Py_buffer view
        cdef ssize_t used
        cdef list told
        if not self.is_over:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            self.touch()
            if self.hot is not None:
                self.hot.forget_time()
            self.busy += 1
            try:
                used = nghttp2_session_mem_recv(self.session, <const uint8_t *>view.buf, <size_t>view.len)
                if self.borrowed is not None:
                    keep_request(self, self.borrowed)  # its frame is not whole yet: padding, or more of it, follows
                if self.hot is not None and self.hot.burst.used:
                    feed_hot(self)
            finally:
                self.busy -= 1
                PyBuffer_Release(&view)
            self.raise_fault()
            if used < 0 and self.reason is None:
                self.reason = nghttp2_strerror(<int>used).decode()
                nghttp2_session_terminate_session(self.session, ErrorCode.PROTOCOL_ERROR)
            self.pump()
        told, self.events = self.events, []
        return told

    def serve_hot(self, HotSends hot not None, peer, str remote not None):
        """Serve plain calls without Python from now on. `remote` is the client's address."""
        self.hot, self.peer, self.remote = hot, peer, remote.encode("ascii", "replace")

    def take_parked(self):
        """Return positions of the log, each with answers that may leave when it is readable up to there."""
        parked, self.parked = self.parked, None
        return () if parked is None else parked

    def lose(self):
        """Give back what calls have been handed and their client has not read: the connection is gone."""
        cdef HttpCall call
        self.is_over = True
        if self.hot is not None and self.hot.pops is not None and self.peer is not None:
            for call in self.calls.values():
                call_is_over(self, call)
                call.is_ended = True
            self.hot.pops.host.gone(self.peer)
            self.peer = None

    def answer_parked(self, bytes answers):
        """Send answers that were parked, or what is said in their place."""
        if self.hot is not None:
            self.touch()
            send_answers(self, <const uint8_t *>PyBytes_AS_STRING(answers), PyBytes_GET_SIZE(answers))

    def start(self, int32_t stream):
        """Send the headers of an answer; messages follow."""
        cdef HttpCall call = self.open_call(stream)
        if call is not None and not call.is_started:
            self.submit_start(call)

    def send(self, int32_t stream, message):
        """Send a message of an answer, behind its headers, which are sent if they were not yet."""
        cdef HttpCall call = self.open_call(stream)
        cdef Py_buffer view
        if call is None or call.is_finishing:
            return
        PyObject_GetBuffer(message, &view, PyBUF_SIMPLE)
        try:
            self.add(call, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        if not call.is_started:
            self.submit_start(call)
        else:
            self.resume(call)

    def finish(self, int32_t stream, int status, str text=""):
        """End a call with this status, behind all of its messages."""
        cdef HttpCall call = self.open_call(stream)
        if call is not None and not call.is_finishing:
            self.end(call, status, percent_encoded(text) if text else None)

    def reset(self, int32_t stream, uint32_t code):
        """Give a call up at once; nothing more is told of it."""
        cdef HttpCall call = self.open_call(stream)
        if call is not None:
            call.is_ended = True
            check(nghttp2_submit_rst_stream(self.session, NGHTTP2_FLAG_NONE, stream, code))

    def unsent(self, int32_t stream):
        """Return how many bytes of its messages wait for the peer's windows; a few may wait to be taken only."""
        cdef HttpCall call = self.calls.get(stream)
        if call is None:
            return 0
        if call.out.used - call.out.first > FRAME_BYTES and not self.is_over and self.kept == NULL:
            self.pump()
        return <int64_t>(call.out.used - call.out.first)

    def goaway(self):
        """Say that no new calls are taken; those that are open go on."""
        if not self.is_over:
            self.touch()
            self.is_leaving = True
            check(nghttp2_submit_goaway(
                self.session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(self.session), 0, NULL, 0
            ))

    def take_output(self):
        """Return all bytes that may be sent now."""
        cdef bytes made
        if not self.is_over and self.kept == NULL:  # one that rests has nothing to say
            self.pump()
        made, self.made = self.made, b""
        return made

    @property
    def is_closed(self):
        """Return whether the connection has come to its end; the last event says why."""
        return self.is_over

    @property
    def pending_bytes(self):
        """Return how many bytes are kept of messages that are not whole yet."""
        return self.pending

    @property
    def is_resting(self):
        """Return whether nghttp2's memory is packed, until the session is used again."""
        return self.kept != NULL

    @property
    def resting_bytes(self):
        """Return what nghttp2's memory takes while the session rests; 0: it does not."""
        return self.kept_n if self.kept != NULL else 0

    @property
    def open_calls(self):
        """Return how many calls are open."""
        return len(self.calls)

    # --- inside -------------------------------------------------------------------------------------------------------

    cdef HttpCall open_call(self, int32_t stream):
        cdef HttpCall call = self.calls.get(stream)
        if call is None or call.is_ended or self.is_over:
            return None
        self.touch()
        return call

    cdef int add(self, HttpCall call, const uint8_t *message, Py_ssize_t n) except -1:
        cdef uint8_t prefix[5]
        if n > INT32_MAX:
            raise ValueError("a message of more than 2 GB")
        prefix[0] = 0
        put32(prefix + 1, <uint32_t>n)
        pile(&call.out, prefix, 5)
        self.unsent_bytes += 5
        return self.add_ready(call, message, <size_t>n)

    cdef int add_ready(self, HttpCall call, const uint8_t *framed, size_t n) except -1:
        """Add messages that have their five bytes each."""
        pile(&call.out, framed, n)
        self.unsent_bytes += <int64_t>n
        if self.unsent_bytes > self.output_limit:
            self.give_up(f"more than {self.output_limit} bytes wait for the peer's windows")
        return 0

    cdef void drop_answer(self, HttpCall call) noexcept:
        """Forget what was added to an answer that has not begun."""
        self.unsent_bytes -= <int64_t>(call.out.used - call.out.first)
        call.out.first = call.out.used = 0

    cdef int submit_start(self, HttpCall call) except -1:
        cdef nghttp2_nv fields[4]
        cdef nghttp2_data_provider source
        fields[0], fields[1], fields[2], fields[3] = STATUS_200, CONTENT_TYPE, IDENTITY, ACCEPTED
        source.source.ptr, source.read_callback = <void *>call, read_answer
        check(nghttp2_submit_response(self.session, call.stream, fields, 4, &source))
        call.is_started = True
        return 0

    cdef int resume(self, HttpCall call) except -1:
        if call.is_deferred:
            call.is_deferred = False
            check(nghttp2_session_resume_data(self.session, call.stream))
        return 0

    cdef int end(self, HttpCall call, int status, bytes text) except -1:
        """`text` is percent-encoded."""
        cdef nghttp2_nv fields[4]
        call.status, call.text, call.is_finishing = status, text, True
        if call.is_started:
            self.resume(call)
            return 0
        fields[0], fields[1] = STATUS_200, CONTENT_TYPE
        status_text = b"%d" % status
        check(nghttp2_submit_response(
            self.session, call.stream, fields, 2 + status_fields(fields + 2, status_text, text), NULL
        ))
        call.is_started = call.is_ended = True
        return 0

    cdef int refuse(self, HttpCall call, int status, str text) except -1:
        """Answer a call that cannot go on, and tell that it is over."""
        self.drop_message(call)
        if not call.is_finishing:
            self.end(call, status, percent_encoded(text))
        call.is_ended = True
        self.events.append(make_tuple(CallReset, (call.stream, ErrorCode.NO_ERROR)))
        return 0

    cdef int give_up(self, str reason) except -1:
        """End the connection: the peer asks for more than anybody gets."""
        if self.reason is None:
            self.reason = reason
            check(nghttp2_session_terminate_session(self.session, ErrorCode.ENHANCE_YOUR_CALM))
        return 0

    cdef void drop_message(self, HttpCall call) noexcept:
        self.pending -= <int64_t>(call.came.used - call.came.first)
        free(call.came.at)
        call.came.at = NULL
        call.came.first = call.came.used = call.came.room = 0

    cdef int pump(self) except -1:
        """Move what may be sent to `made`."""
        cdef const uint8_t *data
        cdef ssize_t n
        cdef Buffer *out = &shared_output
        if self.reason is None and not nghttp2_session_want_write(self.session):
            return 0
        out.used = 0
        self.busy += 1
        while True:
            n = nghttp2_session_mem_send(self.session, &data)
            if n <= 0:
                break
            self.is_over = True  # without memory for a frame that nghttp2 has made, nothing can follow
            reserve(out, <size_t>n)
            self.is_over = False
            memcpy(out.at + out.used, data, <size_t>n)
            out.used += <size_t>n
        self.busy -= 1
        self.raise_fault()
        if n < 0 and self.reason is None:
            self.reason = nghttp2_strerror(<int>n).decode()
        if out.used:
            made = PyBytes_FromStringAndSize(<char *>out.at, <Py_ssize_t>out.used)
            self.made = self.made + made if self.made else made
        if out.room > KEPT_ROOM:
            free(out.at)
            out.at, out.room = NULL, 0
        out.used = 0
        if self.reason is not None:
            self.is_over = True
            self.events.append(make_tuple(SessionClosed, (self.reason,)))
        return 0

    # --- rest ---------------------------------------------------------------------------------------------------------

    cdef inline void touch(self) noexcept:
        """Be there, with all that nghttp2 keeps, and count as used."""
        self.used = sweep
        if self.kept != NULL:
            self.wake()

    cdef void wake(self) noexcept:
        unpack(self.place, self.kept)
        free(self.kept)
        self.kept = NULL
        self.join_awake()

    cdef bint rest(self) noexcept:
        """Give the pages of nghttp2's memory back. False: something is under way, or there is no memory to do so."""
        if self.busy or self.is_over or nghttp2_session_want_write(self.session):
            return False
        self.kept = pack_away(self.place, &self.kept_n)
        if self.kept == NULL:
            return False
        self.leave_awake()
        return True

    cdef void join_awake(self) noexcept:
        global first_awake
        if self.place == NULL:
            return
        self.before, self.after = NULL, first_awake
        if first_awake != NULL:
            (<Http2Session>first_awake).before = <void *>self
        first_awake = <void *>self

    cdef void leave_awake(self) noexcept:
        global first_awake
        if self.after != NULL:
            (<Http2Session>self.after).before = self.before
        if self.before != NULL:
            (<Http2Session>self.before).after = self.after
        elif first_awake == <void *>self:
            first_awake = self.after
        self.before = self.after = NULL

    cdef int raise_fault(self) except -1:
        """Raise what went wrong in a call of nghttp2's: memory, or a fault of ours. The connection is lost."""
        if self.fault is not None:
            fault, self.fault, self.is_over = self.fault, None, True
            raise fault
        return 0


cdef size_t status_fields(nghttp2_nv *fields, bytes status, bytes text) noexcept:
    """Fill in `grpc-status` and, if there is a text, `grpc-message`; nghttp2 copies both. Return how many."""
    if status == b"0":
        fields[0] = OK_STATUS
    else:
        fields[0] = fixed(b"grpc-status", 11, PyBytes_AS_STRING(status), <size_t>PyBytes_GET_SIZE(status))
        fields[0].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME
    if text is None:
        return 1
    fields[1] = fixed(b"grpc-message", 12, PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))
    fields[1].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME
    return 2
