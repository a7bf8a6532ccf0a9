# The feed: all complete frames of a received buffer in one call. Records, queue entries, keys and answers are made in
# memory first; then the `Appender` takes them all, or none, and then Python gets the whole buffer.

cdef enum:
    LEFT = 0, TAKEN = 1, STOP = 2
    MOST_GRANTS = 10000       # topics that a listener has verdicts on


# How much there was before a batch, which is taken whole or not at all.
cdef struct Before:
    size_t log, entries, keys
    int64_t next, size, ordered, ordered_size


cdef void name_all(Names *names, list raw, list detours):
    """At most MOST_NAMES, which the caller keeps alive; the short ones first, so that a search ends early."""
    cdef int i
    cdef dict numbers = {(<Detour>detour).name: number for number, detour in enumerate(detours)}
    raw = sorted(raw, key=len)
    names.count, names.lengths = len(raw), 0
    for i in range(names.count):
        names.name[i] = text_of(raw[i])
        names.detour[i] = numbers.get(raw[i], -1)
        names.lengths |= <uint64_t>1 << min(names.name[i].n, 63)


cdef class HalfEnds  # half_ends.pxi


cdef class SendFeed:
    """One listener's feed. `host` is the broker's side of it: `kernel/sends.py` says what it must have."""

    cdef object host
    cdef Appender appender
    cdef Gate gate
    cdef TimeSource time
    cdef bint has_settings
    cdef tuple kept                       # the bytes that the texts below point into
    cdef Names special, typed_special, batch_special
    cdef list detours
    cdef HalfEnds ends                    # None: all ends of transactions are Python's
    cdef Text tail, store_host
    cdef Text host_digits                 # the store host as message ids have it
    cdef Text json[6]
    cdef Text binary[6]
    cdef int64_t max_frame, max_header, max_body, max_given, room_for_properties, most_in_batch
    cdef bint with_crc, waits, index_keys, index_tags
    cdef Buffer log, entries, packed, keys, answers, scratch, ids
    cdef list lanes
    cdef list uncounted                   # lanes with something for the statistics
    cdef int64_t quick                    # messages that were put within a millisecond, for the statistics
    cdef uint64_t turn
    cdef int64_t start, room, store_time
    cdef bint is_admitted, is_refused
    cdef bint drain                       # sends were left for no reason but that others before them were
    cdef dict grants                      # by topic
    cdef Grant kept_grant                 # of the buffer before
    cdef Grant last_grant
    cdef Lane last_lane
    cdef Notes notes
    cdef Allowances allowances            # None: nobody has a quota
    cdef Allowance allowance              # of the frame that is looked at; None: there is no quota
    cdef list drawn                       # what this buffer draws from
    cdef size_t refused_mark
    cdef HeadersAhead *ahead              # of the guard before the feeds; NULL: there is none
    cdef readonly int64_t messages        # taken since the start

    def __init__(self, host, Appender appender, Gate gate, TimeSource time):
        self.host, self.appender, self.gate, self.time = host, appender, gate, time
        self.lanes, self.uncounted, self.grants, self.detours, self.drawn = [], [], {}, [], []

    def __dealloc__(self):
        free(self.ahead)
        free(self.log.at)
        free(self.entries.at)
        free(self.packed.at)
        free(self.keys.at)
        free(self.answers.at)
        free(self.scratch.at)
        free(self.ids.at)

    def use(self, settings):
        """Serve by these settings, and by no verdict that was given before."""
        cdef int i
        cdef list json = list(settings.json), binary = list(settings.binary)
        cdef list special = list(settings.special), batch_special = list(settings.batch_special)
        cdef list typed = [*special, *settings.typed_special]
        cdef bytes store_host, digits_raw
        cdef str digits
        if len(json) != 6 or len(binary) != 6 or max(len(typed), len(batch_special)) > MOST_NAMES:
            raise ValueError("settings of a shape that this kernel does not know")
        store_host = settings.store_host
        digits = store_host.hex()
        digits_raw = digits.encode().upper()
        self.kept = (*json, *binary, *typed, *batch_special, settings.tail, store_host, digits_raw)
        for i in range(6):
            self.json[i] = text_of(json[i])
            self.binary[i] = text_of(binary[i])
        self.detours = [Detour(*one) for one in settings.detours]
        name_all(&self.special, special, self.detours)
        name_all(&self.typed_special, typed, self.detours)
        name_all(&self.batch_special, batch_special, [])
        self.tail = text_of(settings.tail)
        self.store_host = text_of(store_host)
        self.host_digits = text_of(digits_raw)
        self.max_frame, self.max_header = settings.frame_bytes, settings.header_bytes
        self.max_body, self.max_given = settings.body_bytes, settings.property_bytes
        self.room_for_properties = settings.stored_property_bytes
        self.most_in_batch = settings.batch_messages
        self.with_crc, self.waits = settings.with_crc, settings.waits
        self.index_keys, self.index_tags = settings.index_keys, settings.index_tags
        self.has_settings = True
        self.revoke_all()

    cdef HeadersAhead *read_ahead(self) except NULL:
        """Where a guard puts the headers that it has read, for this feed and those before it."""
        if self.ahead == NULL:
            self.ahead = <HeadersAhead *>calloc(1, sizeof(HeadersAhead))
            if self.ahead == NULL:
                raise MemoryError("no memory for the headers of a guard")
        return self.ahead

    def commit_halves(self, HalfEnds ends not None):
        """Serve commits of transactions, too."""
        self.ends = ends

    def hold_to(self, Allowances allowances not None):
        """Hold what is sent and read to quotas; the feeds of pulls and pops before this one, too."""
        self.allowances = allowances

    def revoke(self, bytes topic):
        """Take back the verdict on a topic."""
        cdef Grant grant = self.grants.pop(topic, None)
        if grant is not None:
            grant.is_revoked = True

    def revoke_all(self):
        cdef Grant grant
        for grant in self.grants.values():
            grant.is_revoked = True
        self.grants.clear()

    def feed(self, connection, received):
        """`kernel/seam.py` has the contract."""
        cdef Py_buffer view
        PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
        try:
            return self.take(connection, received, <const uint8_t *>view.buf, view.len, False)
        finally:
            PyBuffer_Release(&view)

    cdef take(self, connection, received, const uint8_t *p, Py_ssize_t n, bint is_rest):
        """`is_rest`: what was left of a buffer when the log's file was full; it goes on in the next one."""
        cdef Py_ssize_t at = 0, end
        cdef uint32_t total, word, header
        cdef int64_t done = 0
        cdef int verdict
        cdef bint is_full = False
        cdef list left = []
        if n < 8 or not self.has_settings:
            return NOTHING
        self.begin(connection, is_rest)
        while n - at >= 8:
            total, word = get32(p + at), get32(p + at + 4)
            header = word & 0xFFFFFF
            if total > self.max_frame or header > self.max_header or total < 4 + header or n - at - 4 < total:
                break
            end = at + 4 + <Py_ssize_t>total
            verdict = self.one(<int>(word >> 24), p + at + 8, header, p + at + 8 + header, total - 4 - header)
            if verdict == STOP:
                is_full = True
                break
            if verdict == LEFT:
                left.append((at, end))
            else:
                done += 1
            at = end
        if self.entries.used and not self.commit():
            self.undo_draws()
            self.notes.all_left = True
            done = 0
        if self.allowances is not None:
            self.allowances.flush(self.notes, connection)
        fed = self.outcome(at, n, received, left) if done else DRAIN if self.drain else NOTHING
        if not is_full:
            return fed
        # Where a whole file has no room for it, or nothing could be stored, Python says so.
        if (at and not done) or (is_rest and not at) or not self.appender.roll():
            self.notes.all_left = True
            return fed
        rest = received[at:]
        return both(fed, as_fed(self.take(connection, rest, p + at, n - at, True), rest))

    cdef outcome(self, Py_ssize_t used, Py_ssize_t n, received, list left):
        cdef bytes answers = PyBytes_FromStringAndSize(<char *>self.answers.at, <Py_ssize_t>self.answers.used)
        if used == n and not left and not self.drain and not (self.waits and answers):
            return answers  # as nearly always
        frames = [received[first:end] for first, end in left] if left else ()
        if self.waits and answers:
            return Fed(used, b"", (PendingReply(self.start + <int64_t>self.log.used, answers),), frames, self.drain)
        return make_tuple(Fed, (used, answers, (), frames, self.drain))  # as Fed(...), without a call of Python's

    cdef int begin(self, connection, bint is_rest) except -1:
        cdef Notes notes = self.notes_of(connection)
        if not is_rest and (notes.all_left or notes.left) and not connection.unfinished_sends:
            notes.all_left = False
            notes.left.clear()
        self.notes = notes
        self.begin_burst()
        return 0

    cdef Notes notes_of(self, connection):
        if type(connection.notes) is not Notes:
            connection.notes = Notes(self.host.born_host(connection.address), connection.address)
        return connection.notes

    cdef int begin_burst(self) except -1:
        self.turn += 1
        self.is_admitted = self.is_refused = self.drain = False
        self.last_grant = None
        self.last_lane = None
        self.lanes.clear()
        self.drawn.clear()
        if self.allowances is not None:
            self.refused_mark = self.allowances.mark(self.notes)
        self.log.used = self.entries.used = self.keys.used = self.answers.used = self.ids.used = 0
        if self.ends is not None and self.ends.order:
            self.ends.begin()

    cdef int one(self, int encoding, const uint8_t *p, Py_ssize_t n, const uint8_t *body, Py_ssize_t size) except -1:
        """One whole frame: taken, left to Python, or the place to stop at."""
        cdef Header h
        cdef Plain m
        cdef bint is_batch, unit
        cdef int64_t number
        cdef Lane lane
        if self.ends is not None and may_be_end(encoding, p, n):
            return self.end(encoding, p, n, size)
        if not may_be_send(encoding, p, n):
            return LEFT
        if not read_once(self.ahead, encoding, p, n, &h, SENDS):
            self.notes.all_left = True
            return LEFT
        if h.seen & REQUIRED != REQUIRED:
            return self.leave(&h)
        self.allowance = None
        if self.allowances is not None and self.allowances.is_on and not h.flag & ~2:
            self.allowance = self.allowances.find(self.notes, h.field[TOPIC], h.field[GROUP])
            if self.allowance is None or self.allowance.sends is None:
                return self.leave(&h)
            if self.allowances.refuses(self.notes, self.allowance.sends, &h):
                return TAKEN
        if self.notes.all_left or (self.notes.left and bytes_of(h.field[TOPIC]) in self.notes.left):
            self.drain = self.drain or self.would_take(&h)
            return self.leave(&h)
        if h.flag & ~2 or not flag_field(&h, BATCH, &is_batch) or not flag_field(&h, UNIT, &unit):
            return self.leave(&h)
        m.reconsume_times = m.prepared = 0
        if (
            not integer(h.field[DEFAULT_QUEUES], INT32_MIN, INT32_MAX, &number)
            or not integer(h.field[QUEUE], 0, INT32_MAX, &m.queue_id)
            or not integer(h.field[SYS_FLAG], INT32_MIN, INT32_MAX, &m.sys_flag)
            or not integer(h.field[BORN], INT64_MIN + 1, INT64_MAX, &m.born)
            or not integer(h.field[FLAG], INT32_MIN, INT32_MAX, &m.flag)
            or (h.seen & (1 << RECONSUME) and not integer(h.field[RECONSUME], INT32_MIN, INT32_MAX, &m.reconsume_times))
            or (h.seen & (1 << MAX_RECONSUME) and not integer(h.field[MAX_RECONSUME], INT32_MIN, INT32_MAX, &number))
        ):
            return self.leave(&h)
        lane = self.lane(h.field[TOPIC], <int>m.queue_id)
        if lane is None:
            return self.leave(&h)
        m.topic = text_of(lane.grant.name)
        m.born_host, m.store_host = text_of(self.notes.born_host), self.store_host
        m.store_time = self.store_time
        m.with_crc = self.with_crc
        m.body.at = body
        m.body.n = size
        return self.send_batch(&h, &m, lane) if is_batch or h.code == 320 else self.send_one(&h, &m, lane)

    cdef bint would_take(self, Header *h) except -1:
        """Whether a send is Python's for no other reason than its place in line, as far as can be told quickly."""
        cdef Text given
        cdef Found found
        cdef Grant grant
        if not self.properties(h, &given) or not walk_properties(given.at, given.n, &self.special, self.waits, &found):
            return False
        if found.detour >= 0 or found.unique.at == NULL:
            return False
        grant = self.granted(h.field[TOPIC])
        return grant is not None and grant.takes_plain

    cdef int leave(self, Header *h) except -1:
        """Later sends of this connection to that topic must not overtake it."""
        if h.seen & (1 << TOPIC):
            self.notes.left.add(bytes_of(h.field[TOPIC]))
        else:
            self.notes.all_left = True
        return LEFT

    cdef Lane lane(self, Text topic, int queue_id):
        """Where it goes, if there is a verdict for that. It is looked at once a buffer, topic and queue."""
        cdef Grant grant = self.last_grant
        cdef Lane lane = self.last_lane
        if grant is None or not is_named(grant, topic):
            grant = self.granted(topic)
            if grant is None:
                return None
            self.last_grant = self.kept_grant = grant
        elif lane is not None and lane.queue_id == queue_id and lane.grant is grant:
            return lane
        if queue_id >= grant.queues or not self.admitted():
            return None
        lane = self.last_lane = self.enter(grant, queue_id, None)
        return lane

    cdef Lane enter(self, Grant grant, int queue_id, QueueTail tail):
        """What this burst adds to a queue; `tail`: the store's, if that is known. None: it has none of this kind."""
        cdef Lane lane = grant.lanes.get(queue_id)
        if lane is None:
            lane = Lane.__new__(Lane)
            lane.grant, lane.queue_id, lane.tail = grant, queue_id, tail
            grant.lanes[queue_id] = lane
        if lane.turn != self.turn:
            if not self.join(lane):
                return None
            join_lane(self.lanes, lane, self.turn)
        return lane

    cdef Grant granted(self, Text topic):
        """The verdict on a topic, as long as it is not revoked; else the broker is asked."""
        cdef Grant grant = self.kept_grant
        cdef bytes name
        if grant is not None and not grant.is_revoked and is_named(grant, topic):
            return grant
        name = bytes_of(topic)
        grant = self.grants.get(name)
        if grant is None:
            grant = self.host.judge(name)
            if grant is not None:
                if len(self.grants) >= MOST_GRANTS:
                    self.revoke_all()
                self.grants[name] = grant
        return grant

    cdef bint join(self, Lane lane) except -1:
        """The store's queue as it is now. False: there is none, or one of another kind."""
        if lane.tail is None or lane.tail.is_removed:
            lane.tail = self.host.queue(lane.grant.topic, lane.queue_id)
        return lane.tail is not None

    cdef bint admitted(self) except -1:
        """Whether anything may be appended, and where: asked once a buffer, and only if there is something to append."""
        if not self.is_admitted and not self.is_refused:
            if not self.is_gate_open() and not self.host.admit():
                self.is_refused = True
                return False
            self.is_admitted = True
            self.open_burst()
        return self.is_admitted

    cdef int open_burst(self) except -1:
        """Its first record begins where the log ends now."""
        cdef LogTail log = self.appender.log
        self.start, self.room = log.end, log.limit - log.end - BLANK_BYTES
        self.store_time = max(self.time.wall_ms(), log.last_time)
        return 0

    cdef bint is_gate_open(self) except -1:
        """Without asking the broker, which would say yes."""
        return (
            not self.gate.closed
            and self.appender.log.end <= self.gate.log_limit
            and self.time.seconds() <= self.gate.due
        )

    cdef int send_one(self, Header *h, Plain *m, Lane lane) except -1:
        cdef Found found
        cdef Names *special
        if not self.properties(h, &m.properties) or m.body.n < 1 or m.body.n > self.max_body:
            return self.leave(h)
        special = &self.typed_special if lane.grant.is_typed else &self.special
        if not walk_properties(m.properties.at, m.properties.n, special, self.waits, &found):
            return self.leave(h)
        if found.unique.at == NULL or (h.is_json and not is_plain_text(found.unique)):
            return self.leave(h)
        if found.detour >= 0:
            return self.send_aside(h, m, &found, lane)
        if m.sys_flag & NOT_PLAIN or not lane.grant.takes_plain:
            return self.leave(h)
        m.end_mark = m.properties.at[m.properties.n - 1] != 2
        m.tail = self.tail
        if property_bytes(m) - (CRC_BYTES if self.with_crc else 0) > self.room_for_properties:
            return self.leave(h)
        if <int64_t>self.log.used + record_bytes(m) > self.room:
            return STOP
        self.ids.used = 0
        self.append(m, &found, lane, tag_hash(&found))
        self.draw(m.body.n, 1)
        note_request(lane, record_bytes(m))
        return self.answer(h, lane, lane.queue_id, 1, found.unique)

    cdef int send_aside(self, Header *h, Plain *m, Found *found, Lane asked) except -1:
        """A message that waits elsewhere before it reaches its topic: to there, with a note of where it belongs."""
        cdef Detour detour = <Detour>self.detours[found.detour]
        cdef int64_t queue_id, wait_ms
        cdef Lane lane
        way = detour.ways.get(bytes_of(found.value))
        if self.allowance is not None and detour.name in self.allowance.aside:
            return self.leave(h)
        if way is None or detour.name not in asked.grant.detours or not detour.takes(m):
            return self.leave(h)
        queue_id, wait_ms = way
        lane = self.enter(detour.grant, <int>queue_id, None)
        if lane is None:
            return self.leave(h)
        m.end_mark = False
        m.tail = detour.noted(self.tail, m.topic, m.queue_id, found.unique)
        if m.properties.n + m.tail.n > detour.room:
            return self.leave(h)
        m.topic, m.queue_id, m.sys_flag = text_of(detour.grant.name), queue_id, m.sys_flag & ~detour.cleared
        if <int64_t>self.log.used + record_bytes(m) > self.room:
            return STOP
        self.ids.used = 0
        self.append(m, found, lane, tag_hash(found) if wait_ms < 0 else self.store_time + wait_ms)
        self.draw(m.body.n, 1)
        note_request(lane, record_bytes(m))
        return self.answer(h, lane, asked.queue_id, 1, found.unique)

    cdef int end(self, int encoding, const uint8_t *p, Py_ssize_t n, Py_ssize_t size) except -1:
        """A commit of a transaction: the message goes to its topic. Whatever else ends one is Python's."""
        cdef Header h
        cdef Plain m
        cdef Found found
        cdef Grant grant
        cdef Lane lane
        cdef int64_t offset
        if size or not read_once(self.ahead, encoding, p, n, &h, ENDS) or not self.admitted():
            return LEFT
        if not self.ends.read(&h, &m, &found, &offset):
            return LEFT
        grant = self.granted(m.topic)   # of a topic without one, Python knows what to do
        lane = None if grant is None else self.enter(grant, <int>m.queue_id, None)
        if lane is None:
            return LEFT
        m.topic, m.store_host = text_of(grant.name), self.store_host
        m.store_time, m.with_crc = self.store_time, self.with_crc
        if <int64_t>self.log.used + record_bytes(&m) > self.room:
            return STOP
        self.append(&m, &found, lane, tag_hash(&found))
        lane.puts += 1  # no request of a producer that would tell sizes
        self.ends.pending.add(offset)
        self.ends.order.append(offset)
        self.ends.topics.append(grant.topic)
        self.ends.born.append(m.born)
        if not h.flag & 2:
            self.ends.put_answer(&h, &self.answers)
        return TAKEN

    cdef int send_batch(self, Header *h, Plain *m, Lane lane) except -1:
        """The messages of a batch as records of their own, in one file, all or none."""
        cdef Found found, inner
        cdef Before before
        cdef Text batch = m.body
        cdef const Names *special = &self.typed_special if lane.grant.is_typed else &self.batch_special
        cdef const uint8_t *p = batch.at
        cdef const uint8_t *end = batch.at + batch.n
        cdef Py_ssize_t size
        if not self.properties(h, &m.properties) or batch.n < 1 or batch.n > self.max_body:
            return self.leave(h)
        if m.sys_flag & NOT_PLAIN or not lane.grant.takes_plain:
            return self.leave(h)
        if not walk_properties(m.properties.at, m.properties.n, &self.special, self.waits, &found) or found.detour >= 0:
            return self.leave(h)
        if found.unique.at == NULL or (h.is_json and not is_plain_text(found.unique)):
            return self.leave(h)
        m.tail.at, m.tail.n = NULL, 0
        self.ids.used = 0
        before.log, before.entries, before.keys = self.log.used, self.entries.used, self.keys.used
        before.next, before.size = lane.next, lane.size
        before.ordered, before.ordered_size = lane.ordered, lane.ordered_size
        while p < end:
            size = self.cut(p, end, special, m, &inner)
            if size == 0:
                self.take_back(&before, lane)
                return self.leave(h)
            if <int64_t>self.log.used + record_bytes(m) > self.room:
                self.take_back(&before, lane)
                while p < end and size:  # a batch that is no good is Python's to refuse, in this file or the next
                    size = self.cut(p, end, special, m, &inner)
                    p += size
                return STOP if size else self.leave(h)
            self.append(m, &inner, lane, tag_hash(&inner))
            p += size
        if lane.next - before.next > self.most_in_batch:
            self.take_back(&before, lane)  # Python refuses it, or takes it where nobody wants the ids
            return self.leave(h)
        self.draw(batch.n, lane.next - before.next)
        note_request(lane, (lane.size - before.size) // max(1, lane.next - before.next))
        return self.answer(h, lane, lane.queue_id, <int>(lane.next - before.next), found.unique)

    cdef Py_ssize_t cut(
        self, const uint8_t *p, const uint8_t *end, const Names *special, Plain *m, Found *found
    ) noexcept:
        """The next message of a batch and how long it is; 0: malformed, or not plain."""
        cdef Py_ssize_t size = cut_message(p, end - p, m)
        if size == 0 or not walk_properties(m.properties.at, m.properties.n, special, False, found) or found.detour >= 0:
            return 0
        return size if m.properties.n <= self.room_for_properties - 1 else 0

    cdef void take_back(self, const Before *before, Lane lane) noexcept:
        """The records of a batch that cannot be taken whole."""
        self.log.used, self.entries.used, self.keys.used = before.log, before.entries, before.keys
        lane.count -= <Py_ssize_t>(lane.next - before.next)
        lane.next, lane.size = before.next, before.size
        lane.ordered, lane.ordered_size = before.ordered, before.ordered_size

    cdef bint properties(self, Header *h, Text *out) except -1:
        """The given properties as bytes, valid until the next frame; False: there are none, or they are not UTF-8."""
        cdef Text given = h.field[PROPERTIES]
        cdef Py_ssize_t n
        if not h.seen & (1 << PROPERTIES) or given.n == 0:
            return False
        if h.escaped:
            self.scratch.used = 0
            reserve(&self.scratch, <size_t>given.n)
            n = unescape(given, self.scratch.at)
            if n < 1:
                return False
            given.at, given.n = self.scratch.at, n
        if given.n > self.max_given or (h.wide and not is_utf8(given.at, given.n)):
            return False
        out[0] = given
        return True

    cdef int append(self, Plain *m, Found *found, Lane lane, int64_t tag_code) except -1:
        """One record, its queue entry and its keys."""
        cdef Py_ssize_t size = record_bytes(m)
        m.queue_offset = lane.next
        m.position = self.start + <int64_t>self.log.used
        reserve(&self.log, <size_t>size)
        put_record(self.log.at + self.log.used, m)
        self.log.used += <size_t>size
        note_entry(&self.entries, lane, m.position, size, tag_code)
        reserve(&self.ids, 8)
        put64(self.ids.at + self.ids.used, <uint64_t>m.position)
        self.ids.used += 8
        if self.index_keys:
            add_keys(&self.keys, lane.grant.prefix, found, self.index_tags, m.position)
        lane.size += size
        if found.is_ordered:
            lane.ordered += 1
            lane.ordered_size += size
        return 0

    cdef int draw(self, Py_ssize_t size, int64_t messages) except -1:
        """Take what a send costs from its quotas."""
        cdef Allowance one = self.allowance
        if one is not None:
            if one.turn != self.turn:
                one.turn, one.size, one.messages = self.turn, 0, 0
                self.drawn.append(one)
            one.size += size
            one.messages += messages
            draw(one.sends, size, messages, self.allowances.now)
        return 0

    cdef int undo_draws(self) except -1:
        """Nothing of this buffer is stored: Python gets all of it, and counts."""
        cdef Allowance one
        cdef Bucket bucket
        for one in self.drawn:
            for bucket in one.sends:
                bucket.give_back(<double>(one.size if bucket.counts_bytes else one.messages))
        if self.allowances is not None:
            self.allowances.forget(self.notes, self.refused_mark)
        return 0

    cdef int answer(self, Header *h, Lane lane, int queue_id, int count, Text unique) except -1:
        """`queue_id`: the one that was asked for, wherever the message waits."""
        cdef Answer a
        if not h.flag & 2:
            a.opaque, a.queue_id, a.queue_offset = h.opaque, queue_id, lane.next - count
            a.unique, a.host, a.is_json = unique, self.host_digits, h.is_json
            a.ids.at, a.ids.n = self.ids.at, <Py_ssize_t>self.ids.used
            put_answer(&self.answers, &a, self.json, self.binary)
        return TAKEN

    cdef bint commit(self) except -1:
        """Append all of it. False: nothing is stored, and Python shall try and say why."""
        cdef Py_ssize_t messages = <Py_ssize_t>(self.entries.used // sizeof(Entry))
        cdef Addition new
        cdef double begun, seconds
        if self.appender.stopped is not None or self.appender.log.end != self.start:
            return False
        pack_entries(self.lanes, &self.entries, &self.packed)
        begun = self.time.seconds()
        new.records, new.n, new.start, new.store_time = self.log.at, <Py_ssize_t>self.log.used, self.start, self.store_time
        new.last_position = (<Entry *>(self.entries.at + self.entries.used - sizeof(Entry))).position
        new.keys, new.key_count = self.keys.at, <Py_ssize_t>(self.keys.used // KEY_BYTES)
        new.runs, new.run_count = NULL, 0
        try:
            self.appender.put(&new, self.lanes)
        except Exception:  # Python meets it too
            return False
        seconds = self.time.seconds() - begun
        if seconds < 0.001:
            self.quick += messages
        else:
            self.host.note_slow(seconds, messages)
        self.count()
        self.messages += messages
        if self.ends is not None:
            self.ends.done()
        return True

    cdef int count(self) except -1:
        """What was stored, for the statistics."""
        cdef Lane lane
        cdef int place
        for lane in self.lanes:
            if lane.count:
                if not lane.uncounted_messages:
                    self.uncounted.append(lane)
                lane.uncounted_messages += lane.count
                lane.uncounted_size += lane.size
                lane.uncounted_puts += lane.puts
                lane.uncounted_ordered += lane.ordered
                lane.uncounted_ordered_size += lane.ordered_size
                for place in range(SIZE_BOUNDS + 1):
                    lane.uncounted_sizes[place] += lane.sizes[place]
        return 0

    def take_counts(self):
        """What was stored since the last call: topic, queue, messages, bytes and requests of each queue, its requests by
        size, its messages with an order key and their bytes, and how many messages were put within a millisecond."""
        cdef Lane lane
        cdef int i
        cdef list counts = []
        for lane in self.uncounted:
            sizes = tuple([lane.uncounted_sizes[i] for i in range(SIZE_BOUNDS + 1)])
            ordered = lane.uncounted_ordered, lane.uncounted_ordered_size
            whole = lane.uncounted_messages, lane.uncounted_size, lane.uncounted_puts
            counts.append((lane.grant.topic, lane.queue_id, *whole, sizes, ordered))
            lane.uncounted_messages = lane.uncounted_size = lane.uncounted_puts = 0
            lane.uncounted_ordered = lane.uncounted_ordered_size = 0
            memset(lane.uncounted_sizes, 0, sizeof(lane.uncounted_sizes))
        self.uncounted.clear()
        quick, self.quick = self.quick, 0
        return counts, quick


cdef both(first, second):
    """Of the two parts of a buffer."""
    return Fed(
        first.used + second.used,
        first.ready + second.ready,
        (*first.waiting, *second.waiting),
        (*first.frames, *second.frames),
        first.drain or second.drain,
    )


cdef inline bint is_named(LaneTopic topic, Text name) noexcept:
    return same(name, PyBytes_AS_STRING(topic.name), PyBytes_GET_SIZE(topic.name))


cdef Py_ssize_t cut_message(const uint8_t *p, Py_ssize_t n, Plain *m) noexcept nogil:
    """One message of a batch body; the bytes that it takes, 0 if they make no message."""
    cdef int64_t total, body, given
    if n < 22:
        return 0
    total, body = <int32_t>get32(p), <int32_t>get32(p + 16)
    if body < 0 or total > n or 22 + body > total:
        return 0
    given = <int64_t>get16(p + 20 + body)
    if given > 32767 or 22 + body + given != total:
        return 0
    m.flag = <int32_t>get32(p + 12)
    m.body.at, m.body.n = p + 20, <Py_ssize_t>body
    m.properties.at, m.properties.n = p + 22 + body, <Py_ssize_t>given
    m.end_mark = m.with_crc and given > 0 and m.properties.at[given - 1] != 2
    return <Py_ssize_t>total


cdef inline bint may_be_end(int encoding, const uint8_t *p, Py_ssize_t n) noexcept nogil:
    if encoding == 1:
        return n >= 2 and get16(p) == 37
    return n >= 11 and memcmp(p, b'{"code":37,', 11) == 0


cdef inline bint may_be_send(int encoding, const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """Cheaply, from the first bytes: no for what is certainly another request."""
    cdef const char *start = b'{"code":'
    cdef uint32_t code
    if encoding == 1:
        code = get16(p) if n >= 2 else 0
        return code == 10 or code == 310 or code == 320 or code == 324 or code == 325
    if n < 12 or memcmp(p, start, 8) != 0:
        return True
    return (
        memcmp(p + 8, b"310,", 4) == 0
        or memcmp(p + 8, b"320,", 4) == 0
        or memcmp(p + 8, b"10,", 3) == 0
        or memcmp(p + 8, b"324,", 4) == 0
        or memcmp(p + 8, b"325,", 4) == 0
    )
