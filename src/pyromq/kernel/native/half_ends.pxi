# Commits of transactions: from the stored half message to the record that consumers get. Rollbacks, ends of what producers
# were asked about, and whatever is odd are Python's: broker/transactions/end.py has the whole rule.

cdef enum:
    END_GROUP = 0, END_OFFSET = 1, END_POSITION = 2, END_HOW = 3, END_MESSAGE = 4, END_FROM_CHECK = 5, END_TOPIC = 6
    END_TRANSACTION = 7, END_BROKER_NAME = 8
    END_REQUIRED = 0x1F       # all fields up to END_MESSAGE
    COMMITTED_BIT = 8         # of the system flag; the same number in commitOrRollback
    HALF_AT_ONCE = 1024       # bytes of a half message that are read at first


cdef int end_field(Text name) noexcept nogil:
    """Number of a field of request 37; -1 for any other."""
    if same(name, b"producerGroup", 13): return END_GROUP
    if same(name, b"tranStateTableOffset", 20): return END_OFFSET
    if same(name, b"commitLogOffset", 15): return END_POSITION
    if same(name, b"commitOrRollback", 16): return END_HOW
    if same(name, b"msgId", 5): return END_MESSAGE
    if same(name, b"fromTransactionCheck", 20): return END_FROM_CHECK
    if same(name, b"topic", 5): return END_TOPIC
    if same(name, b"transactionId", 13): return END_TRANSACTION
    if same(name, b"bname", 5): return END_BROKER_NAME
    return -1


cdef class HalfStates:
    """What became of half messages, by offset from `origin` on: kernel/python/state.py."""

    cdef public int64_t origin
    cdef readonly bytearray states
    cdef readonly dict checks

    def __init__(self, int64_t origin, dict checks not None):
        self.origin, self.states, self.checks = origin, bytearray(), checks

    cdef bint is_undecided(self, int64_t offset) except -1:
        """Whether nobody has ended it, nor asked its producer about it. False, too, for what may have been forgotten."""
        cdef int64_t place = offset - self.origin
        if place < 0 or offset in self.checks:
            return False
        return place >= len(self.states) or PyByteArray_AS_STRING(self.states)[place] == 0


cdef class HalfEnds:
    """One listener's. `host` is told which half messages were committed (`EndHost` of kernel/sends.py)."""

    cdef object host
    cdef HalfStates states
    cdef LogTail log
    cdef ResidentFiles records
    cdef bytes half_topic, store_host, json_head, json_tail, binary
    cdef tuple dropped, without       # pairs that a commit leaves out; texts with which it is Python's
    cdef bytes topic_mark, queue_mark, group_mark
    cdef Buffer half, properties
    cdef set pending                  # offsets that this burst commits
    cdef list order                   # the same, in order
    cdef list topics, born            # of these, for the statistics

    def __init__(self, host, HalfStates states not None, LogTail log not None, ResidentFiles records not None, rules):
        """`rules`: the fields of `EndRules`, in their order."""
        cdef str half_topic
        self.host, self.states, self.log, self.records = host, states, log, records
        half_topic, self.topic_mark, self.queue_mark, self.group_mark, dropped, without, json, self.binary = rules
        self.half_topic = half_topic.encode("ascii")
        self.json_head, self.json_tail = json
        self.dropped, self.without = tuple(dropped), tuple(without)
        self.pending, self.order = set(), []
        self.topics, self.born = [], []

    def __dealloc__(self):
        free(self.half.at)
        free(self.properties.at)

    cdef void begin(self):
        self.pending.clear()
        self.order.clear()
        self.topics.clear()
        self.born.clear()

    cdef bint read(self, Header *h, Plain *m, Found *found, int64_t *offset) except -1:
        """The message that a commit puts, all but where it goes in the log. False: Python's."""
        cdef int64_t position, how
        cdef bint from_check
        cdef Place place
        cdef const uint8_t *p
        if h.seen & END_REQUIRED != END_REQUIRED or h.flag & ~2:
            return False
        if (
            not integer(h.field[END_OFFSET], 0, INT64_MAX, offset)
            or not integer(h.field[END_POSITION], 0, INT64_MAX, &position)
            or not integer(h.field[END_HOW], COMMITTED_BIT, COMMITTED_BIT, &how)
            or not flag_field(h, END_FROM_CHECK, &from_check)
        ):
            return False
        if offset[0] in self.pending or not self.states.is_undecided(offset[0]):
            return False
        p = self.record_at(position)
        if p == NULL or not place_of(p, <Py_ssize_t>get32(p), &place):
            return False
        if place.sys_flag & NOT_PLAIN or not same(place.topic, PyBytes_AS_STRING(self.half_topic), PyBytes_GET_SIZE(self.half_topic)):
            return False
        if <int64_t>get64(p + 20) != offset[0]:
            return False
        memset(m, 0, sizeof(Plain))
        if not self.put_properties(place.properties, h.field[END_GROUP], m):
            return False
        if not walk_properties(m.properties.at, m.properties.n, &no_names, False, found):
            return False
        m.body = place.body
        m.born_host.at, m.born_host.n = p + 48, place.store_time - (p + 48)
        m.flag, m.sys_flag = <int32_t>get32(p + 16), place.sys_flag | COMMITTED_BIT
        m.born, m.reconsume_times, m.prepared = <int64_t>get64(p + 40), <int32_t>get32(place.middle), position
        return True

    cdef const uint8_t *record_at(self, int64_t position) except? NULL:
        """The whole record there, with its own CRC; NULL: there is none, or not in memory."""
        cdef int64_t rest = self.log.end - position
        cdef int64_t n = min(<int64_t>HALF_AT_ONCE, min(rest, self.records.file_bytes - position % self.records.file_bytes))
        cdef uint32_t size
        if position < self.log.start or n < FIXED_BYTES:
            return NULL
        self.half.used = 0
        reserve(&self.half, HALF_AT_ONCE)
        if not self.records.read(position, self.half.at, <Py_ssize_t>n):
            return NULL
        size = get32(self.half.at)
        if size < FIXED_BYTES or size > rest:
            return NULL
        if size > n:
            reserve(&self.half, size)
            if not self.records.read(position, self.half.at, <Py_ssize_t>size):
                return NULL
        return self.half.at if is_sealed(self.half.at, <Py_ssize_t>size, position) else NULL

    cdef bint put_properties(self, Text given, Text group, Plain *m) except -1:
        """Those of the half message without its wait; topic and queue are what it says. False: Python's."""
        cdef const uint8_t *p = given.at
        cdef const uint8_t *end = given.at + given.n
        cdef const uint8_t *stop
        cdef uint8_t *r
        cdef Text pair, queue
        cdef bytes text
        cdef bint is_of_group = False
        queue.at = NULL
        for text in self.without:
            if memmem(given.at, <size_t>given.n, PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text)) != NULL:
                return False
        self.properties.used = 0
        reserve(&self.properties, <size_t>given.n + 1)
        r = self.properties.at
        while p < end:
            stop = <const uint8_t *>memchr(p, 2, <size_t>(end - p))
            if stop == NULL:
                stop = end
            pair.at, pair.n = p, stop - p
            p = stop + 1
            if begins(pair, self.topic_mark):
                if m.topic.at != NULL:
                    return False
                m.topic = behind(pair, self.topic_mark)
            elif begins(pair, self.queue_mark):
                if queue.at != NULL:
                    return False
                queue = behind(pair, self.queue_mark)
            elif begins(pair, self.group_mark):
                if is_of_group:
                    return False
                is_of_group = True
                if pair.n - PyBytes_GET_SIZE(self.group_mark) != group.n or memcmp(behind(pair, self.group_mark).at, group.at, <size_t>group.n) != 0:
                    return False
            if pair.n == 0 or self.is_dropped(pair):
                continue
            r = put_text(r, pair)
            r[0] = 2
            r += 1
        m.properties.at, m.properties.n = self.properties.at, r - self.properties.at
        return is_of_group and m.topic.at != NULL and queue.at != NULL and integer(queue, 0, INT32_MAX, &m.queue_id)

    cdef bint is_dropped(self, Text pair) except -1:
        cdef bytes mark
        for mark in self.dropped:
            if begins(pair, mark):
                return True
        return False

    cdef int put_answer(self, Header *h, Buffer *out) except -1:
        """That the commit is stored."""
        cdef uint8_t *r
        cdef uint8_t *start
        reserve(out, <size_t>(8 + PyBytes_GET_SIZE(self.json_head) + PyBytes_GET_SIZE(self.json_tail) + PyBytes_GET_SIZE(self.binary) + 20))
        start = out.at + out.used
        if h.is_json:
            r = put_number(put_text(start + 8, text_of(self.json_head)), h.opaque)
            r = put_text(r, text_of(self.json_tail))
        else:
            r = put_text(start + 8, text_of(self.binary))
            put32(start + 8 + 5, <uint32_t>h.opaque)
        put32(start, <uint32_t>(r - start - 4))
        put32(start + 4, <uint32_t>(r - start - 8) | (0 if h.is_json else 1 << 24))
        out.used += <size_t>(r - start)
        return 0

    cdef int done(self) except -1:
        """All of the burst is stored."""
        cdef list committed = self.order
        if committed:
            topics, born = self.topics, self.born
            self.order, self.topics, self.born = [], [], []
            self.pending.clear()
            self.host.note_committed(committed, topics, born)
        return 0


cdef inline bint begins(Text pair, bytes mark):
    cdef Py_ssize_t n = PyBytes_GET_SIZE(mark)
    return pair.n >= n and memcmp(pair.at, PyBytes_AS_STRING(mark), <size_t>n) == 0


cdef inline Text behind(Text pair, bytes mark):
    cdef Text value
    value.at, value.n = pair.at + PyBytes_GET_SIZE(mark), pair.n - PyBytes_GET_SIZE(mark)
    return value
