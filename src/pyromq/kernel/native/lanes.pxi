# Verdicts on sends, what a buffer adds to each queue, and what is known of a connection.

cdef struct Entry:
    int lane
    int32_t size
    int64_t position, tag_code


cdef class Grant:
    """A verdict: plain messages for the queues of this topic go straight into the log, until it is revoked."""

    cdef readonly str topic
    cdef readonly int queues
    cdef bint is_typed        # a message with one of `SendSettings.typed_special` is not plain here
    cdef bint is_revoked
    cdef bytes name
    cdef uint32_t prefix, tag_prefix
    cdef dict lanes

    def __init__(self, str topic, int queues, bint is_typed=False):
        cdef Text text
        self.topic = topic
        self.is_typed = is_typed
        self.name = topic.encode("ascii")
        if not 0 < len(self.name) < 128:
            raise ValueError(f"a topic of {len(self.name)} bytes cannot be granted")
        self.queues = queues
        self.lanes = {}
        text = text_of(self.name)
        self.prefix = java_hash(0, text) * 31 + c'#'
        self.tag_prefix = (self.prefix * 31 + c'T') * 31 + c'#'


cdef class Lane(Part):
    """What one buffer adds to one queue."""

    cdef Grant grant
    cdef int queue_id, number, puts
    cdef int64_t next, size
    cdef uint64_t turn
    cdef uint8_t *filled                  # where its next entry goes while they are packed
    cdef int64_t uncounted_messages, uncounted_size, uncounted_puts   # stored, and not in the broker's statistics yet


cdef class Notes:
    """Of one connection: its born host, and the topics that Python has frames of which may not be finished."""

    cdef bytes born_host
    cdef set left
    cdef bint all_left

    def __init__(self, bytes born_host):
        self.born_host = born_host
        self.left = set()


cdef inline Text text_of(bytes raw) noexcept:
    cdef Text text
    text.at = <const uint8_t *>PyBytes_AS_STRING(raw)
    text.n = PyBytes_GET_SIZE(raw)
    return text


cdef inline bytes bytes_of(Text text):
    return PyBytes_FromStringAndSize(<const char *>text.at, text.n)
