# Messages that wait in a system topic before they reach their own: `Detour` of kernel/sends.py, prepared for a feed.

cdef enum:
    MOST_DETOUR_PAIRS = 32           # properties of one that takes a detour


cdef class Detour:
    """Where messages with one property wait, by its value, and what is noted of where they belong."""

    cdef Grant grant          # on the system topic
    cdef bytes name
    cdef dict ways
    cdef tuple without
    cdef bytes topic_name, queue_name, id_name
    cdef int64_t cleared, room
    cdef Buffer notes

    def __init__(self, bytes name, str topic, ways, bytes topic_name, bytes queue_name, bytes id_name, without, cleared_bits, room):
        """The fields of a `Detour`, in their order."""
        self.name, self.grant = name, Grant(topic, INT32_MAX)
        self.ways = {
            value: (queue_id, -1 if wait_ms is None else wait_ms) for value, (queue_id, wait_ms) in dict(ways).items()
        }
        self.without = tuple(without)
        self.topic_name, self.queue_name, self.id_name = topic_name, queue_name, id_name
        self.cleared, self.room = cleared_bits, room

    def __dealloc__(self):
        free(self.notes.at)

    cdef bint takes(self, const Plain *m) except -1:
        """Whether the detour is right for a message whose property has a value that it knows."""
        cdef bytes text
        if m.sys_flag & NOT_PLAIN & ~self.cleared or not are_distinct_pairs(m.properties):
            return False
        for text in self.without:
            if memmem(m.properties.at, <size_t>m.properties.n, PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text)) != NULL:
                return False
        return True

    cdef Text noted(self, Text tail, Text topic, int64_t queue_id, Text unique) except *:
        """What the broker adds: what it adds to every message, and where this one belongs."""
        cdef Text added
        cdef uint8_t *r
        self.notes.used = 0
        reserve(&self.notes, <size_t>(
            tail.n + topic.n + unique.n + PyBytes_GET_SIZE(self.topic_name) + PyBytes_GET_SIZE(self.queue_name)
            + PyBytes_GET_SIZE(self.id_name) + 6 + 20
        ))
        r = put_pair(put_text(self.notes.at, tail), text_of(self.topic_name), topic)
        r = put_text(r, text_of(self.queue_name))
        r[0] = 1
        r = put_number(r + 1, queue_id)
        r[0] = 2
        r += 1
        if PyBytes_GET_SIZE(self.id_name):
            r = put_pair(r, text_of(self.id_name), unique)
        added.at, added.n = self.notes.at, r - self.notes.at
        return added


cdef bint are_distinct_pairs(Text given) noexcept nogil:
    """Whether Python stores the properties as they came: pairs with a value, each name once, nothing besides."""
    cdef Text name[MOST_DETOUR_PAIRS]
    cdef const uint8_t *p = given.at
    cdef const uint8_t *end = given.at + given.n
    cdef const uint8_t *middle
    cdef const uint8_t *stop
    cdef int count = 0, i
    while p < end:
        stop = <const uint8_t *>memchr(p, 2, <size_t>(end - p))
        if stop == NULL or count == MOST_DETOUR_PAIRS:
            return False
        middle = <const uint8_t *>memchr(p, 1, <size_t>(stop - p))
        if middle == NULL or middle == p or middle + 1 == stop:
            return False
        if memchr(middle + 1, 1, <size_t>(stop - middle - 1)) != NULL:
            return False
        name[count].at, name[count].n = p, middle - p
        for i in range(count):
            if name[i].n == name[count].n and memcmp(name[i].at, p, <size_t>name[i].n) == 0:
                return False
        count += 1
        p = stop + 1
    return True
