# The pop journal's entries as bytes: kernel/pops.py has the layout, kernel/python/popping the same in Python.

cdef enum:
    POP_LANE = 1, POP_POP = 2, POP_ACK = 3, POP_CHANGE = 4, POP_REVIVED = 5, POP_SPILLED = 6, POP_DROPPED = 7, POP_NEXT = 8
    POP_BASE = 9, FIRST_OTHER = 128
    WITH_GAPS = 1, SUSPENDED = 2
    MOST_VARINT = 10
    MOST_POPPED = 64          # messages of a check point

cdef int64_t MOST_SPAN = 2147483647   # from a check point's start to its last offset
cdef int64_t MOST_LANE = 2147483647

cdef dict ENTRY_NAMES = {
    1: "LANE", 2: "POP", 3: "ACK", 4: "CHANGE", 5: "REVIVED", 6: "SPILLED", 7: "DROPPED", 8: "NEXT", 9: "BASE",
}


cdef inline uint8_t *put_unsigned(uint8_t *r, uint64_t v) noexcept nogil:
    """At most MOST_VARINT bytes."""
    while v > 127:
        r[0] = <uint8_t>(v & 127 | 128)
        v >>= 7
        r += 1
    r[0] = <uint8_t>v
    return r + 1


cdef inline uint8_t *put_signed(uint8_t *r, int64_t v) noexcept nogil:
    return put_unsigned(r, (<uint64_t>v << 1) ^ (<uint64_t>0 - <uint64_t>(v < 0)))


# What is read of one entry. `offsets` are all of a POP.
cdef struct PopEntry:
    int kind, flags, count
    int64_t lane, start, pop_time, invisible, revive, next, offset, queue_id
    uint64_t bits
    Text group, topic, other
    int64_t offsets[MOST_POPPED]


cdef class EntryReader:
    """Walks over a record's entries. DamagedJournal at the first that is cut off, out of range or of no known kind."""

    cdef bytes raw
    cdef const uint8_t *p
    cdef Py_ssize_t n, at, begin

    def __init__(self, bytes raw not None):
        self.raw, self.p, self.n = raw, <const uint8_t *>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)

    cdef refused(self, str why):
        kind = self.p[self.begin]
        name = ENTRY_NAMES.get(kind, f"of kind {kind}")
        return DamagedJournal(f"pop journal: entry {name} at byte {self.begin} of {self.n}: {why}")

    cdef int byte(self) except -1:
        if self.at >= self.n:
            raise self.refused("its end is missing")
        self.at += 1
        return self.p[self.at - 1]

    cdef uint64_t unsigned_number(self) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t value = 0
        cdef int shift = 0, byte
        while shift < 70:
            byte = self.byte()
            if shift == 63 and byte & 126:
                byte |= 128               # more than 64 bits
            else:
                value |= <uint64_t>(byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise self.refused("a number does not fit into 64 bits")

    cdef int64_t signed_number(self) except? -1:
        cdef uint64_t value = self.unsigned_number()
        return <int64_t>((value >> 1) ^ (<uint64_t>0 - (value & 1)))

    cdef int64_t within(self, uint64_t value, int64_t most, str what) except? -1:
        if value > <uint64_t>most:
            raise self.refused(f"{what} {value} is above {most}")
        return <int64_t>value

    cdef int64_t sum(self, int64_t one, int64_t other, str what) except? -1:
        if (other > 0 and one > INT64_MAX - other) or (other < 0 and one < INT64_MIN - other):
            raise self.refused(f"{what} does not fit into 64 bits")
        return one + other

    cdef int text(self, Text *out) except -1:
        cdef uint64_t length = self.unsigned_number()
        if length > <uint64_t>(self.n - self.at):
            raise self.refused("its end is missing")
        out.at, out.n = self.p + self.at, <Py_ssize_t>length
        self.at += out.n
        return 0

    cdef int name(self, Text *out) except -1:
        self.text(out)
        if not is_utf8(out.at, out.n):
            raise self.refused("a name is not UTF-8")
        return 0

    cdef bint entry(self, PopEntry *e) except -1:
        """The next entry; False: there is none."""
        self.begin = self.at
        if self.at >= self.n:
            return False
        e.kind = self.byte()
        if e.kind >= FIRST_OTHER:
            self.text(&e.other)
        elif e.kind == POP_BASE:
            e.offset = self.within(self.unsigned_number(), INT64_MAX, "journal offset")
        elif e.kind == POP_POP:
            self.pop(e)
        elif e.kind == POP_CHANGE:
            self.change(e)
        elif POP_LANE <= e.kind <= POP_NEXT:
            self.lane(e)
            if e.kind == POP_LANE:
                e.queue_id, e.next = self.signed_number(), self.signed_number()
                if not INT32_MIN <= e.queue_id <= INT32_MAX:
                    raise self.refused(f"queue {e.queue_id} does not fit into 32 bits")
                self.name(&e.group)
                self.name(&e.topic)
            elif e.kind == POP_NEXT:
                e.next = self.signed_number()
            elif e.kind != POP_DROPPED:
                e.start, e.pop_time = self.signed_number(), self.signed_number()
                if e.kind == POP_ACK:
                    e.bits = self.unsigned_number()
        else:
            raise self.refused("there is no such kind")
        return True

    cdef int lane(self, PopEntry *e) except -1:
        e.lane = self.within(self.unsigned_number(), MOST_LANE, "lane")
        return 0

    cdef int revive_queue(self, PopEntry *e) except -1:
        e.revive = self.signed_number()
        if not 0 <= e.revive <= 65535:
            raise self.refused(f"revive queue {e.revive} is not 0 to 65535")
        return 0

    cdef int pop(self, PopEntry *e) except -1:
        cdef int i
        cdef int64_t behind
        e.flags = self.byte()
        self.lane(e)
        e.start, e.pop_time, e.invisible = self.signed_number(), self.signed_number(), self.signed_number()
        self.revive_queue(e)
        e.next = self.sum(e.start, self.signed_number(), "next offset")
        e.count = <int>self.within(self.unsigned_number(), MOST_POPPED, "count")
        if e.count == 0 or e.flags & ~WITH_GAPS:
            raise self.refused(f"flags {e.flags} with {e.count} messages")
        if not e.flags:
            self.sum(e.start, e.count, "last offset")
        behind = e.start
        for i in range(e.count):
            if e.flags:
                behind = self.sum(behind, self.within(self.unsigned_number(), INT64_MAX, "distance"), "offset")
            e.offsets[i] = behind
            behind = self.sum(behind, 1, "offset")
        return 0

    cdef int change(self, PopEntry *e) except -1:
        e.flags = self.byte()
        self.lane(e)
        e.start, e.pop_time = self.signed_number(), self.signed_number()
        if e.flags & ~SUSPENDED:
            raise self.refused(f"flags {e.flags}")
        e.offset = self.sum(e.start, self.within(self.unsigned_number(), INT64_MAX, "distance"), "offset")
        e.next = <int64_t>(<uint64_t>e.pop_time + <uint64_t>self.signed_number())   # the new pop time
        e.invisible = self.signed_number()
        return self.revive_queue(e)
