# Who makes a hot call, and whether he may: the date of the call is signed with one of his secrets, and the verdict on what it
# names was given before. `kernel/grpc_guard.py` has the seam; access/gate.py and access/signatures.py are what this agrees
# with. A call that this is not sure of is told to Python, whose gate refuses it or lets it pass.

cdef enum:
    DATE_CHARS = 16           # 20250131T235959Z
    MOST_DATE = 64            # where any text may be signed
    MOST_CALL_NAME = 255      # of a user, a group or a topic

cdef bytes AUTHORIZATION = b"authorization", DATE = b"x-mq-date-time"
cdef tuple CALLS = (None, "SendMessage", "ReceiveMessage", "AckMessage", "ChangeInvisibleDuration", "Heartbeat")


@cython.final
cdef class CallGuard:
    """That of all listeners. `most_off_ms`: how far a call's date may be off; 0: by any time, in any form."""

    cdef object host
    cdef KnownUsers users             # by name, and then by address
    cdef int64_t most_off_ms
    cdef int64_t now                  # of what is received at a time; 0: not asked yet
    cdef Buffer key
    cdef readonly int64_t asked       # verdicts of the broker

    def __init__(self, host, int64_t most_off_ms):
        self.host, self.most_off_ms, self.users = host, most_off_ms, KnownUsers()

    def __dealloc__(self):
        free(self.key.at)

    def revoke(self, bytes name not None):
        """Take back what is known of a user: he, his secrets or what he may have changed."""
        self.users.revoke(name)

    cdef KnownUser caller(self, Http2Session s, Headers headers):
        """Who has signed a call; None: nobody that is known here."""
        cdef Text said, date, name, nothing
        cdef uint8_t given[SHA1_BYTES]
        cdef KnownUser user = s.caller
        if not headers.find_only(AUTHORIZATION, &said) or not headers.find_only(DATE, &date):
            return None
        if not self.is_in_time(date):
            return None
        if user is not None and not user.is_void and is_as_before(s.signed, said) and is_as_before(s.signed_date, date):
            return user   # all that a call signs is its date: a client's calls of one second are signed alike
        if not read_call_signature(said, &name, given):
            return None
        if user is None or user.is_void or not is_whole_text(user.name, name):
            user = self.user_of(s, raw_bytes(name))
            if user is None:
                return None
        nothing.at, nothing.n = NULL, 0
        if not user.has_signed(date, nothing, given):
            return None
        s.caller, s.signed, s.signed_date = user, raw_bytes(said), raw_bytes(date)
        return user

    cdef KnownUser user_of(self, Http2Session s, bytes name):
        cdef KnownUser user
        if s.source is None:
            s.source = self.host.source_of(s.peer.address)
        user = self.users.find(name, s.source)
        if user is None:
            secrets = self.host.secrets_of(name)
            if secrets is not None:
                user = self.users.add(name, s.source, secrets)
        return user

    cdef bint is_in_time(self, Text date) except -1:
        cdef int64_t signed_ms
        if not self.most_off_ms:
            return date.n <= MOST_DATE and is_printable(date)
        if not read_call_date(date, &signed_ms):
            return False
        if not self.now:
            self.now = self.host.now_ms()
        return -self.most_off_ms <= self.now - signed_ms <= self.most_off_ms

    cdef bint allows(self, Http2Session s, KnownUser user, int method, Text group, Text topic, int64_t kind) except -1:
        """Whether he may make this call about a group and a topic, of which it may lack one. `kind`: of the client."""
        cdef uint8_t *r
        cdef bytes key
        if user.is_void or not is_call_name(group) or not is_call_name(topic):
            return False
        reserve(&self.key, 16 + 2 * MOST_CALL_NAME)
        r = self.key.at
        r[0], r[1] = <uint8_t>method, <uint8_t>group.n
        put32(r + 2, <uint32_t>kind)
        r = put_raw(put_raw(r + 6, group), topic)
        if user.may(method, self.key.at, r - self.key.at):
            return True
        key = PyBytes_FromStringAndSize(<char *>self.key.at, r - self.key.at)
        self.asked += 1
        if not self.host.allows(
            user.name, s.peer.address, CALLS[method], raw_bytes(group).decode("ascii"), raw_bytes(topic).decode("ascii"), kind
        ):
            return False
        user.allow(key)
        return True


cdef inline bint is_whole_text(bytes whole, Text t) noexcept:
    return PyBytes_GET_SIZE(whole) == t.n and memcmp(PyBytes_AS_STRING(whole), t.at, <size_t>t.n) == 0


cdef bint is_as_before(bytes before, Text now) noexcept:
    """Whether this header is what was right before. How long it takes says nothing about where it differs."""
    cdef const uint8_t *p
    cdef uint8_t different = 0
    cdef Py_ssize_t i
    if before is None or PyBytes_GET_SIZE(before) != now.n:
        return False
    p = <const uint8_t *>PyBytes_AS_STRING(before)
    for i in range(now.n):
        different |= p[i] ^ now.at[i]
    return different == 0


cdef inline bint is_call_name(Text t) noexcept nogil:
    """None, or one that Python reads as it is."""
    return t.n == 0 or (t.n <= MOST_CALL_NAME and is_printable(t))


cdef bint read_call_signature(Text said, Text *name, uint8_t *digest) noexcept nogil:
    """`MQv2-HMAC-SHA1 Credential=name/..., SignedHeaders=x-mq-date-time, Signature=DIGITS`. False: odd, or without one."""
    cdef const uint8_t *at
    cdef const uint8_t *end = said.at + said.n
    cdef const uint8_t *stop
    cdef const uint8_t *equal
    cdef Text key, value
    cdef bint has_digest = False
    name.at, name.n = NULL, 0
    if not is_printable(said):
        return False
    at = <const uint8_t *>memchr(said.at, c' ', <size_t>said.n)
    while at != NULL:
        at += 1
        stop = <const uint8_t *>memchr(at, c',', <size_t>(end - at))
        value.at, value.n = at, (end if stop == NULL else stop) - at
        at = stop
        while value.n and value.at[0] == c' ':
            value.at += 1
            value.n -= 1
        while value.n and value.at[value.n - 1] == c' ':
            value.n -= 1
        equal = <const uint8_t *>memchr(value.at, c'=', <size_t>value.n)
        if equal == NULL:
            return False
        key.at, key.n = value.at, equal - value.at
        value.at, value.n = equal + 1, value.n - key.n - 1
        if same(key, b"Credential", 10):
            if name.at != NULL:
                return False
            stop = <const uint8_t *>memchr(value.at, c'/', <size_t>value.n)
            name.at, name.n = value.at, value.n if stop == NULL else stop - value.at
        elif same(key, b"Signature", 9):
            if has_digest or value.n != 2 * SHA1_BYTES:
                return False
            has_digest = True
            if not read_digits(value.at, digest):
                return False
    return has_digest and 0 < name.n <= MOST_CALL_NAME


cdef bint read_digits(const uint8_t *p, uint8_t *digest) noexcept nogil:
    """Hexadecimal ones, capital or small. They are the caller's own: how long this takes tells him nothing."""
    cdef int i, k, v
    cdef uint8_t c
    for i in range(SHA1_BYTES):
        v = 0
        for k in range(2):
            c = p[2 * i + k]
            if c'0' <= c <= c'9':
                v = 16 * v + c - c'0'
            elif c'a' <= (c | 32) <= c'f':
                v = 16 * v + (c | 32) - c'a' + 10
            else:
                return False
        digest[i] = <uint8_t>v
    return True


cdef bint read_call_date(Text t, int64_t *ms) noexcept nogil:
    """`20250131T235959Z`; False for any other form, and for a day that there is not."""
    cdef int days[12]
    cdef int i, year, month, day, since
    if t.n != DATE_CHARS or t.at[8] != c'T' or t.at[15] != c'Z':
        return False
    for i in range(15):
        if i != 8 and not c'0' <= t.at[i] <= c'9':
            return False
    year, month, day = 100 * two_digits(t.at) + two_digits(t.at + 2), two_digits(t.at + 4), two_digits(t.at + 6)
    if year < 1 or not 1 <= month <= 12 or two_digits(t.at + 9) > 23 or two_digits(t.at + 11) > 59 or two_digits(t.at + 13) > 59:
        return False
    days[0], days[1], days[2], days[3], days[4], days[5] = 31, 28 + is_leap(year), 31, 30, 31, 30
    days[6], days[7], days[8], days[9], days[10], days[11] = 31, 31, 30, 31, 30, 31
    if not 1 <= day <= days[month - 1]:
        return False
    since = 365 * (year - 1) + (year - 1) // 4 - (year - 1) // 100 + (year - 1) // 400 + day - 1 - 719162  # since 1970
    for i in range(month - 1):
        since += days[i]
    ms[0] = 1000 * (
        86400 * <int64_t>since + 3600 * two_digits(t.at + 9) + 60 * two_digits(t.at + 11) + two_digits(t.at + 13)
    )
    return True


cdef inline int two_digits(const uint8_t *p) noexcept nogil:
    return 10 * (p[0] - c'0') + p[1] - c'0'


cdef inline bint is_leap(int year) noexcept nogil:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
