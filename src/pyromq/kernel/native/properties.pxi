# One walk over a message's properties: `name 0x01 value 0x02` repeated. Names that make a message more than plain are
# Python's list (`SendSettings.special`), not ours.

cdef struct Names:
    Text name[MOST_NAMES]     # by length, the shortest first
    int detour[MOST_NAMES]    # the number of the detour that a message with it may take; -1: it is Python's
    int count
    uint64_t lengths          # a bit for each length that one of them has, those of 63 bytes and more together


cdef struct Found:
    Text unique
    Text keys
    Text tags
    int detour                # by the one name that has one; -1: there is none
    Text value                # of that property
    bint is_ordered           # it has an order key


cdef inline bint once(Text *kept, Text value) noexcept nogil:
    """A value under a name that must not come twice: which of two counts is Python's to know."""
    cdef Py_ssize_t i
    cdef uint8_t beyond = 0
    if kept.at != NULL:
        return False
    for i in range(value.n):  # without a way out: so the compiler takes many bytes at once
        beyond |= value.at[i] > 126
    if beyond:
        return False
    kept[0] = value
    return True


cdef inline int place_among(const Names *names, Text name) noexcept nogil:
    """Where a name stands; -1: it is none of them."""
    cdef int i
    if not names.lengths >> min(name.n, 63) & 1:
        return -1
    for i in range(names.count):
        if names.name[i].n > name.n:
            return -1
        if name.n == names.name[i].n and memcmp(name.at, names.name[i].at, <size_t>name.n) == 0:
            return i
    return -1


cdef bint walk_properties(const uint8_t *p, Py_ssize_t n, const Names *special, bint waits, Found *found) noexcept nogil:
    """False: the message is Python's; else it is plain, or takes the detour that is found. `waits`: an ack waits for the
    disk, so WAIT=false is Python's, too.

    A value that is hashed must be ASCII: Java hashes UTF-16 units."""
    cdef Py_ssize_t at = 0
    cdef int place
    cdef const uint8_t *stop
    cdef const uint8_t *middle
    cdef Text name, value
    memset(found, 0, sizeof(Found))
    found.detour = -1
    while at < n:
        name.at = p + at
        while at < n and p[at] != 1 and p[at] != 2:  # names are short: a call would take longer
            at += 1
        middle = p + at
        at += 1
        if at > n or middle[0] == 2:
            continue
        name.n = middle - name.at
        value.at = p + at
        stop = <const uint8_t *>memchr(value.at, 2, <size_t>(n - at))
        if stop == NULL:
            stop = p + n
        value.n = stop - value.at
        at = stop - p + 1
        place = place_among(special, name)
        if place >= 0:
            if special.detour[place] < 0 or found.detour >= 0:
                return False
            found.detour, found.value = special.detour[place], value
            continue
        if waits and value.n == 5 and name.n >= 4 and memcmp(middle - 4, b"WAIT\001false", 10) == 0:
            return False
        if value.n == 0:
            continue
        if same(name, b"UNIQ_KEY", 8):
            if not once(&found.unique, value):
                return False
        elif same(name, b"KEYS", 4):
            if not once(&found.keys, value):
                return False
        elif same(name, b"TAGS", 4):
            if not once(&found.tags, value):
                return False
        elif same(name, b"__SHARDINGKEY", 13):
            found.is_ordered = True
    return True


cdef inline uint32_t java_hash(uint32_t h, Text t) noexcept nogil:
    """String.hashCode of ASCII, going on from what is before it."""
    cdef const uint8_t *p = t.at
    cdef Py_ssize_t left = t.n
    while left >= 4:  # the powers of 31: each step waits for the one before, so they are fewer
        h = h * 923521 + p[0] * <uint32_t>29791 + p[1] * <uint32_t>961 + p[2] * <uint32_t>31 + p[3]
        p += 4
        left -= 4
    while left > 0:
        h = h * 31 + p[0]
        p += 1
        left -= 1
    return h


cdef inline uint32_t index_hash(uint32_t h) noexcept nogil:
    """Its absolute value, and 0 where Java's abs is negative."""
    if h == <uint32_t>1 << 31:
        return 0
    return 0 - h if h >> 31 else h


cdef inline int add_key(Buffer *keys, uint32_t h, int64_t position) except -1 nogil:
    reserve(keys, KEY_BYTES)
    put32(keys.at + keys.used, index_hash(h))
    put64(keys.at + keys.used + 4, <uint64_t>position)
    keys.used += KEY_BYTES
    return 0


# How the keys of a topic begin, hashed: `topic#`, and `topic#T#` (TAG_MARK of kernel/python/keys.py) before a tag.
cdef struct KeyPrefix:
    uint32_t word, tag


cdef inline KeyPrefix prefix_of(Text topic) noexcept nogil:
    cdef KeyPrefix prefix
    prefix.word = java_hash(0, topic) * 31 + c'#'
    prefix.tag = (prefix.word * 31 + c'T') * 31 + c'#'
    return prefix


cdef inline int add_keys(Buffer *keys, KeyPrefix prefix, const Found *found, bint with_tags, int64_t position) except -1 nogil:
    """What a message is found by, in the order in which Java puts it."""
    if found.unique.at != NULL:
        add_key(keys, java_hash(prefix.word, found.unique), position)
    if found.keys.at != NULL:
        add_words(keys, prefix.word, found.keys, position)
    if with_tags and found.tags.at != NULL:
        add_key(keys, java_hash(prefix.tag, found.tags), position)
    return 0


cdef int add_words(Buffer *keys, uint32_t prefix, Text words, int64_t position) except -1 nogil:
    """Each word between blanks is a key of its own."""
    cdef Py_ssize_t at = 0
    cdef Text word
    while at < words.n:
        word.at = words.at + at
        word.n = 0
        while at < words.n and words.at[at] != c' ':
            at += 1
            word.n += 1
        at += 1
        if word.n:
            add_key(keys, java_hash(prefix, word), position)
    return 0
