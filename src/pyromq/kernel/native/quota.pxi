# Token buckets, and who draws from which: kernel/python/quotas has the twins and says what each class means,
# kernel/quotas.py what is asked of the broker.

cdef extern from "<math.h>" nogil:
    double ceil(double x)

cdef extern from "<stdio.h>" nogil:
    int snprintf(char *out, size_t n, const char *form, ...)

cdef class ChangeFlag
cdef class KnownUser  # guard.pxi
cdef class Notes      # lanes.pxi

cdef enum:
    SLOT_USED = 0, SLOT_WAIT = 1, SLOT_OF_OPAQUE = 2
    MOST_REFUSAL_SLOTS = 4
    MOST_DIGITS = 320         # of a double without its fraction
    MOST_ALLOWANCES = 100     # of a connection
    MOST_NAMED_BYTES = 1024   # of topic and group: clients choose them, and they are kept
    MOST_TEXTS = 1000


@cython.final
cdef class Bucket:
    cdef readonly double rate, tokens, filled
    cdef readonly bint counts_bytes
    cdef readonly object of

    def __init__(self, double rate, double now, bint counts_bytes=False, of=None):
        self.rate = self.tokens = rate
        self.filled, self.counts_bytes, self.of = now, counts_bytes, of

    cdef inline void fill(self, double now) noexcept:
        cdef double tokens
        if now > self.filled:
            tokens = self.tokens + (now - self.filled) * self.rate
            self.tokens = tokens if tokens < self.rate else self.rate
            self.filled = now

    cpdef double wait_s(self, double now) noexcept:
        self.fill(now)
        if self.tokens > 0:
            return 0.0
        return (1 - self.tokens) / self.rate if self.rate > 0 else float("inf")

    cpdef void take(self, double amount, double now) noexcept:
        self.fill(now)
        self.tokens -= amount

    cpdef void give_back(self, double amount) noexcept:
        self.tokens += amount

    cpdef double used(self, double now) noexcept:
        self.fill(now)
        return self.rate - self.tokens


@cython.final
cdef class Allowance:
    cdef readonly ChangeFlag flag
    cdef readonly double until
    cdef readonly tuple sends, reads   # no sends: Python's
    cdef readonly frozenset aside
    cdef bytes topic, group       # that it was asked for
    cdef KnownUser identity
    cdef uint64_t turn            # the buffer that it was drawn from last, and what that has taken
    cdef int64_t size, messages

    def __init__(self, ChangeFlag flag not None, double until, sends, reads, aside=()):
        cdef Bucket bucket
        self.flag, self.until, self.reads, self.aside = flag, until, tuple(reads), frozenset(aside)
        self.sends = None if sends is None else tuple(sends)
        for bucket in (self.sends or ()) + self.reads:
            if bucket is None:
                raise TypeError("an allowance draws from buckets")

    def charge_read(self, int64_t size, int64_t messages, double now):
        draw(self.reads, size, messages, now)


cdef inline void draw(tuple buckets, int64_t size, int64_t messages, double now) noexcept:
    cdef Bucket bucket
    for bucket in buckets:
        bucket.take(<double>(size if bucket.counts_bytes else messages), now)


@cython.final
cdef class Pieces:
    """A text cut where values stand, and which value follows each piece."""

    cdef tuple kept
    cdef Text piece[MOST_REFUSAL_SLOTS + 1]
    cdef int slot[MOST_REFUSAL_SLOTS]
    cdef int count
    cdef Py_ssize_t size

    def __init__(self, pieces, slots):
        cdef int i
        if len(slots) > MOST_REFUSAL_SLOTS or len(pieces) != len(slots) + 1 or not all(0 <= slot <= SLOT_OF_OPAQUE for slot in slots):
            raise ValueError("a refusal of a shape that this kernel does not know")
        self.kept, self.count = tuple(pieces), len(slots)
        for i in range(self.count + 1):
            self.piece[i] = text_of(self.kept[i])
            self.size += self.piece[i].n
        for i in range(self.count):
            self.slot[i] = slots[i]

    cdef uint8_t *put(self, uint8_t *r, const Text *values) noexcept:
        cdef int i
        for i in range(self.count):
            r = put_text(put_text(r, self.piece[i]), values[self.slot[i]])
        return put_text(r, self.piece[self.count])


@cython.final
cdef class RefusalWords:
    cdef Pieces json, remark
    cdef bytes fixed, field

    def __init__(self, json, json_slots, bytes fixed not None, remark, remark_slots, bytes field not None):
        self.json, self.remark = Pieces(json, json_slots), Pieces(remark, remark_slots)
        self.fixed, self.field = fixed, field
        if len(fixed) < 13:
            raise ValueError("a binary header of a shape that this kernel does not know")


@cython.final
cdef class Allowances:
    cdef object host
    cdef TimeSource time
    cdef dict texts                       # `RefusalWords` by bucket
    cdef Buffer answers                   # refusals of the buffer that is served
    cdef Notes answered                   # whose they are
    cdef public bint is_on
    cdef readonly int64_t refused
    cdef double now                       # when a request was looked at last

    def __init__(self, host, TimeSource time not None):
        self.host, self.time, self.texts = host, time, {}

    def __dealloc__(self):
        free(self.answers.at)

    cdef bint holds(self, Allowance one) except -1:
        return not one.flag.is_set and (one.until > 1e300 or self.time.seconds() < one.until)

    cdef Allowance find(self, Notes notes, Text topic, Text group):
        """What such requests of a connection draw from; None: leave them to Python."""
        cdef Allowance found = notes.allowance
        cdef bytes user, its_topic, its_group
        if (
            found is not None and found.identity is notes.identity and is_text_of(found.topic, topic)
            and is_text_of(found.group, group) and self.holds(found)
        ):
            return found
        if topic.n + group.n > MOST_NAMED_BYTES:
            return None
        user = b"" if notes.identity is None else notes.identity.name
        its_topic, its_group = bytes_of(topic), bytes_of(group)
        key = user, its_topic, its_group
        found = notes.allowances.get(key)
        if found is None or not self.holds(found):
            notes.allowance = None
            notes.allowances.pop(key, None)
            found = self.host.allowance(
                notes.address, user.decode(), its_topic.decode("ascii", "replace"), its_group.decode("ascii", "replace")
            )
            if found is None:
                return None
            if len(notes.allowances) >= MOST_ALLOWANCES:
                notes.allowances.clear()
            notes.allowances[key] = found
        found.topic, found.group, found.identity = its_topic, its_group, notes.identity
        notes.allowance = found
        return found

    cdef bint refuses(self, Notes notes, tuple buckets, const Header *h) except -1:
        """Whether one of these lacks tokens. Then the refusal is made."""
        cdef Bucket bucket
        cdef double wait_s
        self.now = self.time.seconds()
        for bucket in buckets:
            wait_s = bucket.wait_s(self.now)
            if wait_s > 0:
                self.refuse(notes, bucket, h, wait_s)
                return True
        return False

    cdef size_t mark(self, Notes notes) noexcept:
        """A place to `forget` from."""
        return self.answers.used if self.answered is notes else 0

    cdef void forget(self, Notes notes, size_t mark) noexcept:
        """Drop the refusals made behind a mark: Python gets the same requests."""
        if self.answered is notes and mark < self.answers.used:
            self.answers.used = mark

    cdef int flush(self, Notes notes, connection) except -1:
        """Hand the refusals that were made for a connection to the broker."""
        cdef bytes answers
        if self.answers.used and self.answered is notes:
            answers = PyBytes_FromStringAndSize(<char *>self.answers.at, <Py_ssize_t>self.answers.used)
            self.answers.used = 0
            self.host.refuse(connection, answers)
        return 0

    cdef RefusalWords words_of(self, Bucket bucket):
        cdef RefusalWords words = self.texts.get(bucket)
        if words is None:
            if len(self.texts) >= MOST_TEXTS:
                self.texts.clear()
            words = self.texts[bucket] = RefusalWords(*self.host.text_of(bucket.of))
        return words

    cdef int refuse(self, Notes notes, Bucket bucket, const Header *h, double wait_s) except -1:
        cdef RefusalWords words
        cdef Text values[3]
        cdef char used[MOST_DIGITS]
        cdef char wait[MOST_DIGITS]
        cdef uint8_t opaque[24]
        cdef double wait_ms = ceil(wait_s * 1000)
        self.refused += 1
        if self.answered is not notes:    # what is left of others was never handed over: their connection is closed
            self.answers.used = 0
            self.answered = notes
        if h.flag & 2:
            return 0                      # nobody hears its answer
        words = self.words_of(bucket)
        values[SLOT_USED].at = <const uint8_t *>used
        values[SLOT_USED].n = snprintf(used, MOST_DIGITS, b"%.0f", bucket.used(self.now))
        values[SLOT_WAIT].at = <const uint8_t *>wait
        values[SLOT_WAIT].n = snprintf(wait, MOST_DIGITS, b"%.0f", wait_ms if wait_ms > 1 else 1.0) if bucket.rate > 0 else 0
        values[SLOT_OF_OPAQUE].at = opaque
        values[SLOT_OF_OPAQUE].n = put_number(opaque, h.opaque) - opaque
        return self.put_refusal(words, h, values)

    cdef int put_refusal(self, RefusalWords words, const Header *h, const Text *values) except -1:
        """A whole frame behind those that are there."""
        cdef Text fixed = text_of(words.fixed), field = text_of(words.field)
        cdef uint8_t *start
        cdef uint8_t *remark
        cdef uint8_t *fields
        cdef uint8_t *r
        reserve(&self.answers, <size_t>(words.json.size + words.remark.size + fixed.n + field.n + 64 + 2 * MOST_REFUSAL_SLOTS * MOST_DIGITS))
        start = self.answers.at + self.answers.used
        if h.is_json:
            r = words.json.put(start + 8, values)
            put32(start + 4, <uint32_t>(r - start - 8))
        else:
            remark = put_text(start + 8, fixed)
            put32(start + 13, <uint32_t>h.opaque)
            fields = words.remark.put(remark + 4, values)
            put32(remark, <uint32_t>(fields - remark - 4))
            r = fields + 4
            if field.n:
                put16(r, <uint32_t>field.n)
                r = put_text(r + 2, field)
                put32(r, <uint32_t>values[SLOT_WAIT].n)
                r = put_text(r + 4, values[SLOT_WAIT])
            put32(fields, <uint32_t>(r - fields - 4))
            put32(start + 4, <uint32_t>(r - start - 8) | <uint32_t>1 << 24)
        put32(start, <uint32_t>(r - start - 4))
        self.answers.used += <size_t>(r - start)
        return 0
