# Sessions that rest: what lies in a session's place, packed, so that its pages can be given back; and who is awake.
#
# Words of eight bytes are packed by what is in them. A byte says the kind (upper half) and how many words in a row are
# of it (lower half, one less): as many low bytes as are needed (0 to 8), an address within the place (two bytes), that
# of `give_back`, which each header in HPACK's tables has (none), or what the block has there that this one is like.
# Most blocks are like one of the last of their size: HPACK's tables hold dozens of headers, and fill with request ids
# and dates of heartbeats. A byte before each block says its size and which one that is. Others are like the block at the
# same place of the pattern: the first session that rested and had served calls. Much is the same in all: what is called
# for events, settings, and names of headers.

cdef enum:
    INSIDE = 9
    OURS = 10
    SAME = 11                 # as in the other block
    MOVED = 12                # an address as far from the block's beginning as in the other
    IN_A_ROW = 16
    LATEST = 4                # blocks of a size that one is compared with
    COMPARED = 12             # words of each: a header's all
    IS_LIKE = 128             # in the byte before a block: a sixteenth of its size, less one, and which of the latest
    AS_IN_PATTERN = 1         # the byte before a block whose size the pattern has, too
    LIKE_PATTERN = LATEST     # an answer of `most_alike`, beside numbers of the latest
    LIKE_NOTHING = -1
    HAS_SERVED = 10 << 10     # bytes of a place, at least: a session has 9 KB before its first header
    MOST_PACKED = 64          # sessions in a call of `rest_unused`, some microseconds each

cdef uint8_t packing[WHOLE_PLACE + (WHOLE_PLACE >> 2) + 16]   # no word takes more than nine bytes, no two more than 21
cdef uint16_t latest[KINDS + 1][LATEST]   # where they are, in eights of bytes, while a place is packed or unpacked
cdef uint8_t latest_next[KINDS + 1]
cdef Place *pattern = NULL    # a copy of a place, for good: what is packed refers to it
cdef uint64_t pattern_from    # the address that it is a copy of


cdef extern from *:
    int leading_zeros "__builtin_clzll"(uint64_t) nogil


cdef inline int kind_of(uint64_t word, uint64_t place) noexcept nogil:
    if word == 0:
        return 0
    if word - place < <uint64_t>WHOLE_PLACE:
        return INSIDE
    if word == <uint64_t><size_t>give_back:
        return OURS
    return 8 - (leading_zeros(word) >> 3)


cdef inline void forget_latest() noexcept nogil:
    memset(latest, 0, sizeof(latest))
    memset(latest_next, 0, sizeof(latest_next))


cdef inline void note_block(uint32_t at, uint32_t size) noexcept nogil:
    cdef uint32_t kind = size >> 4
    if size <= SMALL_BLOCK:
        latest[kind][latest_next[kind]] = <uint16_t>(at >> 3)
        latest_next[kind] = (latest_next[kind] + 1) % LATEST


cdef inline uint64_t *in_pattern(uint32_t at) noexcept nogil:
    return <uint64_t *>(<uint8_t *>pattern + at)


cdef uint32_t follow_pattern(uint32_t seen, uint32_t at) noexcept nogil:
    """Return where the first block of the pattern is that is not before `at`, from one that is."""
    if pattern != NULL:
        while seen < at and seen < pattern.used:
            seen += (<Block *>in_pattern(seen)).size
    return seen


cdef inline int in_common(uint64_t *block, uint64_t *other, uint64_t shift, uint32_t words) noexcept nogil:
    cdef int found = 0
    cdef uint32_t i
    for i in range(min(words, <uint32_t>COMPARED)):
        found += block[i] == other[i] or block[i] == other[i] + shift
    return found


cdef int most_alike(Place *place, uint32_t at, uint32_t seen) noexcept nogil:
    """Return what has most words in common with a block. `seen`: the pattern's block there, or behind it."""
    cdef uint64_t *block = <uint64_t *>(<uint8_t *>place + at)
    cdef uint64_t *other
    cdef uint32_t size = (<Block *>block).size, words = size >> 3
    cdef int i, common, found = LIKE_NOTHING, most = -1
    if seen == at and pattern != NULL and at < pattern.used and (<Block *>in_pattern(at)).size == size:
        found, most = LIKE_PATTERN, in_common(block, in_pattern(at), <uint64_t>place - pattern_from, words)
    if size > SMALL_BLOCK:
        return found
    for i in range(LATEST):
        if latest[size >> 4][i] == 0:
            break
        other = <uint64_t *>block_at(place, latest[size >> 4][i])
        common = in_common(block, other, <uint64_t>block - <uint64_t>other, words)
        if common > most:
            found, most = i, common
            if common == COMPARED:
                break
    return found


cdef uint8_t *pack_words(
    uint64_t place, uint64_t *words, uint32_t n, uint64_t *like, uint64_t shift, uint8_t *out
) noexcept nogil:
    """Pack words behind what is packed already. Return where they end.

    `like` is a block of as many words, or NULL; `shift` is how far addresses in it are from those that they were here.
    """
    cdef uint64_t value
    cdef uint8_t *head = NULL
    cdef int kind, last = -1
    cdef uint32_t i
    for i in range(n):
        value = words[i]
        if like != NULL and value == like[i] and not (value == 0 and last == 0):
            kind = SAME
        else:
            kind = kind_of(value, place)
            if kind == INSIDE and like != NULL and value == like[i] + shift:
                kind = MOVED
        if kind == last and head[0] & 15 < IN_A_ROW - 1:
            head[0] += 1
        else:
            head, last = out, kind
            head[0] = <uint8_t>(kind << 4)
            out += 1
        if kind == INSIDE:
            value -= place
        memcpy(out, &value, 8)   # lower bytes first: what is beyond its bytes, the next one overwrites
        out += bytes_of(kind)
    return out


cdef inline int bytes_of(int kind) noexcept nogil:
    return kind if kind < INSIDE else 2 if kind == INSIDE else 0


cdef size_t packed(Place *place) noexcept nogil:
    """Fill `packing` with what lies in a place; return how many bytes that are."""
    cdef uint32_t at = first_block, seen = first_block, size
    cdef uint64_t shift = 0
    cdef uint64_t *block
    cdef uint64_t *like
    cdef uint8_t *out = pack_words(<uint64_t>place, <uint64_t *>place, first_block >> 3, NULL, 0, packing)
    cdef int which
    forget_latest()
    while at < place.used:
        block, like = <uint64_t *>(<uint8_t *>place + at), NULL
        size, seen = (<Block *>block).size, follow_pattern(seen, at)
        which = most_alike(place, at, seen)
        if which == LIKE_NOTHING:
            out[0], out[1], out[2] = 0, <uint8_t>(size >> 3), <uint8_t>(size >> 11)
            out += 3
        elif which == LIKE_PATTERN:
            like, shift = in_pattern(at), <uint64_t>place - pattern_from
            out[0] = AS_IN_PATTERN
            out += 1
        else:
            like = <uint64_t *>block_at(place, latest[size >> 4][which])
            shift = <uint64_t>block - <uint64_t>like
            out[0] = <uint8_t>(IS_LIKE | ((size >> 4) - 1) << 2 | <uint32_t>which)
            out += 1
        out = pack_words(<uint64_t>place, block, size >> 3, like, shift, out)
        note_block(at, size)
        at += size
    return <size_t>(out - packing)


cdef const uint8_t *unpack_words(
    uint64_t place, uint64_t *words, uint32_t n, uint64_t *like, uint64_t shift, const uint8_t *p
) noexcept nogil:
    """Put back what `pack_words` has packed at `p`. Return where it ends."""
    cdef uint64_t value
    cdef uint32_t i = 0, end
    cdef int kind, bytes_each
    while i < n:
        kind, end = p[0] >> 4, i + 1 + (p[0] & 15)
        p += 1
        if kind == 0:
            i = end          # pages that were given back are zeros
            continue
        bytes_each = bytes_of(kind)
        while i < end:
            memcpy(&value, p, 8)
            p += bytes_each
            if kind < INSIDE:
                value &= <uint64_t>-1 >> (64 - 8 * kind)
            elif kind == INSIDE:
                value = place + (value & 0xffff)
            elif kind == OURS:
                value = <uint64_t><size_t>give_back
            elif kind == SAME:
                value = like[i]
            elif kind == MOVED:
                value = like[i] + shift
            words[i] = value
            i += 1
    return p


cdef void unpack(Place *place, const uint8_t *p) noexcept nogil:
    cdef uint32_t at = first_block, size
    cdef uint64_t shift = 0
    cdef uint64_t *block
    cdef uint64_t *like
    p = unpack_words(<uint64_t>place, <uint64_t *>place, first_block >> 3, NULL, 0, p)
    forget_latest()
    while at < place.used:
        block, like = <uint64_t *>(<uint8_t *>place + at), NULL
        if p[0] & IS_LIKE:
            size = (((p[0] & ~IS_LIKE) >> 2) + 1) << 4
            like = <uint64_t *>block_at(place, latest[size >> 4][p[0] & (LATEST - 1)])
            shift = <uint64_t>block - <uint64_t>like
            p += 1
        elif p[0] == AS_IN_PATTERN:
            like, shift = in_pattern(at), <uint64_t>place - pattern_from
            size = (<Block *>like).size
            p += 1
        else:
            size = <uint32_t>(p[1] | p[2] << 8) << 3
            p += 3
        p = unpack_words(<uint64_t>place, block, size >> 3, like, shift, p)
        note_block(at, size)
        at += size


cdef void keep_pattern(Place *place) noexcept nogil:
    """Let a place be what others are compared with, from now on."""
    global pattern, pattern_from
    if pattern == NULL and place.used >= HAS_SERVED:
        pattern = <Place *>malloc(place.used)
        if pattern != NULL:
            memcpy(pattern, place, place.used)
            pattern_from = <uint64_t>place


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
    keep_pattern(place)
    n[0] = <uint32_t>packed(place)
    kept = <uint8_t *>malloc(n[0] + 8)   # `unpack_words` looks at eight bytes at a time
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
        if session.is_over:
            session.leave_awake()   # nothing wakes it again, however long somebody holds it
            continue
        if session.used == sweep:
            continue
        if rested == MOST_PACKED:
            return Rest.MORE
        rested += session.rest()
    sweep += 1
    return Rest.ALL if first_awake == NULL else Rest.LATER
