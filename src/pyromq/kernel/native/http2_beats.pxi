# Heartbeats that say nothing new: answered here, once the proxy has taken them. `kernel/grpc_beats.py` has the seam;
# proxy/rpc/clients.py is what this agrees with.

cdef bytes LANGUAGE = b"x-mq-language"


@cython.final
cdef class HotBeats:
    """One listener's: who takes renewals, and what they are answered with."""

    cdef object take                  # `TakeRenewal`
    cdef bytes path, answer
    cdef readonly int64_t renewed     # heartbeats that were answered here

    def __init__(self, take, rules):
        self.take, self.path, self.answer = take, rules.path.encode(), rules.answer

    cdef bint offer(self, Http2Session s, HttpCall call, KnownUser caller, Text request) except -1:
        """Answer a call. False: it is no renewal, or something of it is odd, and nothing has been sent."""
        cdef Text client, language, group
        cdef int64_t timeout_ms, kind
        if not call.headers.find_only(CLIENT, &client) or not call.headers.find_only(LANGUAGE, &language):
            return False
        if call.headers.find(TIMEOUT, &group) and not (
            call.headers.find_only(TIMEOUT, &group) and read_timeout(group, &timeout_ms)
        ):
            return False
        if not read_beat(request, &group, &kind) or not s.hot.may(s, caller, HOT_BEAT, group, literal(NULL, 0), kind):
            return False
        if not self.take(latin(client), latin(language), s.peer.address, latin(group)):
            return False
        s.drop_message(call)
        s.hot_calls += 1
        self.renewed += 1
        s.add(call, <const uint8_t *>PyBytes_AS_STRING(self.answer), PyBytes_GET_SIZE(self.answer))
        call.status, call.text, call.is_finishing = 0, None, True
        s.submit_start(call)
        return True


cdef inline str latin(Text t):
    return PyUnicode_DecodeLatin1(<const char *>t.at, t.n, NULL)


cdef bint read_beat(Text request, Text *group, int64_t *kind) noexcept nogil:
    """A HeartbeatRequest: its group's name, which may be empty, and the type that the client says it has."""
    cdef const uint8_t *at = request.at
    cdef const uint8_t *end = request.at + request.n
    cdef Field f
    cdef bint has_group = False
    group[0] = literal(NULL, 0)
    kind[0] = 0
    while at < end:
        if not take_field(&at, end, &f):
            return False
        if f.number == 1 and f.kind == 2 and not has_group:
            has_group = True
            if not read_name(f.text, group):
                return False
        elif f.number == 2 and f.kind == 0 and f.value <= INT32_MAX:
            kind[0] = <int64_t>f.value
        else:
            return False
    return group.n == 0 or is_printable(group[0])
