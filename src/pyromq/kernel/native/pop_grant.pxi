# Verdicts on pops and acks, and the headers of their answers, which are cut from what protocol/command.py writes
# (broker/pop/verdicts.py); ours are the values.

cdef enum:
    SLOT_POP_TIME = 0, SLOT_INVISIBLE = 1, SLOT_REVIVE = 2, SLOT_REST = 3, SLOT_STARTS = 4, SLOT_OFFSETS = 5, SLOT_OPAQUE = 6
    MOST_SLOTS = 8


cdef class PopQueue:
    """One queue that pops of a group look into. `read` has its tail, entries, tags and limits."""

    cdef PopLane lane                 # None: it is not open, and the group would begin at `start`
    cdef int64_t start
    cdef PullGrant read
    cdef uint8_t mark                 # of receipts: 0, 1 or 2 as a digit

    def __init__(self, PopTable table not None, lane, int64_t start, str group, QueueTail queue not None, ResidentFiles entries not None, codes, limits, uint8_t mark):
        """`limits`: messages, bytes, entries that are scanned."""
        self.mark = mark
        self.lane = None if lane is None else table.lane_of(lane)
        self.start = start
        self.read = PullGrant.__new__(PullGrant)
        self.read.group, self.read.queue, self.read.entries = group, queue, entries
        self.read.max_count, self.read.max_bytes, self.read.scan = limits
        if self.read.max_count < 1:
            raise ValueError("a pop reads one message at least")
        if codes is not None:
            self.read.codes = bytes(array("q", sorted(codes)))

    cdef inline int64_t next(self) noexcept:
        return self.start if self.lane is None else self.lane.next

    cdef inline bint is_empty(self) noexcept:
        return self.next() == self.read.queue.readable_end


cdef class PopGrant:
    """A verdict: pops with these fields may be answered from these queues, until something changes."""

    cdef readonly object verdict
    cdef tuple changes, places        # queues of the topic, then of its retry topics
    cdef int queues, first, second    # how many of each
    cdef int64_t most
    cdef int percent
    cdef bint ascending, is_any, reads_second, reads_both
    cdef bytes topic, broker

    def __init__(self, verdict, tuple changes not None, tuple queues not None, tuple first not None, tuple second not None, rules):
        """`queues`: in order of their numbers, or the one that was asked for. `first`, `second`: of the retry topics of
        both forms. `rules`: `SearchRules` of kernel/pops.py."""
        cdef ChangeFlag change
        cdef PopQueue queue
        for change in changes:
            pass                      # of this type: `is_void` does not ask again
        self.places = queues + first + second
        for queue in self.places:
            if queue is None:
                raise ValueError("a verdict has queues")
        self.verdict, self.changes = verdict, changes
        self.queues, self.first, self.second = <int>len(queues), <int>len(first), <int>len(second)
        self.is_any, self.most, self.ascending, self.percent, self.reads_second, self.reads_both, self.topic, self.broker = rules
        if not queues or self.most < 1:
            raise ValueError("a grant of a shape that this kernel does not know")

    cdef bint is_void(self) noexcept:
        return has_changed(self.changes)


cdef class AckGrant:
    """A verdict: this lane is open, and its queue is there."""

    cdef PopLane lane
    cdef QueueTail queue
    cdef tuple changes

    def __init__(self, PopTable table not None, lane, QueueTail queue not None, tuple changes not None):
        cdef ChangeFlag change
        for change in changes:
            pass
        self.lane, self.queue, self.changes = table.lane_of(lane), queue, changes

    cdef bint is_void(self) noexcept:
        return self.lane.next < 0 or self.queue.is_removed or has_changed(self.changes)


cdef bint has_changed(tuple changes) noexcept:
    cdef ChangeFlag change
    for change in changes:
        if change.is_set:
            return True
    return False


cdef struct PopAnswer:
    int64_t pop_time, invisible, revive, rest, opaque
    int64_t born, poll, chance        # of a pop, and the number that decides where it looks first
    Text starts, offsets


cdef class Template:
    """The header of an answer: pieces, and which value follows each."""

    cdef tuple kept
    cdef Text piece[MOST_SLOTS + 1]
    cdef int slot[MOST_SLOTS]
    cdef int count
    cdef Py_ssize_t size

    def __init__(self, template):
        cdef int i
        pieces, slots = template
        if len(slots) > MOST_SLOTS or len(pieces) != len(slots) + 1 or not all(0 <= slot <= SLOT_OPAQUE for slot in slots):
            raise ValueError("an answer of a shape that this kernel does not know")
        self.kept = tuple(pieces)
        self.count, self.size = len(slots), 0
        for i in range(self.count + 1):
            self.piece[i] = text_of(self.kept[i])
            self.size += self.piece[i].n
        for i in range(self.count):
            self.slot[i] = slots[i]

    cdef Py_ssize_t most(self, const PopAnswer *a) noexcept:
        """How long a header may be."""
        return self.size + 21 * MOST_SLOTS + a.starts.n + a.offsets.n

    cdef uint8_t *put(self, uint8_t *r, const PopAnswer *a) noexcept:
        cdef int i, slot
        for i in range(self.count):
            r = put_text(r, self.piece[i])
            slot = self.slot[i]
            if slot == SLOT_STARTS:
                r = put_text(r, a.starts)
            elif slot == SLOT_OFFSETS:
                r = put_text(r, a.offsets)
            else:
                r = put_number(
                    r,
                    a.pop_time if slot == SLOT_POP_TIME
                    else a.invisible if slot == SLOT_INVISIBLE
                    else a.revive if slot == SLOT_REVIVE
                    else a.rest if slot == SLOT_REST
                    else a.opaque,
                )
        return put_text(r, self.piece[self.count])
