# Topics, verdicts on sends to them, what a buffer adds to each queue, and what is known of a connection.

cdef struct Entry:
    int lane
    int32_t size
    int64_t position, tag_code


cdef class LaneTopic:
    """A topic whose name is ASCII: how its keys begin, and its lanes by queue id."""

    cdef readonly str topic
    cdef bytes name
    cdef KeyPrefix prefix
    cdef dict lanes

    def __init__(self, str topic):
        self.topic = topic
        self.name = topic.encode("ascii")
        self.lanes = {}
        self.prefix = prefix_of(text_of(self.name))


cdef enum:
    SIZE_BOUNDS = 6           # of the histogram of sizes


cdef class Grant(LaneTopic):
    """A verdict: plain messages for the queues of this topic go straight into the log, until it is revoked."""

    cdef readonly int queues
    cdef bint is_typed        # a message with one of `SendSettings.typed_special` is not plain here
    cdef bint takes_plain     # else only what takes one of its detours
    cdef frozenset detours    # by their property's name
    cdef bint is_revoked

    def __init__(self, str topic, int queues, bint is_typed=False, bint takes_plain=True, detours=frozenset()):
        LaneTopic.__init__(self, topic)
        self.is_typed, self.takes_plain, self.detours = is_typed, takes_plain, detours
        if not 0 < len(self.name) < 128:
            raise ValueError(f"a topic of {len(self.name)} bytes cannot be granted")
        self.queues = queues


cdef class Lane(Part):
    """What one buffer adds to one queue."""

    cdef Grant grant
    cdef int queue_id, number, puts
    cdef int64_t next, size
    cdef uint64_t turn
    cdef uint8_t *filled                  # where its next entry goes while they are packed
    cdef int64_t ordered, ordered_size    # of these, messages with an order key
    cdef int64_t sizes[SIZE_BOUNDS + 1]   # its requests by the size of their messages
    cdef int64_t uncounted_messages, uncounted_size, uncounted_puts   # stored, and not in the broker's statistics yet
    cdef int64_t uncounted_ordered, uncounted_ordered_size
    cdef int64_t uncounted_sizes[SIZE_BOUNDS + 1]


cdef inline int64_t tag_hash(const Found *found) noexcept nogil:
    return <int32_t>java_hash(0, found.tags) if found.tags.at != NULL else 0


cdef int note_entry(Buffer *entries, Lane lane, int64_t position, Py_ssize_t size, int64_t tag_code) except -1:
    """The next record of a lane."""
    cdef Entry *entry
    reserve(entries, sizeof(Entry))
    entry = <Entry *>(entries.at + entries.used)
    entry.lane, entry.size, entry.position = lane.number, <int32_t>size, position
    entry.tag_code = tag_code
    entries.used += sizeof(Entry)
    lane.next += 1
    lane.count += 1
    return 0


cdef int pack_entries(list lanes, const Buffer *entries, Buffer *packed) except -1:
    """Queue entries as the files have them, a lane's together."""
    cdef Lane lane
    cdef Entry *entry
    cdef uint8_t *r
    cdef size_t at = 0
    packed.used = 0
    reserve(packed, entries.used // sizeof(Entry) * ENTRY_BYTES)
    r = packed.at
    for lane in lanes:
        lane.entries = lane.filled = r
        lane.offsets = lane.count
        r += ENTRY_BYTES * lane.count
    while at < entries.used:
        entry = <Entry *>(entries.at + at)
        lane = <Lane>lanes[entry.lane]
        r = lane.filled
        put64(r, <uint64_t>entry.position)
        put32(r + 8, <uint32_t>entry.size)
        put64(r + 12, <uint64_t>entry.tag_code)
        lane.filled += ENTRY_BYTES
        at += sizeof(Entry)
    return 0


cdef inline void join_lane(list lanes, Lane lane, uint64_t turn):
    """A lane's first record of a buffer: it begins where its queue ends."""
    lane.turn, lane.next, lane.number = turn, lane.tail.end, len(lanes)
    lane.count = lane.offsets = lane.size = 0
    lane.puts = 0
    lane.ordered = lane.ordered_size = 0
    memset(lane.sizes, 0, sizeof(lane.sizes))
    lanes.append(lane)


cdef inline void note_request(Lane lane, int64_t size) noexcept:
    """One request more, whose messages have so many bytes each: the bounds are those of `stats/counters.py`."""
    cdef int place = 0
    if size > 1024:
        place = 1 + (size > 4096) + (size > 524288) + (size > 1048576) + (size > 2097152) + (size > 4194304)
    lane.sizes[place] += 1
    lane.puts += 1


cdef class KnownUser  # known_user.pxi


cdef class Notes:
    """Of one connection: its born host, who it was last shown to be, and the topics that Python has frames of which may
    not be finished."""

    cdef bytes born_host
    cdef str address
    cdef str source           # its address without the port
    cdef KnownUser identity    # None: nobody yet
    cdef set left
    cdef bint all_left
    cdef dict allowances      # by user, topic and group: quota.pxi
    cdef Allowance allowance  # that was asked for last

    def __init__(self, bytes born_host, str address):
        self.born_host, self.address, self.source = born_host, address, address.rpartition(":")[0]
        self.left, self.allowances = set(), {}


cdef inline Text text_of(bytes raw) noexcept:
    cdef Text text
    text.at = <const uint8_t *>PyBytes_AS_STRING(raw)
    text.n = PyBytes_GET_SIZE(raw)
    return text


cdef inline bytes bytes_of(Text text):
    return PyBytes_FromStringAndSize(<const char *>text.at, text.n)
