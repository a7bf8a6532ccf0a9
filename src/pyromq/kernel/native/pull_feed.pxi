# The feed of pulls: each that finds messages is answered in one go from header to frame, read without waiting into the
# answer itself. Everything else goes to Python untouched, and then so does what comes behind it on that connection.

cdef enum:
    PULL_REQUIRED = 0x1FF      # all fields up to PULL_VERSION
    CHUNK_ENTRIES = 2048       # read at once, at most
    MOST_WINDOWS = 64          # such pulls at a time: 640 KB in all
    GAP_BYTES = 4096           # between two records that are still read together
    RUN_BYTES = 1 << 20        # and how much at most
    ENOUGH_BYTES = 512 << 10   # of answers in one call: the rest of the buffer is Python's, which takes turns
    MOST_KEY = 4096            # bytes of the fields that a verdict depends on: pulls with longer ones are Python's
    GRANT_BYTES = 1024         # that a verdict takes besides its key and its tags, about
    GRANTS_BYTES = 16 << 20    # of verdicts in use; as much again of those that were not used lately
    MOST_UNCOUNTED = 10000     # verdicts with something for the statistics, then these are read


cdef class PullFeed:
    """One listener's. `host` is the broker's side (`kernel/pulls.py`). What is no pull goes to `sends`, in the order in
    which it came."""

    cdef object host, monotonic
    cdef SendFeed sends
    cdef LogTail log
    cdef ResidentFiles records
    cdef double begun                 # when the work on the pull that is served began
    cdef readonly double longest_ms   # that one took, from its queue to the records in hand
    cdef list uncounted               # grants with something for the statistics
    cdef dict grants, unused          # verdicts by their keys: used since the last `forget_unused`, and not used since
    cdef readonly int64_t grants_bytes
    cdef int64_t max_frame, max_header
    cdef Buffer head, entries, picked, scratch, key
    cdef list made                    # the answers of this call
    cdef int64_t made_bytes
    cdef list windows                 # entries that were read ahead, of at most so many grants
    cdef Py_ssize_t next_window       # that is taken when another grant needs one
    cdef readonly int64_t messages    # handed out since the start
    cdef readonly int64_t suspended   # pulls that were given to the host to suspend

    def __init__(self, host, SendFeed sends, LogTail log, ResidentFiles records, monotonic, int64_t frame_bytes, int64_t header_bytes):
        self.host, self.sends, self.log, self.records, self.monotonic = host, sends, log, records, monotonic
        self.uncounted, self.made, self.windows = [], [], []
        self.max_frame, self.max_header = frame_bytes, header_bytes
        self.grants, self.unused = {}, {}

    def __dealloc__(self):
        free(self.head.at)
        free(self.entries.at)
        free(self.picked.at)
        free(self.scratch.at)
        free(self.key.at)

    def feed(self, connection, received):
        """`kernel/seam.py` has the contract."""
        cdef Py_buffer view
        PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
        try:
            if not self.has_pull(<const uint8_t *>view.buf, view.len):
                return self.sends.take(connection, received, <const uint8_t *>view.buf, view.len, False)
            return self.take(connection, received, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def resume(self, PullGrant grant, bytes frame, Allowance allowance, int64_t offset):
        """The answer to a pull that was suspended, now from this offset on; None: Python's to find one. `allowance`: what
        it draws from, if there are quotas."""
        cdef Header h
        cdef Pull pull
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(frame)
        if PyBytes_GET_SIZE(frame) < 8 or not self.read(p, &h, &pull) or grant.is_void():
            return None
        pull.offset = offset
        self.begin()
        self.locate(grant, &pull)
        if not self.answer(grant, &h, &pull, False):
            return None
        self.charge(allowance, &pull)
        return self.ready()

    def forget_unused(self):
        """Drop the verdicts that no pull has used since the last call, so that groups and connections which are gone
        leave nothing behind; also called when there are too many."""
        self.unused, self.grants = self.grants, {}
        self.grants_bytes = 0

    def take_counts(self):
        """What was handed out since the last call, as `PullCount` of each verdict."""
        cdef PullGrant grant
        cdef list counts = []
        for grant in self.uncounted:
            place = grant.queue.topic, grant.group, grant.queue.queue_id
            counts.append(PullCount(*place, grant.messages, grant.size, grant.took_ms, grant.answers, grant.behind))
            grant.messages = grant.size = grant.answers = 0
            grant.took_ms = 0
        self.uncounted.clear()
        return counts

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
        self.begin()
        while True:
            end = self.frame_end(p, at, n)
            if end < 0:
                break
            if is_pull(p + at):
                if not behind and self.made_bytes < ENOUGH_BYTES and self.one(connection, p + at, end - at):
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
            piece = received[first:at]
            fed = as_fed(self.sends.feed(connection, piece), piece)
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
        if self.sends.allowances is not None:
            self.sends.allowances.flush(self.sends.notes_of(connection), connection)
        if not done:
            return DRAIN if drain else NOTHING
        ready = self.ready()
        if others:
            ready = b"".join([*others, ready])
        if at == n and not left and not waiting and not drain:
            return ready  # as nearly always
        return make_tuple(Fed, (at, ready, waiting, left, drain))  # as Fed(...), without a call of Python's

    cdef void begin(self) noexcept:
        self.made_bytes = 0
        self.made.clear()

    cdef bytes ready(self):
        """The answers that were made; a single one as it is."""
        cdef bytes answers = <bytes>self.made[0] if len(self.made) == 1 else b"".join(self.made)
        self.made.clear()
        return answers

    cdef bint one(self, connection, const uint8_t *p, Py_ssize_t size) except -1:
        """One whole frame that may be a pull: answered or suspended. False: nothing was done about it."""
        cdef Header h
        cdef Pull pull
        cdef PullGrant grant
        cdef Allowance allowance = None
        if not self.read(p, &h, &pull):
            return False
        if self.is_held_to_quotas():
            allowance = self.allowance_of(connection, h.field[PULL_TOPIC], h.field[PULL_GROUP])
            if allowance is None:
                return False
            if self.sends.allowances.refuses(connection.notes, allowance.reads, &h):
                return True
        grant = self.grant_for(&h, &pull)
        if grant is None:
            return False
        self.locate(grant, &pull)
        if pull.offset != pull.high or not pull.flags & MAY_SUSPEND:
            if not self.answer(grant, &h, &pull, True):
                return False
            self.charge(allowance, &pull)
            return True
        frame = PyBytes_FromStringAndSize(<const char *>p, size)
        if not self.host.suspend(connection, grant, frame, allowance, pull.offset, pull.suspend_ms):
            return False
        self.suspended += 1
        self.note_pull(grant, &pull)
        return True

    cdef bint read(self, const uint8_t *p, Header *h, Pull *pull) noexcept:
        """The header of a whole frame. False: not of the one shape that is for us."""
        cdef uint32_t total = get32(p), word = get32(p + 4)
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        if total != 4 + <uint32_t>n or not read_once(self.sends.ahead, <int>(word >> 24), p + 8, n, h, PULLS):
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

    # --- quotas ---------------------------------------------------------------------------------------------------

    cdef inline bint is_held_to_quotas(self) noexcept:
        return self.sends.allowances is not None and self.sends.allowances.is_on

    cdef Allowance allowance_of(self, connection, Text topic, Text group):
        """What a read draws from; None: leave it to Python."""
        return self.sends.allowances.find(self.sends.notes_of(connection), topic, group)

    cdef int charge(self, Allowance allowance, const Pull *pull) except -1:
        """Take what was read from the quotas of who reads."""
        if allowance is not None:
            draw(allowance.reads, pull.total, <int64_t>(self.picked.used // sizeof(Pulled)), self.sends.time.seconds())
        return 0

    # --- verdicts -------------------------------------------------------------------------------------------------

    cdef bytes key_of(self, Header *h):
        """All that a verdict depends on, as it came: each field's length and bytes. None if that is too long."""
        cdef int number
        cdef size_t size = 8
        cdef uint8_t *r
        for number in range(FIELDS):
            size += 5 + <size_t>h.field[number].n
        if size > MOST_KEY:
            return None
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

    cdef PullGrant grant_for(self, Header *h, Pull *pull):
        """A verdict that holds; None: leave it to Python."""
        cdef bytes key = self.key_of(h)
        cdef PullGrant grant
        if key is None:
            return None
        grant = self.grants.get(key)
        if grant is None:
            grant = self.unused.pop(key, None)
            if grant is not None:
                self.keep(key, grant)
        if grant is not None:
            if not grant.is_void():
                return grant
            del self.grants[key]
            self.grants_bytes -= bytes_of_grant(key, grant)
        grant = self.host.judge(self.query(h, pull))
        if grant is not None:
            self.keep(key, grant)
        return grant

    cdef int keep(self, bytes key, PullGrant grant) except -1:
        """Among those in use. Clients choose the keys, so there is no end of them: the ones not used lately go."""
        cdef int64_t size = bytes_of_grant(key, grant)
        if self.grants_bytes + size > GRANTS_BYTES:
            self.forget_unused()
        self.grants[key] = grant
        self.grants_bytes += size
        return 0

    cdef int locate(self, PullGrant grant, Pull *pull) except -1:
        """Where queue and log begin and end now."""
        self.begun = self.monotonic()
        pull.low, pull.high = grant.queue.min_offset, grant.queue.readable_end
        pull.log_start, pull.log_end = self.log.start, self.log.end
        return 0

    cdef query(self, Header *h, Pull *pull):
        return PullQuery(
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
        """A whole frame behind those that are there, read into the bytes that leave. False: Python's to answer, and
        nothing is changed."""
        cdef uint8_t *start
        cdef Py_ssize_t most = 8 + 4 * 24, header
        cdef bytes frame
        cdef int i
        if not self.select(grant, pull):
            return False
        for i in range(5):
            most += grant.json[i].n if h.is_json else (grant.binary[i].n if i < 4 else 0)
        if most + pull.total > self.max_frame:
            return False
        reserve(&self.head, <size_t>most)
        start = self.head.at
        header = (put_found_json(start, grant, h, pull) if h.is_json else put_found_binary(start, grant, h, pull)) - start
        if header > self.max_header:
            return False
        frame = PyBytes_FromStringAndSize(NULL, 8 + header + <Py_ssize_t>pull.total)
        start = <uint8_t *>PyBytes_AS_STRING(frame)
        put32(start, <uint32_t>(4 + header + pull.total))
        put32(start + 4, <uint32_t>header | (0 if h.is_json else <uint32_t>1 << 24))
        memcpy(start + 8, self.head.at, <size_t>header)
        if not self.fetch(start + 8 + header):
            return False
        self.made.append(frame)
        self.made_bytes += PyBytes_GET_SIZE(frame)
        if is_new:
            self.note_pull(grant, pull)
        self.count(grant, pull)
        return True

    # --- what is noted of it --------------------------------------------------------------------------------------

    cdef int note_pull(self, PullGrant grant, const Pull *pull) except -1:
        """A pull came for this offset; the broker is told if it says how far everything is consumed, or is the first."""
        cdef int64_t commit = commit_of(pull)
        if commit >= 0 or grant.pulled is None:
            self.host.note_pull(grant, pull.offset, commit)
        else:
            grant.pulled.note(pull.offset)
        return 0

    cdef int count(self, PullGrant grant, const Pull *pull) except -1:
        """The picked records were handed out; the broker reads the counters when somebody asks for them."""
        cdef int64_t messages = <int64_t>(self.picked.used // sizeof(Pulled))
        cdef double took_ms = (<double>self.monotonic() - self.begun) * 1000
        if not grant.answers:
            if len(self.uncounted) >= MOST_UNCOUNTED:
                self.host.read_counts()
            self.uncounted.append(grant)
        self.longest_ms = max(self.longest_ms, took_ms)
        self.messages += messages
        grant.messages += messages
        grant.size += pull.total
        grant.answers += 1
        grant.took_ms += took_ms
        grant.behind = pull.log_end - (<Pulled *>self.picked.at).position
        return 0

    # --- what it picks --------------------------------------------------------------------------------------------

    cdef bint select(self, PullGrant grant, Pull *pull) except -1:
        """Which records it gets, as pick_entries of kernel/python/pull.py; False: none, or Python has to find them."""
        cdef int64_t until, count, step = grant.max_count
        cdef const uint8_t *found
        cdef int picked = TAKEN
        if not pull.low <= pull.offset < pull.high:
            return False
        until = min(pull.high - pull.offset, grant.scan) + pull.offset
        pull.next, pull.total = pull.offset, 0
        self.picked.used = 0
        while pull.next < until and picked == TAKEN and <int64_t>(self.picked.used // sizeof(Pulled)) < grant.max_count:
            count = min(until - pull.next, min(step, CHUNK_ENTRIES))
            found = self.entries_of(grant, pull, &count)
            if found == NULL:
                return False
            reserve(&self.picked, <size_t>count * sizeof(Pulled))
            picked = self.pick(found, grant, pull, count)
            step = min(4 * step, CHUNK_ENTRIES)
        grant.expected = pull.next
        return picked != LEFT and self.picked.used > 0

    cdef const uint8_t *entries_of(self, PullGrant grant, Pull *pull, int64_t *count) except? NULL:
        """Entries from `pull.next` on, `count` of them or less: those that were read ahead, else from the file. NULL: not
        there, or not in memory."""
        cdef Window window = grant.window
        cdef int64_t ahead, in_file = (grant.entries.file_bytes - pull.next * 20 % grant.entries.file_bytes) // 20
        if window is not None and window.first <= pull.next < window.until <= pull.high:
            count[0] = min(count[0], window.until - pull.next)
            grant.expected = window.until
            window.used_at = self.begun
            return window.at + 20 * (pull.next - window.first)
        count[0] = min(count[0], in_file)
        if count[0] < 1:
            return NULL  # an entry across two files
        ahead = min(min(AHEAD_ENTRIES, in_file), pull.high - pull.next)
        if pull.next == grant.expected and count[0] < ahead:
            window = self.window_of(grant)
            if window is not None and grant.entries.read(pull.next * 20, window.at, <Py_ssize_t>(20 * ahead)):
                window.first, window.until = pull.next, pull.next + ahead
                return window.at
        reserve(&self.entries, <size_t>(20 * count[0]))
        if not grant.entries.read(pull.next * 20, self.entries.at, <Py_ssize_t>(20 * count[0])):
            return NULL
        return self.entries.at

    cdef Window window_of(self, PullGrant grant):
        """An empty one: the grant's own, a new one, or one that another has not used of late. None: all are in use."""
        cdef Window window = grant.window
        if window is None:
            if len(self.windows) < MOST_WINDOWS:
                window = Window()
                self.windows.append(window)
            else:
                window = self.windows[self.next_window]
                self.next_window = (self.next_window + 1) % MOST_WINDOWS
                if self.begun - window.used_at < WINDOW_S:
                    return None
                window.grant.window = None
            window.grant, grant.window = grant, window
        window.until, window.used_at = 0, self.begun
        return window

    cdef int pick(self, const uint8_t *p, PullGrant grant, Pull *pull, int64_t count) noexcept:
        """From so many entries, for which `picked` has room. STOP at a limit or an unwritten entry; LEFT if one is odd."""
        cdef int64_t i, position, size
        cdef Pulled *one
        for i in range(count):
            position, size = <int64_t>get64(p), <int32_t>get32(p + 8)
            if size == 0 or <int64_t>(self.picked.used // sizeof(Pulled)) >= grant.max_count:
                return STOP
            if size != 0x7FFFFFFF and position >= pull.log_start and (
                grant.codes is None or wants(grant.codes, <int64_t>get64(p + 12))
            ):
                if size < FIXED_BYTES or position > pull.log_end - size:
                    return LEFT
                if self.picked.used and pull.total + size > grant.max_bytes:
                    return STOP
                one = <Pulled *>(self.picked.at + self.picked.used)
                one.position, one.size, one.offset = position, size, pull.next
                self.picked.used += sizeof(Pulled)
                pull.total += size
            pull.next += 1
            p += 20
        return TAKEN

    cdef bint fetch(self, uint8_t *into) except -1:
        """The picked records, one behind the other; False unless all are in memory, whole and with their CRC."""
        cdef Pulled *one = <Pulled *>self.picked.at
        cdef Pulled *end = <Pulled *>(self.picked.at + self.picked.used)
        cdef Pulled *last
        while one < end:
            last = self.run_of(one, end)
            if not self.fetch_run(one, last, into):
                return False
            while one <= last:
                into += one.size
                one += 1
        return True

    cdef Pulled *run_of(self, Pulled *one, Pulled *end) noexcept:
        """The last of the records that are read together with this one: close behind it, in the same file."""
        cdef Pulled *last = one
        cdef Pulled *other = one + 1
        while other < end:
            if not 0 <= other.position - last.position - last.size <= GAP_BYTES:
                break
            if other.position + other.size - one.position > RUN_BYTES:
                break
            if other.position // self.records.file_bytes != one.position // self.records.file_bytes:
                break
            last = other
            other += 1
        return last

    cdef bint fetch_run(self, Pulled *one, Pulled *last, uint8_t *into) except -1:
        """Straight into the answer if nothing lies between them."""
        cdef int64_t start = one.position, span = last.position + last.size - start, size = 0
        cdef Pulled *each = one
        cdef uint8_t *found = into
        while each <= last:
            size += each.size
            each += 1
        if size != span:
            reserve(&self.scratch, <size_t>span)
            found = self.scratch.at
        if not self.records.read(start, found, <Py_ssize_t>span):
            return False
        while one <= last:
            if not is_sealed(found + (one.position - start), <Py_ssize_t>one.size, one.position):
                return False
            if size != span:
                memcpy(into, found + (one.position - start), <size_t>one.size)
                into += one.size
            one += 1
        return True


cdef inline int64_t bytes_of_grant(bytes key, PullGrant grant):
    """About what a verdict takes: eight bytes of a code here, and its number in a set of Python's."""
    cdef int64_t codes = 0 if grant.codes is None else PyBytes_GET_SIZE(grant.codes)
    return GRANT_BYTES + PyBytes_GET_SIZE(key) + 12 * codes


cdef inline bint is_pull(const uint8_t *p) noexcept nogil:
    """Of a whole frame, from its first bytes: certainly not, or likely."""
    cdef uint32_t word = get32(p + 4), n = word & 0xFFFFFF
    cdef uint32_t code
    if word >> 24 == 1:
        code = get16(p + 8) if n >= 2 else 0
        return code == 11 or code == 361
    return word >> 24 == 0 and n >= 12 and (memcmp(p + 8, b'{"code":11,', 11) == 0 or memcmp(p + 8, b'{"code":361,', 12) == 0)
