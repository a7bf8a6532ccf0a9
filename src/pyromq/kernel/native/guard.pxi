# The guard: stands before all feeds where requests must be signed. Who sent a frame and whether he may is looked at here,
# without a call of Python's where both are known: the signature is checked against the user's prepared keys, and the
# verdict on what the frame names was given before. Whatever is odd, wrong or not known goes to Python, which refuses.

cdef enum:
    SIGNATURE_CHARS = 28      # the digest in Base64
    MOST_NAMED = 2            # fields of a request that name what a verdict on it is about
    MOST_GUARDED = 12         # codes
    BATCH_OF_ACKS = 200151    # names groups and topics in its body
    END_OF_HALF = 37          # is about the topic of a half message, which only the log says

# A code that feeds take, and the fields that the verdict on a request depends on.
cdef struct Guarded:
    int64_t code
    int names
    Text name[MOST_NAMED]


cdef class AccessGuard:
    """One listener's. `host` is the broker's side of it: `kernel/guard.py` says what it must have. `feed`: of whole frames
    that may pass; `sends` is the one among them that minds the order of sends."""

    cdef object host, inner
    cdef SendFeed sends
    cdef tuple kept                       # the bytes that the texts below point into
    cdef Guarded codes[MOST_GUARDED]
    cdef int guarded
    cdef int64_t max_frame, max_header
    cdef KnownUsers users                 # by name, and then by address and whether a certificate says who he is
    cdef Buffer scratch, key
    cdef BatchEntry batch[MOST_BATCHED]
    cdef bint left_send, left_any, drain  # of this buffer
    cdef bint is_split                    # another user's frames follow: quotas count each user's by themselves

    def __init__(self, host, SendFeed sends not None, feed, dict codes not None, int64_t frame_bytes, int64_t header_bytes):
        """`codes`: by code, the names of the fields that the verdict on a request depends on."""
        cdef Guarded *one
        if len(codes) > MOST_GUARDED:
            raise ValueError("more codes than this kernel knows")
        self.host, self.sends, self.inner, self.users = host, sends, feed, KnownUsers()
        self.max_frame, self.max_header = frame_bytes, header_bytes
        self.kept = tuple([name for names in codes.values() for name in names])
        for code, names in codes.items():
            one = &self.codes[self.guarded]
            one.code, one.names = code, len(names)
            if len(names) > MOST_NAMED:
                raise ValueError(f"code {code} names more than this kernel knows")
            for i, name in enumerate(names):
                one.name[i] = text_of(name)
            self.guarded += 1

    def __dealloc__(self):
        free(self.scratch.at)
        free(self.key.at)

    def revoke(self, bytes name):
        """Take back what is known of a user: he, his secrets or what he may have changed."""
        self.users.revoke(name)

    def revoke_all(self):
        self.users.revoke_all()

    # --- frames ---------------------------------------------------------------------------------------------------

    def feed(self, connection, received):
        """`kernel/seam.py` has the contract."""
        cdef Py_buffer view
        PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
        try:
            return self.take(connection, received, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t frame_end(self, const uint8_t *p, Py_ssize_t at, Py_ssize_t n) noexcept:
        """Behind the whole frame at `at`; -1 if there is none, or its lengths are wrong."""
        cdef uint32_t total, header
        if n - at < 8:
            return -1
        total, header = get32(p + at), get32(p + at + 4) & 0xFFFFFF
        if total > self.max_frame or header > self.max_header or total < 4 + header or n - at - 4 < total:
            return -1
        return at + 4 + <Py_ssize_t>total

    cdef take(self, connection, received, const uint8_t *p, Py_ssize_t n):
        cdef Py_ssize_t at = 0, end, first
        cdef list left = [], ready = [], waiting = []
        cdef bint done = False
        cdef Notes notes = self.sends.notes_of(connection)
        self.left_send = self.left_any = self.drain = False
        while True:
            first, at = at, self.behind_passing(connection, notes, p, at, n)
            end = self.frame_end(p, at, n)
            if end < 0 and first == 0:
                return self.inner(connection, received) if at else NOTHING   # all of it passes, as nearly always
            if at > first:
                piece = received[first:at]
                fed = as_fed(self.inner(connection, piece), piece)
                done = done or fed.used > 0
                if fed.ready:
                    ready.append(fed.ready)
                waiting.extend(fed.waiting)
                left.extend(fed.frames)
                self.drain = self.drain or fed.drain
                first += fed.used
                if fed.frames or first < at:   # there may be sends among them
                    self.left_send = self.left_any = True
                while first < at:
                    left.append(received[first:self.frame_end(p, first, n)])
                    first = self.frame_end(p, first, n)
            if end < 0:
                break
            if self.is_split:
                continue
            self.left_any = True
            self.left_send = self.left_send or is_send(p + at)
            left.append(received[at:end])
            at = end
        notes.all_left = notes.all_left or self.left_send
        if not done:
            return DRAIN if self.drain else NOTHING
        return Fed(at, b"".join(ready), waiting, left, self.drain)

    cdef Py_ssize_t behind_passing(self, connection, Notes notes, const uint8_t *p, Py_ssize_t at, Py_ssize_t n) except -1:
        """Behind the last of the frames from `at` on that pass. None overtakes one that was left, as the feeds mind it."""
        cdef Py_ssize_t end, first = at
        self.is_split = False
        while True:
            end = self.frame_end(p, at, n)
            if end < 0:
                return at
            if self.left_any:
                if self.left_send and is_send(p + at):
                    self.drain = True
                    return at
                if is_pull(p + at):
                    return at
            if not self.passes(connection, notes, p + at, end - at, at == first):
                return at
            at = end

    cdef bint passes(self, connection, Notes notes, const uint8_t *p, Py_ssize_t size, bint is_first) except -1:
        """Whether who sent a whole frame is known, and may send it. False: Python looks, and says what is wrong."""
        cdef Header h
        cdef SignedFields fields
        cdef uint32_t word = get32(p + 4)
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        cdef const Guarded *guarded
        cdef KnownUser identity
        cdef Text topic
        cdef bytes key
        fields.count = 0
        if not read_header(<int>(word >> 24), p + 8, n, &h, SIGNED, &fields):
            return False
        guarded = self.guarded_of(h.code)
        if guarded == NULL:
            return False
        identity = self.signer(connection, notes, &fields, p + 8 + n, size - 8 - n)
        if identity is None:
            return False
        topic.at, topic.n = NULL, 0
        if guarded.code == END_OF_HALF and not self.find_ended(p, size, &topic):
            return False
        key = self.key_of(guarded, &fields, p + 8 + n, size - 8 - n, topic)
        if key is None:
            return False
        if key not in identity.allowed:
            frame = PyBytes_FromStringAndSize(<const char *>p, size)
            if not self.host.allows(connection, identity.name, identity.secrets == 0, frame, bytes_of(topic)):
                return False
            identity.allow(key)
        if notes.identity is not identity:
            self.is_split = not is_first and self.sends.allowances is not None and self.sends.allowances.is_on
            if self.is_split:
                return False   # it comes again as the first
            self.host.passed(connection, identity.name, identity.secrets == 0)
            notes.identity = identity
        return True

    cdef const Guarded *guarded_of(self, int64_t code) noexcept:
        cdef int i
        for i in range(self.guarded):
            if self.codes[i].code == code:
                return &self.codes[i]
        return NULL

    # --- who ------------------------------------------------------------------------------------------------------

    cdef KnownUser signer(self, connection, Notes notes, SignedFields *fields, const uint8_t *body, Py_ssize_t size):
        """Who has signed it, or whose certificate the connection shows; None: nobody that is known here."""
        cdef const Text *name = NULL
        cdef const Text *signature = NULL
        cdef KnownUser identity
        cdef int order[MOST_SIGNED]
        cdef int i
        if not sort_fields(fields, order):
            return None
        for i in range(fields.count):
            if same(fields.field[i].name, b"AccessKey", 9):
                if fields.field[i].escaped or fields.field[i].wide:
                    return None
                name = &fields.field[i].value
            elif same(fields.field[i].name, b"Signature", 9):
                signature = &fields.field[i].value
        if name == NULL and signature == NULL:
            shown = connection.identity
            return None if shown is None else self.identity_of(notes, (<str>shown).encode(), True)
        if name == NULL or signature == NULL or signature.n != SIGNATURE_CHARS:
            return None
        identity = notes.identity
        if identity is None or identity.is_void or not identity.secrets or not is_text_of(identity.name, name[0]):
            identity = self.identity_of(notes, bytes_of(name[0]), False)
            if identity is None:
                return None
        return identity if self.is_signed(identity, fields, order, signature.at, body, size) else None

    cdef KnownUser identity_of(self, Notes notes, bytes name, bint by_certificate):
        place = (notes.source, by_certificate)
        cdef KnownUser identity = self.users.find(name, place)
        if identity is None:
            secrets = self.host.secrets_of(name)
            if secrets is not None:
                identity = self.users.add(name, place, () if by_certificate else secrets)
        return identity

    cdef bint is_signed(
        self, KnownUser identity, SignedFields *fields, const int *order, const uint8_t *given, const uint8_t *body, Py_ssize_t size
    ) except -1:
        """Whether one of his secrets has signed it: the values of all fields but the signature, then the body."""
        cdef sha1_state state[MOST_SECRETS]
        cdef uint8_t digest[SHA1_BYTES]
        cdef uint8_t text[SIGNATURE_CHARS]
        cdef SignedField *field
        cdef Text value
        cdef bint found = False
        cdef int i, k
        for k in range(identity.secrets):
            state[k] = identity.keys[k].inner
        for i in range(fields.count):
            field = &fields.field[order[i]]
            if same(field.name, b"Signature", 9):
                continue
            value = field.value
            if field.escaped:
                self.scratch.used = 0
                reserve(&self.scratch, <size_t>value.n)
                value.n = unescape(field.value, self.scratch.at)
                value.at = self.scratch.at
            if value.n < 0 or (field.wide and not is_utf8(value.at, value.n)):
                return False          # Python says what is signed there
            for k in range(identity.secrets):
                sha1_add(&state[k], value.at, <size_t>value.n)
        for k in range(identity.secrets):   # all of them: how long it takes says nothing about which one fits
            sha1_add(&state[k], body, <size_t>size)
            hmac_end(&identity.keys[k], &state[k], digest)
            put_base64_digest(text, digest)
            found |= is_same_in_constant_time(text, given, SIGNATURE_CHARS)
        return found

    # --- what -----------------------------------------------------------------------------------------------------

    cdef bint find_ended(self, const uint8_t *p, Py_ssize_t size, Text *topic) except -1:
        """The topic of the half message that a frame commits. False: it is none that the feed would take."""
        cdef Header h
        cdef Plain m
        cdef Found found
        cdef int64_t offset
        cdef uint32_t word = get32(p + 4)
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        if self.sends.ends is None or size != 8 + n or not read_header(<int>(word >> 24), p + 8, n, &h, ENDS):
            return False
        if not self.sends.ends.read(&h, &m, &found, &offset):
            return False
        topic[0] = m.topic
        return True

    cdef bytes key_of(self, const Guarded *guarded, SignedFields *fields, const uint8_t *body, Py_ssize_t size, Text topic):
        """All that the verdict on a request depends on, but for who sends it; None: it lacks a name, or they are odd."""
        cdef SignedField *field
        cdef int i, k, count
        cdef bint is_new
        self.key.used = 0
        reserve(&self.key, 8)
        put32(self.key.at, <uint32_t>guarded.code)
        self.key.used = 4
        for i in range(guarded.names):
            for k in range(fields.count):
                field = &fields.field[k]
                if field.name.n == guarded.name[i].n and memcmp(field.name.at, guarded.name[i].at, <size_t>field.name.n) == 0:
                    if field.escaped or field.wide or not self.add_name(field.value):
                        return None
                    break
            else:
                return None
        if guarded.code == END_OF_HALF and not self.add_name(topic):
            return None
        if guarded.code == BATCH_OF_ACKS:
            count = read_batch(body, size, self.batch)
            if count == 0:
                return None
            for i in range(count):
                is_new = i == 0 or not is_same_text(self.batch[i].group, self.batch[i - 1].group)
                if is_new or not is_same_text(self.batch[i].topic, self.batch[i - 1].topic):
                    if not self.add_name(self.batch[i].group) or not self.add_name(self.batch[i].topic):
                        return None
        return PyBytes_FromStringAndSize(<char *>self.key.at, <Py_ssize_t>self.key.used)

    cdef bint add_name(self, Text name) except -1:
        if name.n < 1 or self.key.used + <size_t>name.n > MOST_KEY:
            return False
        reserve(&self.key, <size_t>(4 + name.n))
        put32(self.key.at + self.key.used, <uint32_t>name.n)
        put_text(self.key.at + self.key.used + 4, name)
        self.key.used += <size_t>(4 + name.n)
        return True


def signature(bytes secret not None, bytes content not None):
    """What a request's signature is, if this is what is signed: for who compares it with others'."""
    cdef hmac_key key
    cdef sha1_state state
    cdef uint8_t digest[SHA1_BYTES]
    cdef uint8_t text[SIGNATURE_CHARS]
    hmac_prepare(&key, <const uint8_t *>PyBytes_AS_STRING(secret), <size_t>PyBytes_GET_SIZE(secret))
    state = key.inner
    sha1_add(&state, <const uint8_t *>PyBytes_AS_STRING(content), <size_t>PyBytes_GET_SIZE(content))
    hmac_end(&key, &state, digest)
    put_base64_digest(text, digest)
    return PyBytes_FromStringAndSize(<char *>text, SIGNATURE_CHARS)


cdef inline bint is_send(const uint8_t *p) noexcept nogil:
    """Of a whole frame, from its first bytes: certainly not, or likely."""
    cdef uint32_t word = get32(p + 4)
    return may_be_send(<int>(word >> 24), p + 8, <Py_ssize_t>(word & 0xFFFFFF))


cdef inline bint is_same_text(Text a, Text b) noexcept nogil:
    return a.n == b.n and memcmp(a.at, b.at, <size_t>a.n) == 0


cdef inline bint is_text_of(bytes name, Text text) noexcept:
    return PyBytes_GET_SIZE(name) == text.n and memcmp(PyBytes_AS_STRING(name), text.at, <size_t>text.n) == 0


cdef inline int compared(Text a, Text b) noexcept nogil:
    cdef int by_bytes = memcmp(a.at, b.at, <size_t>min(a.n, b.n))
    return by_bytes if by_bytes else <int>(a.n - b.n)


cdef bint sort_fields(const SignedFields *fields, int *order) noexcept nogil:
    """Places of the fields in the order of their names. False: twice the same, or one that old clients do not sign."""
    cdef int i, at, by
    for i in range(fields.count):
        if same(fields.field[i].name, b"_UNIQUE_KEY_QUERY", 17):
            return False
        at = i
        while at > 0:
            by = compared(fields.field[order[at - 1]].name, fields.field[i].name)
            if by == 0:
                return False
            if by < 0:
                break
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    return True


cdef void put_base64_digest(uint8_t *out, const uint8_t *digest) noexcept nogil:
    """Twenty bytes as 28 characters. By arithmetic: a table would be looked up at places that depend on the digest."""
    cdef int i, k
    cdef uint32_t word
    for i in range(0, 20, 3):
        word = <uint32_t>digest[i] << 16 | <uint32_t>digest[i + 1] << 8
        if i < 18:
            word |= digest[i + 2]
        for k in range(4):
            out[4 * (i // 3) + k] = base64_char(word >> (18 - 6 * k) & 63)
    out[SIGNATURE_CHARS - 1] = c'='


cdef inline uint8_t base64_char(uint32_t v) noexcept nogil:
    """A-Z, a-z, 0-9, + and /: each step is taken or not by a mask, not by a branch."""
    cdef int32_t c = 65 + <int32_t>v, n = <int32_t>v
    c += (25 - n) >> 31 & 6
    c -= (51 - n) >> 31 & 75
    c -= (61 - n) >> 31 & 15
    c += (62 - n) >> 31 & 3
    return <uint8_t>c
