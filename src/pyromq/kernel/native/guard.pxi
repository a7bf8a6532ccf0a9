# The guard: stands before all feeds where requests must be signed. Who sent a frame and whether he may is looked at here,
# without a call of Python's where both are known: the signature is checked against the user's prepared keys, and the
# verdict on what the frame names was given before. Whatever is odd, wrong or not known goes to Python, which refuses.

cdef extern from "signature_text.h" nogil:
    enum: SIGNATURE_CHARS
    bint read_base64_digest(const uint8_t *text, uint8_t *digest)

cdef extern from "sha1.h" nogil:  # for who tests it
    bint sha1_use_processor(bint may)
    void sha1_of(const uint8_t *data, size_t length, uint8_t *digest)

cdef enum:
    MOST_NAMED = 2            # fields of a request that name what a verdict on it is about
    MOST_GUARDED = MOST_KINDS   # codes
    BATCH_OF_ACKS = 200151    # names groups and topics in its body
    END_OF_HALF = 37          # is about the topic of a half message, which only the log says

# A code that feeds take, and the fields that the verdict on a request depends on.
cdef struct Guarded:
    int64_t code
    int kind                  # what its feed reads it for
    int names
    Text name[MOST_NAMED]
    uint64_t first[MOST_NAMED]   # of each name, as `first_bytes` has it
    FieldOrder order          # of the fields of the last request of this code


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
    cdef HeadersAhead *ahead              # that the feeds need not read again; `scratch` has their unescaped values
    cdef bint is_split                    # another user's frames follow: quotas count each user's by themselves

    def __init__(self, host, SendFeed sends not None, feed, dict codes not None, int64_t frame_bytes, int64_t header_bytes):
        """`codes`: by code, the names of the fields that the verdict on a request depends on."""
        cdef Guarded *one
        cdef Text text
        if len(codes) > MOST_GUARDED:
            raise ValueError("more codes than this kernel knows")
        self.host, self.sends, self.inner, self.users = host, sends, feed, KnownUsers()
        self.ahead = sends.read_ahead()
        self.max_frame, self.max_header = frame_bytes, header_bytes
        self.kept = tuple([name for names in codes.values() for name in names])
        for code, names in codes.items():
            one = &self.codes[self.guarded]
            one.code, one.kind, one.names = code, kind_of(code), len(names)
            if len(names) > MOST_NAMED:
                raise ValueError(f"code {code} names more than this kernel knows")
            for i, name in enumerate(names):
                one.name[i] = text = text_of(name)
                one.first[i] = first_bytes(text, text.at + text.n)
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
            self.forget()
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

    cdef void forget(self) noexcept:
        """What was read ahead."""
        self.ahead.count = self.ahead.next = 0
        self.scratch.used = 0

    cdef take(self, connection, received, const uint8_t *p, Py_ssize_t n):
        cdef Notes notes = self.sends.notes_of(connection)
        cdef Py_ssize_t at
        self.left_send = self.left_any = self.drain = False
        at = self.behind_passing(connection, notes, p, 0, n)
        if self.frame_end(p, at, n) < 0:
            return self.inner(connection, received) if at else NOTHING   # all of it passes, as nearly always
        return self.take_parts(connection, notes, received, p, at, n)

    cdef take_parts(self, connection, Notes notes, received, const uint8_t *p, Py_ssize_t at, Py_ssize_t n):
        """A buffer of which not all passes at once. `at`: behind the first part that does."""
        cdef Py_ssize_t end, first = 0
        cdef list left = [], ready = [], waiting = []
        cdef bint done = False
        while True:
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
                    end = self.frame_end(p, first, n)
                    left.append(received[first:end])
                    first = end
            end = self.frame_end(p, at, n)
            if end < 0:
                break
            if not self.is_split:
                self.left_any = True
                self.left_send = self.left_send or is_send(p + at)
                left.append(received[at:end])
                at = end
            first, at = at, self.behind_passing(connection, notes, p, at, n)
        notes.all_left = notes.all_left or self.left_send
        if not done:
            return DRAIN if self.drain else NOTHING
        return Fed(at, b"".join(ready), waiting, left, self.drain)

    cdef Py_ssize_t behind_passing(self, connection, Notes notes, const uint8_t *p, Py_ssize_t at, Py_ssize_t n) except -1:
        """Behind the last of the frames from `at` on that pass. None overtakes one that was left, as the feeds mind it."""
        cdef Py_ssize_t end, first = at
        self.is_split = False
        self.forget()
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
        cdef Header spare
        cdef Header *h = &spare
        cdef SignedFields fields
        cdef uint32_t word = get32(p + 4)
        cdef Text body, topic
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        cdef Guarded *guarded
        cdef KnownUser identity
        cdef bint is_fit
        self.make_room(n)
        if self.ahead.count < MOST_AHEAD:
            h = &self.ahead.header[self.ahead.count]
        body.at, body.n = p + 8 + n, size - 8 - n
        if not read_header(<int>(word >> 24), p + 8, n, h, SIGNED, &fields):
            return False
        guarded = self.guarded_of(h.code)
        if guarded == NULL:
            return False
        identity = self.signer(connection, notes, guarded, &fields, body)
        if identity is None:
            return False
        is_fit = fit(h, &fields, guarded.kind)
        topic.at, topic.n = NULL, 0
        if guarded.code == END_OF_HALF and not (is_fit and body.n == 0 and self.find_ended(h, &topic)):
            return False
        if not self.make_key(guarded, &fields, body, topic):
            return False
        if not identity.may(<int>(guarded - self.codes), self.key.at, <Py_ssize_t>self.key.used):
            key = PyBytes_FromStringAndSize(<char *>self.key.at, <Py_ssize_t>self.key.used)
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
        if is_fit and h != &spare:
            self.ahead.at[self.ahead.count] = p + 8
            self.ahead.count += 1
        return True

    cdef int make_room(self, Py_ssize_t n) except -1:
        """For the values of a header of so many bytes. If they have to move, what was read ahead is read again."""
        if self.scratch.room - self.scratch.used < <size_t>n:
            self.forget()
            reserve(&self.scratch, <size_t>n)
        return 0

    cdef Guarded *guarded_of(self, int64_t code) noexcept:
        cdef int i
        for i in range(self.guarded):
            if self.codes[i].code == code:
                return &self.codes[i]
        return NULL

    # --- who ------------------------------------------------------------------------------------------------------

    cdef KnownUser signer(self, connection, Notes notes, Guarded *guarded, SignedFields *fields, Text body):
        """Who has signed it, or whose certificate the connection shows; None: nobody that is known here."""
        cdef SignedField *field
        cdef const SignedField *name = NULL
        cdef const SignedField *signature = NULL
        cdef KnownUser identity
        cdef int i
        if not sort_fields(fields, &guarded.order):
            return None
        for i in range(fields.count):
            field = &fields.field[i]
            if same(field.name, b"AccessKey", 9):
                name = field
            elif same(field.name, b"Signature", 9):
                signature = field
        if name == NULL and signature == NULL:
            shown = connection.identity
            return None if shown is None else self.identity_of(notes, (<str>shown).encode(), True)
        if name == NULL or signature == NULL or name.escaped or name.wide:
            return None
        identity = notes.identity
        if identity is None or identity.is_void or not identity.secrets or not is_text_of(identity.name, name.value):
            identity = self.identity_of(notes, bytes_of(name.value), False)
            if identity is None:
                return None
        return identity if self.is_signed(identity, fields, &guarded.order, signature, body) else None

    cdef KnownUser identity_of(self, Notes notes, bytes name, bint by_certificate):
        place = (notes.source, by_certificate)
        cdef KnownUser identity = self.users.find(name, place)
        if identity is None:
            secrets = self.host.secrets_of(name)
            if secrets is not None:
                identity = self.users.add(name, place, () if by_certificate else secrets)
        return identity

    cdef bint is_signed(
        self, KnownUser identity, SignedFields *fields, const FieldOrder *order, const SignedField *signature, Text body
    ) except -1:
        """Whether one of his secrets has signed it: the values of all fields but the signature, then the body. Values that
        were escaped are then where this has put them together."""
        cdef uint8_t given[SHA1_BYTES]
        cdef SignedField *field
        cdef Text signed
        cdef uint8_t *r = self.scratch.at + self.scratch.used
        cdef int i
        if signature.value.n != SIGNATURE_CHARS or not read_base64_digest(signature.value.at, given):
            return False
        signed.at = r
        for i in range(fields.count):
            field = &fields.field[order.place[i]]
            if field == signature:
                continue
            if field.escaped:
                field.value.n = unescape(field.value, r)
                field.value.at = r
                r += max(field.value.n, 0)
            else:
                r = put_text(r, field.value)
            if field.value.n < 0 or (field.wide and not is_utf8(field.value.at, field.value.n)):
                return False          # Python says what is signed there
        signed.n = r - signed.at
        if not identity.has_signed(signed, body, given):
            return False
        fields.is_unescaped = True
        self.scratch.used += <size_t>signed.n
        return True

    # --- what -----------------------------------------------------------------------------------------------------

    cdef bint find_ended(self, Header *h, Text *topic) except -1:
        """The topic of the half message that a frame commits. False: it is none that the feed would take."""
        cdef Plain m
        cdef Found found
        cdef int64_t offset
        if self.sends.ends is None or not self.sends.ends.read(h, &m, &found, &offset):
            return False
        topic[0] = m.topic
        return True

    cdef bint make_key(self, const Guarded *guarded, const SignedFields *fields, Text body, Text topic) except -1:
        """All that the verdict on a request depends on, but for who sends it. False: it lacks a name, or they are odd."""
        cdef int i
        self.key.used = 0
        reserve(&self.key, 8)
        put32(self.key.at, <uint32_t>guarded.code)
        self.key.used = 4
        for i in range(guarded.names):
            if not self.add_field(fields, guarded.name[i], guarded.first[i]):
                return False
        if guarded.code == END_OF_HALF:
            return self.add_name(topic)
        return guarded.code != BATCH_OF_ACKS or self.add_batch(body)

    cdef bint add_field(self, const SignedFields *fields, Text name, uint64_t first) except -1:
        cdef const SignedField *field
        cdef int i
        for i in range(fields.count):
            field = &fields.field[i]
            if is_named_so(field, name, first):
                return not field.escaped and not field.wide and self.add_name(field.value)
        return False

    cdef bint add_batch(self, Text body) except -1:
        """The groups and topics of a batch of acks."""
        cdef bint is_new
        cdef int i, count = read_batch(body.at, body.n, self.batch)
        for i in range(count):
            is_new = i == 0 or not is_same_text(self.batch[i].group, self.batch[i - 1].group)
            if is_new or not is_same_text(self.batch[i].topic, self.batch[i - 1].topic):
                if not self.add_name(self.batch[i].group) or not self.add_name(self.batch[i].topic):
                    return False
        return count > 0

    cdef bint add_name(self, Text name) except -1:
        if name.n < 1 or self.key.used + <size_t>name.n > MOST_KEY:
            return False
        reserve(&self.key, <size_t>(4 + name.n))
        put32(self.key.at + self.key.used, <uint32_t>name.n)
        put_text(self.key.at + self.key.used + 4, name)
        self.key.used += <size_t>(4 + name.n)
        return True


def signature(bytes secret not None, bytes content not None, bint in_c=False):
    """The digest that signs this, for who compares it with others'. `in_c`: without the processor's own instructions."""
    cdef hmac_key key
    cdef uint8_t digest[SHA1_BYTES]
    cdef Text first = text_of(secret), second = text_of(content)
    cdef int before = sha1_use_processor(not in_c)
    hmac_prepare(&key, first.at, <size_t>first.n)
    hmac_of(&key, second.at, <size_t>second.n, NULL, 0, digest)
    sha1_use_processor(before)
    return PyBytes_FromStringAndSize(<char *>digest, SHA1_BYTES)


def sha1(bytes content not None, bint in_c=False):
    """As `hashlib` has it, for who compares them. `in_c`: as with `signature`."""
    cdef uint8_t digest[SHA1_BYTES]
    cdef Text text = text_of(content)
    cdef int before = sha1_use_processor(not in_c)
    sha1_of(text.at, <size_t>text.n, digest)
    sha1_use_processor(before)
    return PyBytes_FromStringAndSize(<char *>digest, SHA1_BYTES)


cdef inline bint is_send(const uint8_t *p) noexcept nogil:
    """Of a whole frame, from its first bytes: certainly not, or likely."""
    cdef uint32_t word = get32(p + 4)
    return may_be_send(<int>(word >> 24), p + 8, <Py_ssize_t>(word & 0xFFFFFF))


cdef inline bint is_same_text(Text a, Text b) noexcept nogil:
    return a.n == b.n and memcmp(a.at, b.at, <size_t>a.n) == 0


cdef inline bint is_text_of(bytes name, Text text) noexcept:
    return PyBytes_GET_SIZE(name) == text.n and memcmp(PyBytes_AS_STRING(name), text.at, <size_t>text.n) == 0
