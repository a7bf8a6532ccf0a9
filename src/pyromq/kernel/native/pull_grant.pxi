# Verdicts on pulls, what is known of one that is being served, and the headers of their answers. The constant parts are cut
# from what protocol/command.py writes (broker/pull/pull_verdicts.py); ours are the numbers.

cdef enum:
    COMMITS = 1, MAY_BE_HELD = 2   # bits of a pull's flags
    SCAN_ENTRIES = 800             # looked at without a filter, as store/log/reader.py
    AHEAD_ENTRIES = 512            # read at once for a pull that goes on where the one before ended


cdef double WINDOW_S = 1.0   # entries that were read ahead and not used for so long make room for those of other pulls


cdef class PullGrant:
    """A verdict: pulls with these fields need no look. `verdict` is the broker's own (`PullVerdict`), for its questions."""

    cdef readonly object verdict
    cdef object config, found_topic, found_group   # the very objects that it was given for
    cdef QueueTail tail               # of its queue
    cdef str topic, group, pair
    cdef object number                # of the queue
    cdef bint is_asked                # there is more to it than those: the broker is asked each time
    cdef int64_t told_messages, told_size, told_times     # handed out, and not told to the broker's statistics yet
    cdef double told_ms
    cdef Files entries
    cdef int64_t expected             # the offset at which a pull goes on where the one before ended
    cdef Window window                # entries that were read ahead for such pulls, or None
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
        self.config, self.found_topic, self.found_group = verdict.config, verdict.topic, verdict.group
        self.tail, self.number, self.is_asked = verdict.queue.tail, verdict.queue_id, verdict.members is not None
        self.topic, self.group, self.pair = verdict.topic_name, verdict.group_name, verdict.pair
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


cdef class Window:
    """Entries of a queue from offset `first` to before `until`, which were readable when they were read. Such entries never
    change while the queue is the same object: a topic that is deleted takes its queues along."""

    cdef PullGrant grant
    cdef int64_t first, until
    cdef double used_at
    cdef uint8_t at[20 * AHEAD_ENTRIES]


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
