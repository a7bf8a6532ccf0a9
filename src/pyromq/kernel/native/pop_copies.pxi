# Copies of messages whose invisible time is over: from due check points to records of retry topics, in one append. Their
# bytes are those of broker/pop/retry_records.py. What is odd is left to Python, before anything of it has changed.

cdef enum:
    COPIED_ENOUGH = 1 << 20                         # bytes of copies in one call; check points with more are Python's
    MOST_COPIED_PROPERTIES = 0x7FFF - CRC_BYTES     # with more, Python drops some
    AHEAD_DUE = 64                                  # queue entries that are read at once


cdef struct DuePoint:
    int64_t start, pop_time
    uint32_t lane             # its place among the lanes
    int copied                # messages


cdef class CopiedLane:
    """Where the messages of a lane are, and where their copies go, for one call."""

    cdef QueueTail queue
    cdef ResidentFiles entries
    cdef Lane into
    cdef bytes group
    cdef int64_t first, until         # entries that were read
    cdef uint8_t at[ENTRY_BYTES * AHEAD_DUE]

    cdef const uint8_t *entry(self, int64_t offset) except? NULL:
        """Of that message; NULL: the queue does not have it, or not in memory."""
        cdef int64_t count
        if not self.queue.min_offset <= offset < self.queue.end:
            return NULL
        if not self.first <= offset < self.until:
            count = (self.entries.file_bytes - offset * ENTRY_BYTES % self.entries.file_bytes) // ENTRY_BYTES
            count = min(count, min(<int64_t>AHEAD_DUE, self.queue.end - offset))
            self.first = self.until = 0
            if count < 1 or not self.entries.read(offset * ENTRY_BYTES, self.at, <Py_ssize_t>(count * ENTRY_BYTES)):
                return NULL
            self.first, self.until = offset, offset + count
        return self.at + ENTRY_BYTES * (offset - self.first)


cdef class RetryCopier:
    """The broker's. `host` is its side (`CopyHost` of kernel/pops.py). The feeds are its own: a burst of records is gathered
    and appended as those of sends are, and messages are read as pulls read them."""

    cdef object host
    cdef PopTable table
    cdef SendFeed sends
    cdef PullFeed pulls
    cdef bytes store_host
    cdef dict sources                 # of this call, by number of the lane; None: left to Python
    cdef dict grants                  # of this call, by retry topic
    cdef bint is_full                 # the log's file: Python begins the next one, with all that is left
    cdef Buffer points, stored, properties
    cdef readonly int64_t messages    # copied since the start

    def __init__(self, host, PopTable table not None, Appender appender not None, ResidentFiles records not None, TimeSource time not None):
        self.host, self.table = host, table
        self.sends = SendFeed(host, appender, None, time)
        self.pulls = PullFeed(None, None, appender.log, records, None, 0, 0)
        self.sources, self.grants = {}, {}

    def __dealloc__(self):
        free(self.points.at)
        free(self.stored.at)
        free(self.properties.at)

    def use(self, settings):
        """`CopySettings` of kernel/pops.py."""
        self.store_host, self.sends.max_body, self.sends.with_crc, self.sends.index_keys, self.sends.index_tags = settings

    def copy_due(self, int64_t now_ms, Py_ssize_t most):
        """Copy about so many messages of check points that are due, and let these go. kernel/python/retry_copier.py."""
        cdef bint more = self.gather(now_ms, most)
        cdef Py_ssize_t count = <Py_ssize_t>(self.points.used // sizeof(DuePoint)), i
        cdef DuePoint *due = <DuePoint *>self.points.at
        cdef list left = []
        cdef uint32_t place
        cdef PopLane lane
        self.sources.clear()
        self.grants.clear()
        self.is_full = False
        self.sends.begin_burst()
        self.sends.open_burst()
        for i in range(count):
            if self.sends.log.used >= COPIED_ENOUGH:
                more = True
                break
            lane = self.table.lane_at(due[i].lane)
            place = self.table.find(lane, due[i].start, due[i].pop_time)
            if place != NO_POINT and (self.is_full or not self.copy_point(lane, place, &due[i])):
                left.append(self.table.as_given(place))
        if self.sends.log.used and not self.sends.commit():
            return CopiedDue((), (), 0, [self.table.as_given(one) for one in self.places_of(count)], more)
        lanes = self.let_go(count)
        counts, quick = self.sends.take_counts()
        return CopiedDue(lanes, counts, quick, left, more)

    cdef bint gather(self, int64_t now_ms, Py_ssize_t most) except -1:
        """The first check points that are due, with about so many messages. True: there may be more. All stay."""
        cdef PopTable table = self.table
        cdef DuePoint due
        cdef PopPoint *point
        cdef uint32_t place
        cdef list taken = []
        self.points.used = 0
        if table.asleep:
            table.wake()
        while table.heap[BY_DUE].used and most > 0:
            place = table.heap[BY_DUE].at[0]
            point = table.arena + place
            if due_of(point) > now_ms:
                break
            due.start, due.pop_time, due.lane, due.copied = point.start, point.pop_time, point.lane, 0
            reserve(&self.points, sizeof(DuePoint))
            memcpy(self.points.at + self.points.used, &due, sizeof(DuePoint))
            self.points.used += sizeof(DuePoint)
            most -= bit_count(point.open)
            taken.append(place)
            table.pull_out(BY_DUE, place)
        for one in taken:
            table.push(BY_DUE, <uint32_t>one)
        return most <= 0

    cdef list places_of(self, Py_ssize_t count):
        """Those of the gathered check points that are still open."""
        cdef DuePoint *due = <DuePoint *>self.points.at
        cdef list places = []
        cdef Py_ssize_t i
        cdef uint32_t place
        for i in range(count):
            place = self.table.find(self.table.lane_at(due[i].lane), due[i].start, due[i].pop_time)
            if place != NO_POINT:
                places.append(place)
        return places

    cdef list let_go(self, Py_ssize_t count):
        """The check points whose copies were put, looked for again: who was told of the copies may have popped and acked.
        Their lanes, by number, with how many messages were copied."""
        cdef DuePoint *due = <DuePoint *>self.points.at
        cdef dict copied = {}
        cdef PopLane lane
        cdef Py_ssize_t i
        for i in range(count):
            if due[i].copied:
                lane = self.table.lane_at(due[i].lane)
                self.table.go(lane, due[i].start, due[i].pop_time, POP_REVIVED)
                copied[lane.number] = copied.get(lane.number, 0) + due[i].copied
                self.messages += due[i].copied
        return list(copied.items())

    # --- one check point ------------------------------------------------------------------------------------------

    cdef bint copy_point(self, PopLane lane, uint32_t place, DuePoint *due) except -1:
        """All its open messages. False: none of them, and Python shall look."""
        cdef CopiedLane source = self.source_of(lane)
        cdef const PopPoint *point = self.table.arena + place
        cdef SendFeed sends = self.sends
        cdef Before before
        cdef const uint8_t *raw
        cdef Pulled *one
        cdef int64_t total
        cdef int i, count = bit_count(point.open)
        if source is None:
            return False
        total = self.pick(source, point)
        if not 0 < total <= COPIED_ENOUGH:
            return False
        self.stored.used = 0
        reserve(&self.stored, <size_t>total)
        if not self.pulls.fetch(self.stored.at):
            return False
        before.log, before.entries, before.keys = sends.log.used, sends.entries.used, sends.keys.used
        before.next, before.size = source.into.next, source.into.size
        raw, one = self.stored.at, <Pulled *>self.pulls.picked.at
        for i in range(count):
            if not self.copy_one(raw, <Py_ssize_t>one[i].size, one[i].offset, source, point):
                source.into.puts -= i
                sends.take_back(&before, source.into)
                return False
            raw += one[i].size
        due.copied = count
        return True

    cdef CopiedLane source_of(self, PopLane lane):
        """Asked once a call and lane. None: these are Python's."""
        cdef CopiedLane source = None
        cdef Grant grant
        if lane.number in self.sources:
            return self.sources[lane.number]
        target = self.host.target(lane.number)
        if target is not None:
            source = CopiedLane.__new__(CopiedLane)
            source.queue, source.entries, topic, queue_id, tail = target
            source.group = lane.group.encode()
            grant = self.grants.get(topic)
            if grant is None:
                grant = self.grants[topic] = Grant(topic, 0)
            source.into = self.sends.enter(grant, queue_id, tail)
        self.sources[lane.number] = source
        return source

    cdef int64_t pick(self, CopiedLane source, const PopPoint *point) except -1:
        """Where its open messages are, as the feed of pulls picks them, and their bytes. 0: not so."""
        cdef LogTail log = self.pulls.log
        cdef uint64_t rest = point.open
        cdef const uint8_t *entry
        cdef Pulled *one
        cdef int64_t total = 0
        self.pulls.picked.used = 0
        reserve(&self.pulls.picked, <size_t>bit_count(rest) * sizeof(Pulled))
        while rest:
            one = <Pulled *>(self.pulls.picked.at + self.pulls.picked.used)
            one.offset = offset_of(point, lowest_bit(rest))
            entry = source.entry(one.offset)
            if entry == NULL:
                return 0
            one.position, one.size = <int64_t>get64(entry), <int32_t>get32(entry + 8)
            if one.size < FIXED_BYTES or one.position < log.start or one.position > log.end - one.size:
                return 0
            total += one.size
            self.pulls.picked.used += sizeof(Pulled)
            rest &= rest - 1
        return total

    # --- one message ----------------------------------------------------------------------------------------------

    cdef bint copy_one(self, const uint8_t *raw, Py_ssize_t size, int64_t offset, CopiedLane source, const PopPoint *point) except -1:
        """Its copy, behind those that are there. False: Python's to make."""
        cdef SendFeed sends = self.sends
        cdef Place place
        cdef Plain m
        cdef Found found
        cdef int64_t times
        if not place_of(raw, size, &place) or place.size != size or <int64_t>get64(raw + 20) != offset:
            return False
        if place.sys_flag & 0xC0 or place.sys_flag & 0x0C not in (0, 8):   # of a batch; half or rolled back
            return False
        if place.body.n > sends.max_body or not is_utf8(place.topic.at, place.topic.n):
            return False
        times = <int32_t>get32(place.middle)
        memset(&m, 0, sizeof(Plain))
        if not self.put_properties(place.properties, text_of(source.group), times == 0, point.pop_time, &m.properties):
            return False
        if not walk_properties(m.properties.at, m.properties.n, &no_names, False, &found):
            return False
        m.topic, m.body = text_of(source.into.grant.name), place.body
        m.born_host = m.store_host = text_of(self.store_host)
        m.queue_id, m.flag, m.sys_flag = source.into.queue_id, <int32_t>get32(raw + 16), place.sys_flag
        m.born, m.store_time, m.with_crc = <int64_t>get64(raw + 40), sends.store_time, sends.with_crc
        m.reconsume_times = min(times + (not point.suspend), <int64_t>INT32_MAX)
        if <int64_t>sends.log.used + record_bytes(&m) > sends.room:
            self.is_full = True
            return False
        sends.append(&m, &found, source.into, tag_hash(&found))
        source.into.puts += 1
        return True

    cdef bint put_properties(self, Text given, Text group, bint is_first, int64_t pop_time, Text *out) except -1:
        """Those of the copy. `is_first`: it was not tried again before, so that this pop is its first. False: Python's."""
        cdef Text names[MOST_PAIRS]
        cdef Text values[MOST_PAIRS]
        cdef Text first, name
        cdef uint8_t digits[21]
        cdef uint8_t *r
        cdef int i, count = pairs_of(given, names, values)
        cdef bint has_first = False, has_group = False
        if count < 0:
            return False
        first.at = digits
        first.n = put_number(digits, pop_time) - digits
        self.properties.used = 0
        reserve(&self.properties, <size_t>(given.n + 2 * (first.n + group.n) + 64))
        r = self.properties.at
        for i in range(count):
            if same(names[i], b"POP_CK", 6) or same(names[i], b"__CRC32#", 8):
                continue
            if same(names[i], b"1ST_POP_TIME", 12):
                has_first = True
                if is_first:
                    values[i] = first
            elif same(names[i], b"ORIGIN_GROUP", 12):
                has_group = True
                values[i] = group
            r = put_pair(r, names[i], values[i])
        name.n = 12
        if not has_first:
            name.at = <const uint8_t *>b"1ST_POP_TIME"
            r = put_pair(r, name, first)
        if not has_group:
            name.at = <const uint8_t *>b"ORIGIN_GROUP"
            r = put_pair(r, name, group)
        out.at, out.n = self.properties.at, r - self.properties.at
        return out.n <= MOST_COPIED_PROPERTIES
