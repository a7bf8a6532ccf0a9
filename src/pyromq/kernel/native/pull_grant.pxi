# Verdicts on pulls, what is known of one that is being served, and the headers of their answers. The constant parts are cut
# from what protocol/command.py writes (broker/pull/verdicts.py); ours are the numbers.

cdef enum:
    COMMITS = 1, MAY_SUSPEND = 2   # bits of a pull's flags
    AHEAD_ENTRIES = 512            # read at once for a pull that goes on where the one before ended


cdef double WINDOW_S = 1.0   # entries that were read ahead and not used for so long make room for those of other pulls


cdef class PullGrant:
    """A verdict: pulls with these fields may be answered. `verdict` is the broker's own, which it gets back with its questions."""

    cdef readonly object verdict
    cdef readonly str group
    cdef readonly QueueTail queue
    cdef ChangeFlag settings, topic, membership           # that it depends on
    cdef public PulledOffset pulled   # None: the broker does not know of such a pull yet
    cdef int64_t messages, size, answers, behind          # handed out since the counters were read
    cdef double took_ms
    cdef ResidentFiles entries
    cdef int64_t expected             # the offset at which a pull goes on where the one before ended
    cdef Window window                # entries that were read ahead for such pulls, or None
    cdef int64_t max_count, max_bytes, scan
    cdef bytes codes                  # sorted, eight bytes each as this machine has them; None: no filter
    cdef tuple kept
    cdef Text json[5]
    cdef Text binary[4]
    cdef Py_ssize_t block_at          # of the length of all fields in a binary header

    def __init__(self, verdict, str group, QueueTail queue, ResidentFiles entries, changes, limits, codes, pieces):
        """`changes`: settings, topic, group. `limits`: messages, bytes, entries that are scanned. `pieces`: `AnswerPieces`."""
        cdef int i
        json, binary, self.block_at = pieces
        self.max_count, self.max_bytes, self.scan = limits
        if len(json) != 5 or len(binary) != 4 or self.max_count < 1 or not 13 <= self.block_at <= len(binary[0]) - 4:
            raise ValueError("a grant of a shape that this kernel does not know")
        self.verdict, self.group, self.queue, self.entries = verdict, group, queue, entries
        self.settings, self.topic, self.membership = changes
        if codes is not None:
            self.codes = bytes(array("q", sorted(codes)))
        self.kept = (*json, *binary)
        for i in range(5):
            self.json[i] = text_of(self.kept[i])
        for i in range(4):
            self.binary[i] = text_of(self.kept[5 + i])

    cdef bint is_void(self) noexcept:
        """Whether something has changed that it depends on."""
        return self.settings.is_set or self.topic.is_set or self.membership.is_set or self.queue.is_removed


cdef class Window:
    """Entries of a queue from offset `first` to before `until`, which were readable when they were read. Such entries never
    change while the queue is the same: a topic that is deleted takes its queues along."""

    cdef PullGrant grant
    cdef int64_t first, until
    cdef double used_at
    cdef uint8_t at[20 * AHEAD_ENTRIES]


cdef struct Pulled:
    int64_t position
    int64_t size
    int64_t offset


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
