# Records of a log to their places, and places to the keys that the index has: recovery, and every put that Python makes.
# What is odd ends the walk, or makes it none of ours: kernel/python/scan.py and keys.py say what it is then.

cdef Names no_names
no_names.count, no_names.lengths = 0, 0


cdef bint is_whole(const Place *place, int64_t position, bint *sealed) noexcept nogil:
    """Whether Python's check finds nothing wrong with it. `sealed`: it has its own CRC."""
    sealed[0] = is_sealed(place.at, place.size, position)
    if sealed[0]:
        return place.properties.n >= CRC_BYTES
    if place.properties.n >= CRC_BYTES and memcmp(place.at + place.size - CRC_BYTES, b"__CRC32#\001", 9) == 0:
        return False              # damaged, or nearly one
    return get32(place.at + 8) == crc32_bytes(0, place.body.at, <size_t>place.body.n) & 0x7FFFFFFF


cdef inline bint is_plain_place(const Place *place, int64_t position) noexcept nogil:
    """Whether it says that it lies there, is no inner batch, and not delayed by a level."""
    if <int64_t>get64(place.at + 28) != position or place.sys_flag & 0xC0:
        return False
    return not same(place.topic, b"SCHEDULE_TOPIC_XXXX", 19)


def whole_places(view, int64_t position):
    """The records that stand one after another from the first byte on, which lies at `position` of the log, as `Placed`;
    and how many of them, from the first on, have their own CRC. Delayed ones and inner batches end it, too."""
    cdef const uint8_t[::1] bytes_ = view
    cdef Py_ssize_t n = bytes_.shape[0], at = 0, count = 0, sealed_count = -1
    cdef Place place
    cdef Found found
    cdef Text last
    cdef bint sealed = False
    cdef int64_t code
    cdef list places = []
    cdef object topic = None
    last.at, last.n = NULL, 0
    while n - at >= FIXED_BYTES:
        if not place_of(&bytes_[at], n - at, &place) or not is_plain_place(&place, position + at):
            break
        if not is_whole(&place, position + at, &sealed):
            break
        if not walk_properties(place.properties.at, place.properties.n, &no_names, False, &found):
            break
        if last.at == NULL or place.topic.n != last.n or memcmp(place.topic.at, last.at, <size_t>last.n) != 0:
            if not is_utf8(place.topic.at, place.topic.n):
                break
            topic = (<const char *>place.topic.at)[:place.topic.n].decode("utf-8")
            last = place.topic
        if not sealed and sealed_count < 0:
            sealed_count = count
        code = <int32_t>java_hash(0, found.tags) if found.tags.at != NULL else 0
        places.append(
            make_tuple(
                Placed,
                (
                    position + at,
                    place.size,
                    topic,
                    <int32_t>get32(place.at + 12),
                    <int64_t>get64(place.at + 20),
                    place.sys_flag,
                    <int64_t>get64(place.store_time),
                    code,
                    PyBytes_FromStringAndSize(<const char *>place.properties.at, place.properties.n),
                    1,
                ),
            )
        )
        count += 1
        at += place.size
    return places, count if sealed_count < 0 else sealed_count


def index_keys(places, int64_t covered, bint with_tags):
    """Of records behind `covered`: what each is found by, 12 bytes a key, in the order in which Java puts them. None if
    one of them has a topic or key that is not ASCII, or twice."""
    cdef Buffer keys
    cdef Found found
    cdef Text topic, properties
    cdef int64_t position
    cdef bytes raw, name = b""
    cdef str text, last = None
    keys.at, keys.used, keys.room = NULL, 0, 0
    try:
        for placed in places:
            position = placed[0]
            if position <= covered or (<int64_t>placed[5] & 0x0C) == 0x0C:   # covered, or rolled back
                continue
            raw = placed[8]
            properties.at, properties.n = <const uint8_t *>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)
            if not walk_properties(properties.at, properties.n, &no_names, False, &found):
                return None
            text = placed[2]
            if text is not last:
                if not text.isascii():
                    return None
                name = text.encode("ascii")
                last = text
            topic.at, topic.n = <const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
            add_keys(&keys, prefix_of(topic), &found, with_tags, position)
        return PyBytes_FromStringAndSize(<const char *>keys.at, <Py_ssize_t>keys.used) if keys.used else b""
    finally:
        free(keys.at)

