# Verdicts on sends, what a buffer adds to each queue, and what is known of a connection.

cdef struct Entry:
    int lane
    int32_t size
    int64_t position, tag_code


cdef class Grant:
    """A verdict: plain messages for the queues of this topic go straight into the log."""

    cdef readonly str topic
    cdef readonly int queues
    cdef bint is_typed        # a message with one of `Terms.typed_special` is not plain here
    cdef object config, found  # the very objects that it was given for; None: the broker is asked each time
    cdef bytes name
    cdef uint32_t prefix, tag_prefix
    cdef dict lanes

    def __init__(self, str topic, int queues, bint is_typed=False, config=None, found=None):
        cdef Text text
        self.topic = topic
        self.config, self.found = config, found
        self.is_typed = is_typed
        self.name = topic.encode("ascii")
        if not 0 < len(self.name) < 128:
            raise ValueError(f"a topic of {len(self.name)} bytes cannot be granted")
        self.queues = queues
        self.lanes = {}
        text = text_of(self.name)
        self.prefix = java_hash(0, text) * 31 + c'#'
        self.tag_prefix = (self.prefix * 31 + c'T') * 31 + c'#'


cdef class Lane:
    """What one buffer adds to one queue, and where its entries go."""

    cdef Grant grant
    cdef int queue_id, number, messages, puts
    cdef object queue                     # the store's
    cdef QueueTail tail                   # and where it ends
    cdef int64_t next, size
    cdef uint64_t turn
    cdef size_t first                     # where its new entries lie in the feed's buffer, and where the next goes
    cdef size_t filled
    cdef int64_t told_messages, told_size, told_puts   # stored, and not told to the broker's statistics yet


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
