# Sessions that rest: what lies in a session's place, packed, so that its pages can be given back; and who is awake.
#
# Words of eight bytes are packed by what is in them. A byte says the kind (upper half) and how many words in a row are
# of it (lower half, one less): as many low bytes as are needed (0 to 8), an address within the place (two bytes), or
# that of `give_back`, which each header in HPACK's tables has (none).

cdef enum:
    INSIDE = 9
    OURS = 10
    IN_A_ROW = 16
    MOST_PACKED = 64          # sessions in a call of `rest_unused`, some microseconds each

cdef uint8_t packing[WHOLE_PLACE + (WHOLE_PLACE >> 3) + 16]   # no word takes more than nine bytes


cdef inline int kind_of(uint64_t word, uint64_t place) noexcept nogil:
    cdef int n = 1
    if word == 0:
        return 0
    if word - place < <uint64_t>WHOLE_PLACE:
        return INSIDE
    if word == <uint64_t><size_t>give_back:
        return OURS
    while n < 8 and word >> (8 * n):
        n += 1
    return n


cdef size_t packed(Place *place) noexcept nogil:
    """Fill `packing` with what lies in a place; return how many bytes that are."""
    cdef uint64_t *word = <uint64_t *>place
    cdef uint64_t *end = <uint64_t *>(<uint8_t *>place + place.used)
    cdef uint64_t value
    cdef uint8_t *out = packing
    cdef uint8_t *head = NULL
    cdef int kind, last = -1, i
    while word < end:
        value = word[0]
        word += 1
        kind = kind_of(value, <uint64_t><size_t>place)
        if kind == last and head[0] & 15 < IN_A_ROW - 1:
            head[0] += 1
        else:
            head, last = out, kind
            head[0] = <uint8_t>(kind << 4)
            out += 1
        if kind == INSIDE:
            value -= <uint64_t><size_t>place
            kind = 2
        elif kind == OURS:
            kind = 0
        for i in range(kind):
            out[0] = <uint8_t>value
            value >>= 8
            out += 1
    return <size_t>(out - packing)


cdef void unpack(Place *place, const uint8_t *p, size_t n) noexcept nogil:
    cdef const uint8_t *end = p + n
    cdef uint64_t *word = <uint64_t *>place
    cdef uint64_t value
    cdef int kind, count, bytes_each, i
    while p < end:
        kind, count = p[0] >> 4, 1 + (p[0] & 15)
        p += 1
        if kind == 0:
            word += count          # pages that were given back are zeros
            continue
        bytes_each = 2 if kind == INSIDE else 0 if kind == OURS else kind
        while count:
            value = 0
            for i in range(bytes_each):
                value |= <uint64_t>p[i] << (8 * i)
            p += bytes_each
            if kind == INSIDE:
                value += <uint64_t><size_t>place
            elif kind == OURS:
                value = <uint64_t><size_t>give_back
            word[0] = value
            word += 1
            count -= 1


cdef void clear_free(Place *place) noexcept nogil:
    """Make zeros of what was given back: they take no room."""
    cdef Block *block
    cdef uint32_t at
    cdef int kind
    for kind in range(KINDS + 1):
        at = place.free[kind]
        while at:
            block = block_at(place, at)
            memset(<uint8_t *>block + BLOCK_HEAD, 0, block.size - BLOCK_HEAD)
            at = block.next


cdef uint8_t *pack_away(Place *place, uint32_t *n) noexcept nogil:
    """Pack a place and give its pages back. NULL: there is no memory for it, and nothing has changed."""
    cdef uint8_t *kept
    clear_free(place)
    n[0] = <uint32_t>packed(place)
    kept = <uint8_t *>malloc(n[0])
    if kept == NULL:
        return NULL
    memcpy(kept, packing, n[0])
    madvise(place, place.used, MADV_DONTNEED)
    return kept


# --- who is awake -----------------------------------------------------------------------------------------------------

cdef void *first_awake = NULL     # of a chain of sessions, which unlink themselves at their end
cdef uint32_t sweep = 1


def rest_unused():
    """Pack sessions that nobody has used since all were looked at before. Return what is left to do: see `Rest`."""
    global sweep
    cdef void *at = first_awake
    cdef Http2Session session
    cdef int rested = 0
    while at != NULL:
        session = <Http2Session>at
        at = session.after
        if session.used == sweep:
            continue
        if rested == MOST_PACKED:
            return Rest.MORE
        rested += session.rest()
    sweep += 1
    return Rest.ALL if first_awake == NULL else Rest.LATER
