# One call of a connection: what it has received of a message, and what waits to be sent.

cdef struct Pile:
    uint8_t *at
    size_t first, used, room      # bytes before `first` have left


cdef int pile(Pile *p, const uint8_t *data, size_t n) except -1:
    """Put bytes behind those that are there. Small at first: there may be thousands of calls."""
    cdef size_t wanted
    cdef uint8_t *grown
    if n == 0:
        return 0
    if p.first == p.used:
        p.first = p.used = 0
    if p.room - p.used < n:
        if p.first:
            memmove(p.at, p.at + p.first, p.used - p.first)
            p.used -= p.first
            p.first = 0
        wanted = p.room if p.room else 256
        while wanted - p.used < n:
            wanted *= 2
        if wanted > p.room:
            grown = <uint8_t *>realloc(p.at, wanted)
            if grown == NULL:
                raise MemoryError("no memory for a message")
            p.at, p.room = grown, wanted
    memcpy(p.at + p.used, data, n)
    p.used += n
    return 0


@cython.freelist(256)
@cython.final
cdef class HttpCall:
    cdef int32_t stream
    cdef Pile head                # headers, until they are whole
    cdef Py_ssize_t path_at, path_n
    cdef int64_t header_bytes     # as RFC 9113 counts
    cdef Headers headers
    cdef Pile came                # of a message that is not whole yet
    cdef Pile out                 # messages, framed
    cdef int64_t limit            # bytes of a message
    cdef bint is_half_closed      # by the peer
    cdef bint is_started          # headers of the answer are submitted
    cdef bint is_deferred         # nghttp2 waits for more of the answer
    cdef bint is_finishing
    cdef bint is_ended            # everything was submitted, or the session has answered itself: no more events
    cdef bint is_hot              # its events wait until it is known whether Python is needed
    cdef int method               # of a hot call
    cdef int expected             # answers of the feed
    cdef bint renews              # of a receive: its messages are renewed while the client has them
    cdef object grant             # of a receive: the verdict that it rests on
    cdef object handed            # of a receive: the messages of its answer, until all of it has left
    cdef bytes kept               # of a change: what its new receipt has of the old one
    cdef Text request             # of a hot call: its message, valid within one call of `receive`
    cdef int status
    cdef bytes text

    def __dealloc__(self):
        free(self.head.at)
        free(self.came.at)
        free(self.out.at)
