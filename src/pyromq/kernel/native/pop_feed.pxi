# The feed of pops: pops that find messages of their topic or nothing at all, acks, batches of acks and changes whose check
# points are young, from received bytes to table, journal record and answers. Everything else goes to Python untouched,
# before anything of it has changed; what is no pop goes to the feed of pulls, in the order in which it came.

cdef enum:
    POP_REQUIRED = 0xBF       # all fields up to the init mode but for the birth
    ACK_REQUIRED = 0x3007     # group, topic, queue, receipt, offset
    MOST_PLACES = 256         # queues of a topic that a pop looks through here
    MOST_POPPED_AT_ONCE = 32
    MOST_NOTED = 16 << 10     # bytes of entries that one request adds, and of its record: less than that
    ENTRIES_ENOUGH = 512 << 10   # bytes of the journal's entries in one call
    MOST_ACK_GRANTS = 10000
    LATE_MS = 500

# What became of a pop.
cdef enum:
    POP_LEFT = 0, POP_ANSWERED = 1, POP_EMPTY = 2

# One queue of an answer: how many of the picked records are its own, and where its lane goes on.
cdef struct Share:
    int place, count
    int64_t start, next


cdef class PopFeed:
    """One listener's. `host` is the broker's side (`PopHost` of kernel/pops.py); `held` are the pops that wait."""

    cdef object host, held
    cdef PullFeed pulls
    cdef SendFeed sends
    cdef PopTable table
    cdef TimeSource time
    cdef set reading                  # lanes that wait for the medium: while there is one, Python serves all pops
    cdef Template found, empty, acked, changed
    cdef bytes journal
    cdef str journal_topic
    cdef QueueTail tail               # of the journal
    cdef dict grants, ack_grants
    cdef Buffer picked, answers, record, starts, offsets, key, stored, renamed
    cdef int shared                   # queues that gave something to the pop that is served
    cdef Share shares[MOST_POPPED_AT_ONCE]
    cdef BatchEntry batch[MOST_BATCHED]
    cdef list made, dirty, targets
    cdef object asked                 # the verdict of the pop that was looked at last
    cdef int64_t made_bytes
    cdef int64_t given_bytes, given       # by the pop that was answered last, for quotas: of bodies, and messages
    cdef uint64_t turn
    cdef bint is_begun, is_refused
    cdef bint is_resuming             # pops that were held are looked at: `finish` writes down what they got
    cdef bint is_blocked              # the journal has entries that could not be put: they come first
    cdef int64_t acked_now
    cdef readonly int64_t messages, acks, changes     # since the start
    cdef readonly int64_t suspended   # pops that were given to the host to hold

    def __init__(self, host, PullFeed pulls not None, PopTable table not None, templates, str journal_topic not None, set reading not None, held):
        self.host, self.pulls, self.sends, self.table, self.time = host, pulls, pulls.sends, table, pulls.sends.time
        self.found, self.empty, self.acked, self.changed = [Template(one) for one in templates]
        self.journal_topic, self.journal = journal_topic, journal_topic.encode("ascii")
        self.reading, self.held = reading, held
        self.grants, self.ack_grants = {}, {}
        self.made, self.dirty, self.targets = [], [], []

    def __dealloc__(self):
        free(self.picked.at)
        free(self.answers.at)
        free(self.record.at)
        free(self.starts.at)
        free(self.offsets.at)
        free(self.key.at)
        free(self.stored.at)
        free(self.renamed.at)

    def forget_unused(self):
        """Drop all verdicts: groups and connections that are gone leave nothing behind."""
        self.grants.clear()
        self.ack_grants.clear()

    def block(self, bint is_blocked):
        """Leave everything to Python, or no longer."""
        self.is_blocked = is_blocked

    def feed(self, connection, received):
        """`kernel/seam.py` has the contract."""
        cdef Py_buffer view
        PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
        try:
            if not self.has_pop(<const uint8_t *>view.buf, view.len):
                return self.pulls.feed(connection, received)
            return self.take(connection, received, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    # --- pops that were held --------------------------------------------------------------------------------------

    def resume(self, bytes frame not None, int64_t born_ms, Allowance allowance, bint is_last):
        """Look again for a pop that was held. The answer, which leaves after `finish`; False: there is still nothing, and
        it waits on, unless `is_last`; None: Python's to look. `allowance`: what it draws from, if there are quotas."""
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(frame)
        cdef Header h
        cdef PopAnswer a
        cdef uint32_t word
        cdef int outcome
        if PyBytes_GET_SIZE(frame) < 8:
            return None
        word = get32(p + 4)
        if PyBytes_GET_SIZE(frame) != 8 + <Py_ssize_t>(word & 0xFFFFFF):
            return None
        if not read_header(<int>(word >> 24), p + 8, <Py_ssize_t>(word & 0xFFFFFF), &h, POPS) or h.flag or h.code != 200050:
            return None
        if not self.is_resuming:
            self.begin()
            self.is_resuming = True
        if not self.may_go_on():
            return None
        outcome = self.look(&h, &a, born_ms)
        if outcome == POP_LEFT:
            return None
        if outcome == POP_EMPTY:
            if not is_last:
                return False
            self.answer(self.empty, &a)
        else:
            self.charge(allowance)
        found = self.ready()
        self.answers.used = 0
        return found

    def finish(self):
        """Write down what was handed out since the first `resume`. The place in the log that its answers wait for; 0: none."""
        self.is_resuming = False
        self.commit()
        return self.sends.appender.log.end if self.must_wait() else 0

    # --- frames ---------------------------------------------------------------------------------------------------

    cdef bint has_pop(self, const uint8_t *p, Py_ssize_t n) noexcept:
        cdef Py_ssize_t at = 0, end
        while True:
            end = self.pulls.frame_end(p, at, n)
            if end < 0:
                return False
            if is_pop(p + at):
                return True
            at = end

    cdef take(self, connection, received, const uint8_t *p, Py_ssize_t n):
        cdef Py_ssize_t at = 0, end, first
        cdef list left = [], others = [], waiting = []
        cdef bint done = False, drain = False
        cdef bytes ready
        self.begin()
        while True:
            end = self.pulls.frame_end(p, at, n)
            if end < 0:
                break
            if is_pop(p + at):
                if self.may_go_on() and self.one(connection, p + at, end - at):
                    done = True
                else:
                    left.append(received[at:end])
                at = end
                continue
            first = at
            while end >= 0 and not is_pop(p + at):
                at = end
                end = self.pulls.frame_end(p, at, n)
            piece = received[first:at]
            fed = as_fed(self.pulls.feed(connection, piece), piece)
            left.extend(fed.frames)
            if fed.ready:
                others.append(fed.ready)
            waiting.extend(fed.waiting)
            done = done or fed.used > 0
            drain = drain or fed.drain
            first += fed.used
            while first < at:
                end = self.pulls.frame_end(p, first, n)
                left.append(received[first:end])
                first = end
        self.commit()
        if self.sends.allowances is not None:
            self.sends.allowances.flush(self.sends.notes_of(connection), connection)
        if not done:
            return DRAIN if drain else NOTHING
        ready = self.ready()
        if ready and self.must_wait():
            waiting.append(PendingReply(self.sends.appender.log.end, ready))
            ready = b""
        if others:
            ready = b"".join([*others, ready])
        if at == n and not left and not waiting and not drain:
            return ready  # as nearly always
        return make_tuple(Fed, (at, ready, waiting, left, drain))  # as Fed(...), without a call of Python's

    cdef inline bint must_wait(self) noexcept:
        """Whether answers rest on something that is not as safe as it must be."""
        return self.sends.waits and self.sends.appender.log.end > self.sends.appender.readable.value

    cdef void begin(self) noexcept:
        self.turn += 1
        self.made_bytes = self.acked_now = 0
        self.answers.used = 0
        self.is_begun = self.is_refused = False
        self.made.clear()
        self.dirty.clear()

    cdef bint may_go_on(self) except -1:
        """Whether the table may be changed now: what it notes can be appended. Asked once a buffer, and of its room."""
        cdef LogTail log = self.sends.appender.log
        if not self.is_begun:
            self.is_begun = True
            if self.is_blocked or self.sends.appender.stopped is not None or not self.sends.has_settings:
                self.is_refused = True
            elif not self.sends.is_gate_open() and not self.sends.host.admit():
                self.is_refused = True
            elif self.table.entries.used and self.host.is_journal_awaited() and not self.host.put_journal():
                self.is_refused = True    # what Python has noted comes first; if nobody waits for that, it goes with ours
            elif self.tail is None or self.tail.is_removed:
                self.tail = self.sends.host.queue(self.journal_topic, 0)
                self.is_refused = self.tail is None
        return (
            not self.is_refused
            and log.limit - log.end - BLANK_BYTES > <int64_t>self.table.entries.used + MOST_NOTED
            and self.table.entries.used < ENTRIES_ENOUGH
        )

    cdef bytes ready(self):
        if self.answers.used:
            self.made.append(PyBytes_FromStringAndSize(<char *>self.answers.at, <Py_ssize_t>self.answers.used))
        cdef bytes answers = <bytes>self.made[0] if len(self.made) == 1 else b"".join(self.made)
        self.made.clear()
        return answers

    cdef bint one(self, connection, const uint8_t *p, Py_ssize_t size) except -1:
        """One whole frame: done. False: nothing was done about it."""
        cdef Header h
        cdef uint32_t word = get32(p + 4)
        cdef Py_ssize_t n = <Py_ssize_t>(word & 0xFFFFFF)
        if not read_once(self.sends.ahead, <int>(word >> 24), p + 8, n, &h, POPS) or h.flag:
            return False
        if h.code == 200151:
            return self.ack_batch(&h, p + 8 + n, size - 8 - n)
        if size != 8 + n:
            return False
        if h.code == 200050:
            return self.made_bytes < ENOUGH_BYTES and self.pop(connection, &h, p, size)
        return self.ack(&h) if h.code == 200051 else self.change(&h)

    # --- the journal ----------------------------------------------------------------------------------------------

    cdef int commit(self) except -1:
        """Put one record for all of it; then offsets are committed. An error closes the connection: the entries stay."""
        cdef PopLane lane
        cdef list moved = []
        cdef bint is_put = self.table.entries.used > 0 and self.is_begun and not self.is_refused
        cdef int64_t base
        if is_put:
            try:
                if not self.append() and not self.host.put_journal():
                    raise RuntimeError("what was popped and acknowledged cannot be written down now")
            except Exception:
                self.host.put_journal()
                raise
        for lane in self.dirty:
            base = self.table.base_of_lane(lane)
            if base != lane.settled_base or lane.next != lane.settled_next:
                lane.settled_base, lane.settled_next = base, lane.next
                moved.append(lane.number)
        if moved or self.acked_now or is_put:
            self.host.settled(moved, self.acked_now, is_put)
        return 0

    cdef bint append(self) except -1:
        """The table's entries as a record of the journal. False: there is no room here."""
        cdef Plain m
        cdef Addition new
        cdef Part part
        cdef LogTail log = self.sends.appender.log
        cdef uint8_t entry[ENTRY_BYTES]
        cdef Py_ssize_t size
        memset(&m, 0, sizeof(Plain))
        m.topic = text_of(self.journal)
        m.body.at, m.body.n = self.table.entries.at, <Py_ssize_t>self.table.entries.used
        m.born_host = m.store_host = self.sends.store_host
        m.with_crc = self.sends.with_crc
        m.born = self.time.wall_ms()
        m.store_time = max(m.born, log.last_time)
        m.queue_offset, m.position = self.tail.end, log.end
        size = record_bytes(&m)
        if size > log.limit - log.end - BLANK_BYTES:
            return False
        self.record.used = 0
        reserve(&self.record, <size_t>size)
        put_record(self.record.at, &m)
        put64(entry, <uint64_t>m.position)
        put32(entry + 8, <uint32_t>size)
        put64(entry + 12, 0)
        part = Part.__new__(Part)
        part.tail, part.entries, part.count, part.offsets = self.tail, entry, 1, 1
        new.records, new.n, new.start = self.record.at, size, log.end
        new.last_position, new.store_time, new.keys, new.key_count = log.end, m.store_time, NULL, 0
        self.sends.appender.put(&new, [part])
        self.table.clear_entries()
        return True

    cdef int touch(self, PopLane lane) except -1:
        """Its offsets are looked at when the buffer is done."""
        if lane.turn != self.turn:
            lane.turn = self.turn
            self.dirty.append(lane)
        return 0

    # --- pops -----------------------------------------------------------------------------------------------------

    cdef bint pop(self, connection, Header *h, const uint8_t *p, Py_ssize_t size) except -1:
        """Answer with messages, hold until some come, or answer that there are none. False: Python's."""
        cdef PopAnswer a
        cdef Allowance allowance = None
        cdef int outcome
        if h.seen & POP_REQUIRED == POP_REQUIRED and self.pulls.is_held_to_quotas():
            allowance = self.pulls.allowance_of(connection, h.field[POP_TOPIC], h.field[POP_GROUP])
            if allowance is None:
                return False
            if self.sends.allowances.refuses(connection.notes, allowance.reads, h):
                return True
        outcome = self.look(h, &a, 0)
        if outcome == POP_ANSWERED:
            self.charge(allowance)
        if outcome != POP_EMPTY:
            return outcome == POP_ANSWERED
        if not connection.answers_later:
            holding = 2
        elif a.poll > 0:
            held = PyBytes_FromStringAndSize(<const char *>p, size)
            holding = self.host.hold(connection, self.asked, held, allowance, a.born, a.poll)
        else:
            holding = 1
        if holding == 2:                  # too many wait: Python says so
            self.host.give_back(a.revive, a.chance)
            return False
        if holding == 0:
            self.suspended += 1
            return True
        return self.answer(self.empty, &a)

    cdef int charge(self, Allowance allowance) except -1:
        """Take what the last pop was given from the quotas of who reads."""
        if allowance is not None:
            draw(allowance.reads, self.given_bytes, self.given, self.time.seconds())
        return 0

    cdef int look(self, Header *h, PopAnswer *a, int64_t came) except -1:
        """Hand out what there is. `came`: when a pop that was held came first."""
        cdef int64_t queue_id, count, init
        cdef PopGrant grant
        cdef int outcome
        if h.seen & POP_REQUIRED != POP_REQUIRED:
            return POP_LEFT
        if h.seen >> POP_ORDER & 1 and not same(h.field[POP_ORDER], b"false", 5):
            return POP_LEFT
        a.born = 0
        if (
            not integer(h.field[POP_QUEUE], INT32_MIN, INT32_MAX, &queue_id)
            or not integer(h.field[POP_COUNT], 1, MOST_POPPED_AT_ONCE, &count)
            or not integer(h.field[POP_INVISIBLE], INT64_MIN + 1, INT64_MAX, &a.invisible)
            or not integer(h.field[POP_POLL], -(<int64_t>1 << 40), <int64_t>1 << 40, &a.poll)
            or not integer(h.field[POP_INIT], INT32_MIN, INT32_MAX, &init)
            or (h.seen >> POP_BORN & 1 and not integer(h.field[POP_BORN], 0, <int64_t>1 << 50, &a.born))
            or self.reading
            or self.table.used + MOST_POPPED_AT_ONCE * (POINT_BYTES + POP_GAP_BYTES * MOST_POPPED) >= self.table.most_bytes
        ):
            return POP_LEFT
        a.pop_time = self.time.wall_ms()
        a.born = a.born or came or a.pop_time
        if a.pop_time - a.born - a.poll > LATE_MS:
            return POP_LEFT
        grant = self.pop_grant(h, queue_id, init)
        if grant is None:
            return POP_LEFT
        a.revive, a.chance = self.host.next_search()
        a.opaque = h.opaque
        self.asked = grant.verdict
        outcome = self.hand_out(grant, a, <int>count)
        if outcome == POP_LEFT:
            self.host.give_back(a.revive, a.chance)   # Python looks in the same order
        return outcome

    cdef int hand_out(self, PopGrant grant, PopAnswer *a, int room) except -1:
        """Select, read, then note: up to the last step nothing is changed."""
        cdef bytes frame
        cdef int i, at = 0
        cdef int64_t offsets[MOST_POPPED_AT_ONCE]
        cdef Pulled *one
        cdef Share *share
        cdef PopQueue queue
        cdef int k
        if not self.select(grant, a, room):
            return POP_LEFT
        if not self.shared:
            return POP_EMPTY
        frame = self.found_frame(grant, a)
        if frame is None:
            return POP_LEFT
        one = <Pulled *>self.picked.at
        for i in range(self.shared):
            share = &self.shares[i]
            queue = grant.places[share.place]
            for k in range(share.count):
                offsets[k] = one[at + k].offset
            at += share.count
            if not self.table.give(
                queue.lane, share.start, offsets, share.count, share.next, a.pop_time, a.invisible, <int>a.revive
            ):
                raise RuntimeError("a check point that was free is not")
            self.touch(queue.lane)
            self.count(queue, share.count, at)
        self.made.append(frame)
        self.made_bytes += PyBytes_GET_SIZE(frame)
        self.given = at
        self.given_bytes = PyBytes_GET_SIZE(frame) - 8 - <int64_t>(get32(<const uint8_t *>PyBytes_AS_STRING(frame) + 4) & 0xFFFFFF)
        self.messages += at
        if a.rest > 0 and len(self.held):
            self.host.wake(grant.verdict)     # others that wait may have what was left
        return POP_ANSWERED

    cdef bint select(self, PopGrant grant, PopAnswer *a, int room) except -1:
        """Pick records queue by queue in Java's order; False: Python has to look."""
        cdef bint is_first = a.chance < grant.percent
        cdef bint reads_first_form = not grant.reads_second or (grant.reads_both and a.chance % 2 == 0)
        cdef int retries = grant.queues if reads_first_form else grant.queues + grant.first
        cdef int count = grant.first if reads_first_form else grant.second
        self.picked.used = 0
        self.shared = 0
        self.pulls.begun = self.pulls.monotonic()
        a.rest = 0
        if is_first and not self.walk(grant, retries, count, True, a, &room):
            return False
        if not self.walk(grant, 0, grant.queues, grant.is_any, a, &room):
            return False
        return is_first or room <= 0 or self.walk(grant, retries, count, True, a, &room)

    cdef bint walk(self, PopGrant grant, int first, int count, bint is_any, PopAnswer *a, int *room) except -1:
        """Through so many queues of one topic."""
        cdef Pull pull
        cdef PopQueue queue
        cdef int i, place
        cdef Share *share
        cdef Py_ssize_t size
        pull.log_start, pull.log_end = self.pulls.log.start, self.pulls.log.end
        for i in range(count):
            place = 0 if not is_any else <int>((count - 1 - i + a.chance) % count if grant.ascending else (i + a.chance) % count)
            queue = grant.places[first + place]
            pull.offset, pull.low, pull.high = queue.next(), queue.read.queue.min_offset, queue.read.queue.readable_end
            if room[0] <= 0:
                a.rest += max(<int64_t>0, pull.high - pull.offset)
                continue
            if pull.offset == pull.high:
                continue
            if queue.lane is None or pull.offset < 0:
                return False              # Python opens it
            queue.read.max_count = min(<int64_t>room[0], grant.most)
            if not self.pulls.select(queue.read, &pull) or self.shared == MOST_POPPED_AT_ONCE:
                return False
            if self.table.find(queue.lane, pull.offset, a.pop_time) != NO_POINT:
                return False
            size = <Py_ssize_t>self.pulls.picked.used
            reserve(&self.picked, <size_t>size)
            memcpy(self.picked.at + self.picked.used, self.pulls.picked.at, <size_t>size)
            self.picked.used += <size_t>size
            share = &self.shares[self.shared]
            share.place, share.count = first + place, <int>(size // sizeof(Pulled))
            share.start, share.next = pull.offset, pull.next
            room[0] -= share.count
            a.rest += max(<int64_t>0, pull.high - pull.next)
            self.shared += 1
        return True

    cdef bytes found_frame(self, PopGrant grant, PopAnswer *a):
        """The whole answer, its records read into it; None: they are not in memory, or not as their queue says."""
        cdef Py_ssize_t header, total
        cdef bint is_renamed = self.is_renamed(grant)
        cdef bytes frame
        cdef uint8_t *start
        if is_renamed and not self.rename(grant, a):
            return None
        total = <Py_ssize_t>self.renamed.used if is_renamed else self.picked_bytes()
        self.write_texts(grant, a)
        self.record.used = 0
        reserve(&self.record, <size_t>self.found.most(a))
        header = self.found.put(self.record.at, a) - self.record.at
        if header > self.pulls.max_header or 8 + header + total > self.pulls.max_frame:
            return None
        frame = PyBytes_FromStringAndSize(NULL, 8 + header + total)
        start = <uint8_t *>PyBytes_AS_STRING(frame)
        put32(start, <uint32_t>(4 + header + total))
        put32(start + 4, <uint32_t>header)
        memcpy(start + 8, self.record.at, <size_t>header)
        if is_renamed:
            memcpy(start + 8 + header, self.renamed.at, <size_t>total)
        elif not self.fetch(start + 8 + header):
            return None
        return frame

    cdef Py_ssize_t picked_bytes(self) noexcept:
        cdef Pulled *one = <Pulled *>self.picked.at
        cdef Py_ssize_t i, total = 0
        for i in range(<Py_ssize_t>(self.picked.used // sizeof(Pulled))):
            total += <Py_ssize_t>one[i].size
        return total

    cdef bint fetch(self, uint8_t *into) except -1:
        """The picked records, each of the offset that its queue says; False: not so."""
        cdef Buffer mine = self.pulls.picked   # it reads what was picked last; ours is of several queues
        cdef Pulled *one
        cdef Py_ssize_t i
        self.pulls.picked = self.picked
        try:
            if not self.pulls.fetch(into):
                return False
        finally:
            self.picked = self.pulls.picked
            self.pulls.picked = mine
        one = <Pulled *>self.picked.at
        for i in range(<Py_ssize_t>(self.picked.used // sizeof(Pulled))):
            if <int64_t>get64(into + 20) != one[i].offset:
                return False
            into += one[i].size
        return True

    cdef bint is_renamed(self, PopGrant grant) noexcept:
        """Whether it has messages of a retry topic, which leave under another name."""
        cdef int i
        if PyBytes_GET_SIZE(grant.topic) == 0:
            return False
        for i in range(self.shared):
            if self.shares[i].place >= grant.queues:
                return True
        return False

    cdef bint rename(self, PopGrant grant, PopAnswer *a) except -1:
        """The records one behind the other, those of retry topics under the topic's name; False: Python's to do."""
        cdef Pulled *one
        cdef uint8_t *raw
        cdef int i, k
        cdef Share *share
        cdef PopQueue queue
        cdef Text receipt, topic = text_of(grant.topic)
        self.stored.used = self.renamed.used = 0
        reserve(&self.stored, <size_t>self.picked_bytes())
        raw = self.stored.at
        if not self.fetch(raw):
            return False
        one = <Pulled *>self.picked.at
        for i in range(self.shared):
            share = &self.shares[i]
            queue = grant.places[share.place]
            for k in range(share.count):
                if share.place >= grant.queues:
                    receipt = self.receipt_of(grant, a, share.start, queue.mark, <int32_t>get32(raw + 12), one.offset)
                    if not put_renamed(&self.renamed, raw, <Py_ssize_t>one.size, topic, receipt):
                        return False
                else:
                    reserve(&self.renamed, <size_t>one.size)
                    memcpy(self.renamed.at + self.renamed.used, raw, <size_t>one.size)
                    self.renamed.used += <size_t>one.size
                raw += one.size
                one += 1
        return True

    cdef Text receipt_of(self, PopGrant grant, const PopAnswer *a, int64_t start, uint8_t mark, int64_t queue_id, int64_t offset) except *:
        """`start popTime invisibleTime reviveQueue retry broker queue offset`."""
        cdef Text receipt, broker = text_of(grant.broker)
        cdef uint8_t *r
        self.key.used = 0
        reserve(&self.key, <size_t>(160 + broker.n))
        r = put_blank(put_number(self.key.at, start))
        r = put_blank(put_number(r, a.pop_time))
        r = put_blank(put_number(r, a.invisible))
        r = put_blank(put_number(r, a.revive))
        r[0] = mark
        r = put_blank(put_text(put_blank(r + 1), broker))
        r = put_number(put_blank(put_number(r, queue_id)), offset)
        receipt.at, receipt.n = self.key.at, r - self.key.at
        return receipt

    cdef int write_texts(self, PopGrant grant, PopAnswer *a) except -1:
        """`mark queue start;…` and `mark queue offset,offset;…`."""
        cdef Pulled *one = <Pulled *>self.picked.at
        cdef uint8_t *s
        cdef uint8_t *o
        cdef int i, k, at = 0
        cdef PopQueue queue
        self.starts.used = self.offsets.used = 0
        reserve(&self.starts, <size_t>self.shared * 40)
        reserve(&self.offsets, <size_t>self.shared * 40 + 24 * (self.picked.used // sizeof(Pulled)))
        s, o = self.starts.at, self.offsets.at
        for i in range(self.shared):
            queue = grant.places[self.shares[i].place]
            if i:
                s[0] = o[0] = c';'
                s += 1
                o += 1
            s[0] = o[0] = queue.mark
            s[1] = o[1] = c' '
            s = put_number(s + 2, queue.read.queue.queue_id)
            o = put_number(o + 2, queue.read.queue.queue_id)
            s[0] = o[0] = c' '
            s = put_number(s + 1, self.shares[i].start)
            o += 1
            for k in range(self.shares[i].count):
                if k:
                    o[0] = c','
                    o += 1
                o = put_number(o, one[at + k].offset)
            at += self.shares[i].count
        a.starts.at, a.starts.n = self.starts.at, s - self.starts.at
        a.offsets.at, a.offsets.n = self.offsets.at, o - self.offsets.at
        return 0

    cdef int count(self, PopQueue queue, int count, int end) except -1:
        """For the statistics, which read what the feed of pulls has gathered."""
        cdef Pulled *one = <Pulled *>self.picked.at
        cdef PullGrant read = queue.read
        cdef int i
        if not read.answers:
            if len(self.pulls.uncounted) >= MOST_UNCOUNTED:
                self.pulls.host.read_counts()
            self.pulls.uncounted.append(read)
        for i in range(end - count, end):
            read.size += one[i].size
        read.messages += count
        read.answers += 1
        read.took_ms += (<double>self.pulls.monotonic() - self.pulls.begun) * 1000
        read.behind = self.pulls.log.end - one[end - count].position
        return 0

    cdef PopGrant pop_grant(self, Header *h, int64_t queue_id, int64_t init):
        """A verdict that holds; None: leave it to Python."""
        cdef bytes key = self.key_of(h, POP_EXPRESSION)
        cdef PopGrant grant
        if key is None:
            return None
        grant = self.grants.get(key)
        if grant is not None:
            if not grant.is_void():
                return grant
            del self.grants[key]
        grant = self.host.judge_pop(
            PopQuery(
                bytes_of(h.field[POP_GROUP]),
                bytes_of(h.field[POP_TOPIC]),
                queue_id,
                init,
                bytes_of(h.field[POP_KIND]) if h.seen >> POP_KIND & 1 else None,
                bytes_of(h.field[POP_EXPRESSION]) if h.seen >> POP_EXPRESSION & 1 else None,
            )
        )
        if grant is not None:
            if len(self.grants) >= MOST_ACK_GRANTS:
                self.grants.clear()
            self.grants[key] = grant
        return grant

    cdef bytes key_of(self, Header *h, int last):
        """All that a verdict depends on, as it came: each field's length and bytes. None if that is too long."""
        cdef int number
        cdef size_t size = 0
        cdef uint8_t *r
        for number in range(last + 1):
            size += 5 + <size_t>h.field[number].n
        if size > MOST_KEY:
            return None
        self.key.used = 0
        reserve(&self.key, size)
        r = self.key.at
        for number in range(last + 1):
            if number == POP_COUNT or number == POP_INVISIBLE or number == POP_POLL or number == POP_BORN:
                continue
            r[0] = h.seen >> number & 1
            put32(r + 1, <uint32_t>h.field[number].n)
            r = put_text(r + 5, h.field[number])
        return PyBytes_FromStringAndSize(<char *>self.key.at, r - self.key.at)

    # --- acks and changes -----------------------------------------------------------------------------------------

    cdef AckGrant ack_grant(self, Text group, Text topic, int64_t queue_id):
        """A verdict that holds; None: leave it to Python."""
        cdef AckGrant grant
        cdef bytes key
        if group.n + topic.n > MOST_KEY:
            return None
        self.key.used = 0
        reserve(&self.key, <size_t>(8 + group.n + topic.n))
        put32(self.key.at, <uint32_t>queue_id)
        put32(self.key.at + 4, <uint32_t>group.n)
        put_text(put_text(self.key.at + 8, group), topic)
        key = PyBytes_FromStringAndSize(<char *>self.key.at, 8 + group.n + topic.n)
        grant = self.ack_grants.get(key)
        if grant is not None:
            if not grant.is_void():
                return grant
            del self.ack_grants[key]
        grant = self.host.judge_ack(bytes_of(group), bytes_of(topic), queue_id)
        if grant is not None:
            if len(self.ack_grants) >= MOST_ACK_GRANTS:
                self.ack_grants.clear()
            self.ack_grants[key] = grant
        return grant

    cdef AckGrant receipt_grant(self, Header *h, Receipt *receipt, int64_t *offset):
        """The lane of an ack or change, its receipt and offset; None: Python's."""
        cdef int64_t queue_id
        if h.seen & ACK_REQUIRED != ACK_REQUIRED:
            return None
        if (
            not integer(h.field[POP_QUEUE], 0, INT32_MAX, &queue_id)
            or not integer(h.field[POP_OFFSET], 0, INT64_MAX, offset)
            or not read_receipt(h.field[POP_EXTRA], receipt)
        ):
            return None
        return self.ack_grant(h.field[POP_GROUP], h.field[POP_TOPIC], queue_id)

    cdef bint ack(self, Header *h) except -1:
        cdef Receipt receipt
        cdef int64_t offset
        cdef int outcome
        cdef AckGrant grant = self.receipt_grant(h, &receipt, &offset)
        if grant is None or not grant.queue.min_offset <= offset <= grant.queue.end + grant.queue.offsets_ahead:
            return False
        outcome = self.table.settle_one(grant.lane, receipt.start, receipt.pop_time, offset)
        if outcome == ACK_UNKNOWN:
            return False
        if outcome == ACK_SET:
            self.acked_now += 1
            self.acks += 1
            self.touch(grant.lane)
        self.answer_ack(h)
        return True

    cdef int move(
        self, AckGrant grant, int64_t start, int64_t pop_time, int64_t offset, PopAnswer *a, bint suspend
    ) except -1:
        """Change, at the answer's pop time or the first behind it that is free."""
        cdef int outcome = ACK_CLASH
        while True:
            outcome = self.table.change_one(grant.lane, start, pop_time, offset, a.pop_time, a.invisible, suspend)
            if outcome != ACK_CLASH:
                return outcome
            a.pop_time += 1

    cdef bint change(self, Header *h) except -1:
        cdef Receipt receipt
        cdef PopAnswer a
        cdef int64_t offset, moved
        cdef int outcome
        cdef bint suspend
        cdef AckGrant grant
        if not h.seen >> POP_INVISIBLE & 1 or not integer(h.field[POP_INVISIBLE], INT64_MIN + 1, INT64_MAX, &a.invisible):
            return False
        if not flag_field(h, POP_SUSPEND, &suspend):
            return False
        grant = self.receipt_grant(h, &receipt, &offset)
        if grant is None or not grant.queue.min_offset <= offset < grant.queue.end + grant.queue.offsets_ahead:
            return False
        a.pop_time = self.time.wall_ms()
        outcome = self.move(grant, receipt.start, receipt.pop_time, offset, &a, suspend)
        if outcome != ACK_SET:        # it may have been changed before: then it is that check point's
            if not self.table.moved_to(grant.lane, offset, &moved) or moved <= receipt.pop_time:
                return False          # Python knows what has become of it
            a.pop_time = self.time.wall_ms()
            if self.move(grant, offset, moved, offset, &a, suspend) != ACK_SET:
                return False
        self.changes += 1
        self.touch(grant.lane)
        a.opaque, a.revive = h.opaque, receipt.revive
        return self.answer(self.changed, &a)

    cdef bint ack_batch(self, Header *h, const uint8_t *body, Py_ssize_t n) except -1:
        """All entries are of young check points, or Python gets the whole batch."""
        cdef int count, i
        if h.seen & ~(<uint32_t>1 << POP_BROKER_NAME):
            return False
        count = read_batch(body, n, self.batch)
        if count == 0:
            return False
        self.targets.clear()
        for i in range(count):
            grant = self.ack_grant(self.batch[i].group, self.batch[i].topic, self.batch[i].queue_id)
            if grant is None or not self.walk_bits(<AckGrant>grant, &self.batch[i], False):
                return False
            self.targets.append(grant)
        for i in range(count):
            self.walk_bits(<AckGrant>self.targets[i], &self.batch[i], True)
        return self.answer_ack(h)

    cdef bint walk_bits(self, AckGrant grant, BatchEntry *entry, bint is_settled) except -1:
        """Settle the messages of an entry, or see that all of them are there."""
        cdef uint32_t point = self.table.find(grant.lane, entry.start, entry.pop_time)
        cdef int64_t offset, high = grant.queue.end + grant.queue.offsets_ahead
        cdef int at, bit
        for at in range(entry.raw_n):
            for bit in range(8):
                if not entry.raw[at] >> bit & 1:
                    continue
                offset = entry.start + 8 * at + bit
                if not grant.queue.min_offset <= offset <= high:
                    continue
                if is_settled:
                    if self.table.settle_one(grant.lane, entry.start, entry.pop_time, offset) == ACK_SET:
                        self.acked_now += 1
                        self.acks += 1
                        self.touch(grant.lane)
                elif point == NO_POINT or bit_of(self.table.arena + point, offset) < 0:
                    return False
        return True

    cdef bint answer_ack(self, Header *h) except -1:
        cdef PopAnswer a
        a.opaque = h.opaque
        return self.answer(self.acked, &a)

    cdef bint answer(self, Template template, PopAnswer *a) except -1:
        """A whole frame without a body, behind those that are there."""
        cdef uint8_t *start
        cdef uint8_t *end
        a.starts.n = a.offsets.n = 0
        reserve(&self.answers, <size_t>(8 + template.most(a)))
        start = self.answers.at + self.answers.used
        end = template.put(start + 8, a)
        put32(start, <uint32_t>(end - start - 4))
        put32(start + 4, <uint32_t>(end - start - 8))
        self.answers.used += <size_t>(end - start)
        return True


cdef inline uint8_t *put_blank(uint8_t *r) noexcept nogil:
    r[0] = c' '
    return r + 1


cdef inline bint is_pop(const uint8_t *p) noexcept nogil:
    """Of a whole frame, from its first bytes: certainly not, or likely."""
    cdef uint32_t word = get32(p + 4)
    cdef uint8_t digit
    if word >> 24 or word < 16 or memcmp(p + 8, b'{"code":200', 11) != 0 or p[22] != c',':
        return False
    digit = p[21]
    if p[19] == c'0' and p[20] == c'5':
        return digit == c'0' or digit == c'1' or digit == c'3'
    return p[19] == c'1' and p[20] == c'5' and digit == c'1'
