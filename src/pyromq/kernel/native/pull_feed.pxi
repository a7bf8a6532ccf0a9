# The feed of pulls: each that finds messages is answered in one go from header to frame, read without waiting into the
# answer itself. Everything else goes to Python untouched, and then so does what comes behind it on that connection.

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t preadv2(int fd, const iovec *parts, int count, int64_t offset, int flags)

cdef extern from *:
    """
    #ifndef RWF_NOWAIT
    #define RWF_NOWAIT 0x8
    #endif
    """
    const int RWF_NOWAIT

cdef enum:
    PULL_REQUIRED = 0x1FF      # all fields up to PULL_VERSION
    COMMITS = 1, MAY_BE_HELD = 2
    SCAN_ENTRIES = 800         # looked at without a filter, as store/reader.py
    CHUNK_ENTRIES = 2048       # read at once, at most
    GAP_BYTES = 4096           # between two records that are still read together
    RUN_BYTES = 1 << 20        # and how much at most
    ENOUGH_BYTES = 512 << 10   # of answers in one call: the rest of the buffer is Python's, which takes turns
    KEPT_BYTES = 4 << 20       # of room for answers from one call to the next
    MOST_GRANTS = 60000


cdef class Files:
    """A file sequence of the store, read without waiting. The file used last is kept while it is open."""

    cdef object sequence, fileno
    cdef int64_t base, file_bytes

    def __init__(self, sequence):
        self.sequence = sequence
        self.file_bytes = sequence.file_bytes

    cdef bint read(self, int64_t position, uint8_t *into, Py_ssize_t n) except -1:
        """All `n` bytes, which lie in one file. False: not there, or not in memory."""
        cdef int64_t inside = position % self.file_bytes
        cdef iovec part
        cdef int fd = -1
        if position < 0 or n > self.file_bytes - inside:
            return False
        if self.fileno is not None and self.base == position - inside:
            fd = self.fileno()  # -1 once it was closed: it went, or made room for others
        if fd < 0:
            self.fileno = None
            try:
                if not self.sequence.has(position):
                    return False
                file = self.sequence.file_at(position)[0]
                self.fileno = getattr(file, "fileno", None)
                if self.fileno is None:
                    return copied(file.pread_resident(inside, n), into, n)
                self.base = position - inside
                fd = self.fileno()
            except Exception:  # Python meets it too, and says what is wrong
                return False
        part.iov_base, part.iov_len = into, <size_t>n
        return preadv2(fd, &part, 1, inside, RWF_NOWAIT) == n


cdef bint copied(raw, uint8_t *into, Py_ssize_t n) except -1:
    """Of a disk that is no file: bytes, or None if they are not in memory."""
    if type(raw) is not bytes or PyBytes_GET_SIZE(raw) != n:
        return False
    memcpy(into, PyBytes_AS_STRING(raw), <size_t>n)
    return True


cdef class PullGrant:
    """A verdict: pulls with these fields need no look. `verdict` is the broker's own, for its questions."""

    cdef readonly object verdict
    cdef Files entries
    cdef int64_t max_count, max_bytes, scan
    cdef bytes codes                  # sorted, eight bytes each as this machine has them; None: no filter
    cdef tuple kept
    cdef Text json[5]
    cdef Text binary[4]
    cdef Py_ssize_t block_at          # of the length of all fields in a binary header

    def __init__(self, verdict, entries, codes, int64_t max_count, int64_t max_bytes, int64_t deep, json, binary, Py_ssize_t block_at):
        """`json`: an answer's header, cut where next, least and largest offset and opaque stand. `binary`: the same
        without the opaque; cut at the lengths in front of the values."""
        cdef int i
        cdef list pieces = [*json, *binary]
        if len(json) != 5 or len(binary) != 4 or max_count < 1 or not 13 <= block_at <= len(binary[0]) - 4:
            raise ValueError("a grant of a shape that this kernel does not know")
        self.verdict = verdict
        self.entries = Files(entries)
        self.max_count, self.max_bytes = max_count, max_bytes
        self.scan = max(SCAN_ENTRIES, max_count)
        if codes is not None:
            self.codes = array("q", sorted(codes)).tobytes()
            self.scan = max(self.scan, deep)
        self.kept = tuple(pieces)
        self.block_at = block_at
        for i in range(5):
            self.json[i] = text_of(self.kept[i])
        for i in range(4):
            self.binary[i] = text_of(self.kept[5 + i])


cdef struct Pulled:
    int64_t position
    int64_t size


cdef struct Pull:
    int64_t queue_id, offset, max_count, flags, commit, suspend_ms, version, max_bytes
    int64_t low, high, log_start, log_end, next, total


cdef inline int64_t commit_of(const Pull *pull) noexcept:
    """How far everything is consumed, as the pull says; -1 if it does not."""
    return pull.commit if pull.flags & COMMITS and pull.commit >= 0 else -1


cdef bint wants(bytes codes, int64_t code) noexcept:
    """Whether a tag is among the sorted ones."""
    cdef const int64_t *sorted_codes = <const int64_t *>PyBytes_AS_STRING(codes)
    cdef Py_ssize_t first = 0, until = PyBytes_GET_SIZE(codes) // 8, middle
    while first < until:
        middle = (first + until) // 2
        if sorted_codes[middle] < code:
            first = middle + 1
        else:
            until = middle
    return first < PyBytes_GET_SIZE(codes) // 8 and sorted_codes[first] == code


cdef class PullFeed:
    """One listener's. `host` is the broker's side (`kernel/pulls.py`), `log` the file sequence of the commit log.

    What is no pull goes to `others`, a feed like any, in the order in which it came.
    """

    cdef object host, others
    cdef Files log
    cdef dict grants
    cdef int64_t max_frame, max_header
    cdef Buffer out, entries, taken, scratch, key
    cdef readonly int64_t messages    # handed out since the start
    cdef readonly int64_t held        # pulls that were given to the host to hold

    def __init__(self, host, log, others, int64_t frame_bytes, int64_t header_bytes):
        self.host = host
        self.log = Files(log)
        self.others = others
        self.max_frame, self.max_header = frame_bytes, header_bytes
        self.grants = {}

    def __dealloc__(self):
        free(self.out.at)
        free(self.entries.at)
        free(self.taken.at)
        free(self.scratch.at)
        free(self.key.at)

    def feed(self, connection, received):
        """`kernel/seam.py` has the contract."""
        cdef Py_buffer view
        PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
        try:
            if not self.has_pull(<const uint8_t *>view.buf, view.len):
                return self.others(connection, received)
            return self.take(connection, received, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def again(self, PullGrant grant, bytes frame, int64_t offset):
        """The answer to a pull that was held, now from this offset on, if there is one; None: Python's to look."""
        cdef Header h
        cdef Pull pull
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(frame)
        if PyBytes_GET_SIZE(frame) < 8 or not self.read(p, &h, &pull):
            return None
        pull.offset = offset
        self.out.used = 0
        found = self.host.look(grant.verdict)
        if found is None:
            return None
        pull.low, pull.high, pull.log_start, pull.log_end = found
        if not self.answer(grant, &h, &pull, False):
            return None
        return self.ready()

    # --- frames ---------------------------------------------------------------------------------------------------

    cdef Py_ssize_t frame_end(self, const uint8_t *p, Py_ssize_t at, Py_ssize_t n) noexcept:
        """Behind the whole frame at `at`; -1 if there is none, or its lengths are wrong."""
        cdef uint32_t total, header
        if n - at < 8:
            return -1
        total, header = get32(p + at), get32(p + at + 4) & 0xFFFFFF
        if total > self.max_frame or header > self.max_header or total < 4 + header or n - at - 4 < total:
            return -1
        return at + 4 + <Py_ssize_t>total

    cdef bint has_pull(self, const uint8_t *p, Py_ssize_t n) noexcept:
        cdef Py_ssize_t at = 0, end
        while True:
            end = self.frame_end(p, at, n)
            if end < 0:
                return False
            if is_pull(p + at):
                return True
            at = end

    cdef take(self, connection, received, const uint8_t *p, Py_ssize_t n):
        cdef Py_ssize_t at = 0, end, first
        cdef list left = [], others = [], waiting = []
        cdef bint behind = connection.unfinished > 0, done = False, drain = False
        self.out.used = 0
        while True:
            end = self.frame_end(p, at, n)
            if end < 0:
                break
            if is_pull(p + at):
                if not behind and self.out.used < ENOUGH_BYTES and self.one(connection, p + at, end - at):
                    done = True
                else:
                    left.append(received[at:end])
                    behind = True
                at = end
                continue
            first = at
            while end >= 0 and not is_pull(p + at):
                at = end
                end = self.frame_end(p, at, n)
            fed = self.others(connection, received[first:at])
            left.extend(fed.frames)
            if fed.ready:
                others.append(fed.ready)
            waiting.extend(fed.waiting)
            done = done or fed.used > 0
            drain = drain or fed.drain
            first += fed.used
            while first < at:
                end = self.frame_end(p, first, n)
                left.append(received[first:end])
                first = end
            behind = behind or len(left) > 0
        if not done:
            return DRAIN if drain else NOTHING
        ready = self.ready()
        return Fed(at, b"".join([*others, ready]) if others else ready, waiting, left, drain)

    cdef bytes ready(self):
        """The answers that were made, whose room is kept unless it is very much."""
        cdef bytes made = PyBytes_FromStringAndSize(<char *>self.out.at, <Py_ssize_t>self.out.used)
        if self.out.room > KEPT_BYTES:
            free(self.out.at)
            memset(&self.out, 0, sizeof(Buffer))
        return made

    cdef bint one(self, connection, const uint8_t *p, Py_ssize_t size) except -1:
        """One whole frame that may be a pull: answered or held. False: nothing was done about it."""
        cdef Header h
        cdef Pull pull
        cdef PullGrant grant
        if not self.read(p, &h, &pull):
            return False
        grant, found = self.granted(&h, &pull)
        if found is None:
            return False
        pull.low, pull.high, pull.log_start, pull.log_end = found
        if pull.offset != pull.high or not pull.flags & MAY_BE_HELD:
            return self.answer(grant, &h, &pull, True)
        if not self.host.hold(connection, grant, PyBytes_FromStringAndSize(<const char *>p, size), pull.offset, pull.suspend_ms):
            return False
        self.held += 1
        self.host.asked(grant.verdict, pull.offset, commit_of(&pull))
        return True

    cdef bint read(self, const uint8_t *p, Header *h, Pull *pull) noexcept:
        """The header of a whole frame. False: not of the one shape that is for us."""
        cdef uint32_t total = get32(p), word = get32(p + 4)
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        if total != 4 + <uint32_t>n or not read_header(<int>(word >> 24), p + 8, n, h, PULLS):
            return False  # a pull has no body
        if h.flag or h.seen & PULL_REQUIRED != PULL_REQUIRED:
            return False
        pull.max_bytes = -1
        return (
            integer(h.field[PULL_QUEUE], 0, INT32_MAX, &pull.queue_id)
            and integer(h.field[PULL_OFFSET], 0, INT64_MAX, &pull.offset)
            and integer(h.field[PULL_COUNT], INT32_MIN, INT32_MAX, &pull.max_count)
            and integer(h.field[PULL_FLAGS], 0, INT32_MAX, &pull.flags)
            and integer(h.field[PULL_COMMIT], INT64_MIN + 1, INT64_MAX, &pull.commit)
            and integer(h.field[PULL_SUSPEND], 0, INT32_MAX, &pull.suspend_ms)
            and integer(h.field[PULL_VERSION], INT64_MIN + 1, INT64_MAX, &pull.version)
            and (not h.seen & (1 << PULL_BYTES) or integer(h.field[PULL_BYTES], INT32_MIN, INT32_MAX, &pull.max_bytes))
        )

    # --- verdicts -------------------------------------------------------------------------------------------------

    cdef bytes key_of(self, Header *h):
        """All that a verdict depends on, as it came: each field's length and bytes."""
        cdef int number
        cdef size_t size = 8
        cdef uint8_t *r
        for number in range(FIELDS):
            size += 5 + <size_t>h.field[number].n
        self.key.used = 0
        reserve(&self.key, size)
        r = self.key.at
        put32(r, <uint32_t>h.code)
        r += 4
        for number in range(FIELDS):
            if number == PULL_OFFSET or number == PULL_COMMIT or number == PULL_SUSPEND or number == PULL_BROKER_NAME:
                continue
            r[0] = h.seen >> number & 1
            put32(r + 1, <uint32_t>h.field[number].n)
            r = put_text(r + 5, h.field[number])
        return PyBytes_FromStringAndSize(<char *>self.key.at, r - self.key.at)

    cdef tuple granted(self, Header *h, Pull *pull):
        """The grant, and how queue and log stand now; None for the latter: leave it to Python."""
        cdef bytes key = self.key_of(h)
        grant = self.grants.get(key)
        if grant is not None:
            found = self.host.look((<PullGrant>grant).verdict)
            if found is not None:
                return grant, found
            del self.grants[key]
        grant = self.host.judge(self.question(h, pull))
        if grant is None:
            return None, None
        if len(self.grants) >= MOST_GRANTS:
            self.grants.clear()
        self.grants[key] = grant
        return grant, self.host.look((<PullGrant>grant).verdict)

    cdef question(self, Header *h, Pull *pull):
        return Question(
            h.code,
            bytes_of(h.field[PULL_GROUP]),
            bytes_of(h.field[PULL_TOPIC]),
            pull.queue_id,
            pull.flags,
            pull.max_count,
            pull.max_bytes if h.seen & (1 << PULL_BYTES) else None,
            pull.version,
            bytes_of(h.field[PULL_SUBSCRIPTION]) if h.seen & (1 << PULL_SUBSCRIPTION) else None,
            bytes_of(h.field[PULL_KIND]) if h.seen & (1 << PULL_KIND) else None,
        )

    # --- reading --------------------------------------------------------------------------------------------------

    cdef bint answer(self, PullGrant grant, Header *h, Pull *pull, bint is_new) except -1:
        """A whole frame behind those that are there. False: Python's to answer, and nothing is changed."""
        cdef size_t before = self.out.used
        cdef uint8_t *start
        cdef uint8_t *r
        cdef Py_ssize_t most = 8 + 4 * 24, header
        cdef int i
        if not self.select(grant, pull):
            return False
        for i in range(5):
            most += grant.json[i].n if h.is_json else (grant.binary[i].n if i < 4 else 0)
        if most + pull.total > self.max_frame:
            return False
        reserve(&self.out, <size_t>(most + pull.total))
        start = self.out.at + before
        r = put_found_json(start + 8, grant, h, pull) if h.is_json else put_found_binary(start + 8, grant, h, pull)
        header = r - start - 8
        put32(start, <uint32_t>(4 + header + pull.total))
        put32(start + 4, <uint32_t>header | (0 if h.is_json else <uint32_t>1 << 24))
        if header > self.max_header or not self.fetch(pull.log_start, r):
            return False
        self.out.used = before + 8 + <size_t>header + <size_t>pull.total
        self.messages += <int64_t>(self.taken.used // sizeof(Pulled))
        self.host.gave(
            grant.verdict,
            self.taken.used // sizeof(Pulled),
            pull.total,
            (<Pulled *>self.taken.at).position,
            pull.offset if is_new else -1,
            commit_of(pull) if is_new else -1,
        )
        return True

    cdef bint select(self, PullGrant grant, Pull *pull) except -1:
        """Which records it gets, as pick_entries of kernel/python/pull.py; False: none, or Python has to look."""
        cdef int64_t offset = pull.offset, count, i, position, size, until, step = grant.max_count
        cdef const uint8_t *p
        cdef Pulled *one
        cdef bint full = False
        if not pull.low <= offset < pull.high:
            return False
        until = min(pull.high - offset, grant.scan) + offset
        pull.total = 0
        self.taken.used = 0
        while offset < until and not full:
            count = min(until - offset, min(step, CHUNK_ENTRIES))
            count = min(count, (grant.entries.file_bytes - offset * 20 % grant.entries.file_bytes) // 20)
            if count < 1:
                return False  # an entry across two files
            reserve(&self.entries, <size_t>(20 * count))
            if not grant.entries.read(offset * 20, self.entries.at, <Py_ssize_t>(20 * count)):
                return False
            step = min(4 * step, CHUNK_ENTRIES)
            reserve(&self.taken, <size_t>count * sizeof(Pulled))
            p = self.entries.at
            for i in range(count):
                if <int64_t>(self.taken.used // sizeof(Pulled)) >= grant.max_count:
                    full = True
                    break
                position, size = <int64_t>get64(p), <int32_t>get32(p + 8)
                if size == 0:
                    full = True
                    break
                if size != 0x7FFFFFFF and position >= pull.log_start and (
                    grant.codes is None or wants(grant.codes, <int64_t>get64(p + 12))
                ):
                    if size < FIXED_BYTES or position > pull.log_end - size:
                        return False
                    if self.taken.used and pull.total + size > grant.max_bytes:
                        full = True
                        break
                    one = <Pulled *>(self.taken.at + self.taken.used)
                    one.position, one.size = position, size
                    self.taken.used += sizeof(Pulled)
                    pull.total += size
                offset += 1
                p += 20
        pull.next = offset
        return self.taken.used > 0

    cdef bint fetch(self, int64_t low, uint8_t *into) except -1:
        """The records of `taken`, one behind the other; False unless all are in memory, whole and with their CRC."""
        cdef Pulled *one = <Pulled *>self.taken.at
        cdef Pulled *end = <Pulled *>(self.taken.at + self.taken.used)
        cdef Pulled *last
        cdef int64_t span, size
        cdef uint8_t *from_
        while one < end:
            last, span, size = one, one.size, one.size
            while last + 1 < end:
                if not 0 <= (last + 1).position - last.position - last.size <= GAP_BYTES:
                    break
                if (last + 1).position + (last + 1).size - one.position > RUN_BYTES:
                    break
                if (last + 1).position // self.log.file_bytes != one.position // self.log.file_bytes:
                    break
                last += 1
                span = last.position + last.size - one.position
                size += last.size
            if span == size:
                if not self.log.read(one.position, into, <Py_ssize_t>span):
                    return False
                from_ = into
            else:
                self.scratch.used = 0
                reserve(&self.scratch, <size_t>span)
                if not self.log.read(one.position, self.scratch.at, <Py_ssize_t>span):
                    return False
                from_ = self.scratch.at
            low = one.position
            while one <= last:
                if not is_sealed(from_ + (one.position - low), <Py_ssize_t>one.size, one.position):
                    return False
                if span != size:
                    memcpy(into, from_ + (one.position - low), <size_t>one.size)
                into += one.size
                if span == size:
                    from_, low = into, one.position + one.size
                one += 1
        return True


cdef inline bint is_pull(const uint8_t *p) noexcept nogil:
    """Of a whole frame, from its first bytes: certainly not, or likely."""
    cdef uint32_t word = get32(p + 4), n = word & 0xFFFFFF
    cdef uint32_t code
    if word >> 24 == 1:
        code = get16(p + 8) if n >= 2 else 0
        return code == 11 or code == 361
    return word >> 24 == 0 and n >= 12 and (memcmp(p + 8, b'{"code":11,', 11) == 0 or memcmp(p + 8, b'{"code":361,', 12) == 0)


cdef uint8_t *put_found_json(uint8_t *r, PullGrant grant, const Header *h, const Pull *pull) noexcept:
    r = put_number(put_text(r, grant.json[0]), pull.next)
    r = put_number(put_text(r, grant.json[1]), pull.low)
    r = put_number(put_text(r, grant.json[2]), pull.high)
    r = put_number(put_text(r, grant.json[3]), h.opaque)
    return put_text(r, grant.json[4])


cdef inline uint8_t *put_counted(uint8_t *r, int64_t v) noexcept:
    """A number with its length in front."""
    cdef uint8_t *end = put_number(r + 4, v)
    put32(r, <uint32_t>(end - r - 4))
    return end


cdef uint8_t *put_found_binary(uint8_t *start, PullGrant grant, const Header *h, const Pull *pull) noexcept:
    cdef uint8_t *r = put_counted(put_text(start, grant.binary[0]), pull.next)
    r = put_counted(put_text(r, grant.binary[1]), pull.low)
    r = put_counted(put_text(r, grant.binary[2]), pull.high)
    r = put_text(r, grant.binary[3])
    put32(start + 5, <uint32_t>h.opaque)
    put32(start + grant.block_at, <uint32_t>(r - start - grant.block_at - 4))
    return r
