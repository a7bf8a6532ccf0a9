# Records to the buffers of Arrow's columns, in one walk over their places and one over each column. Spark's readers wrap
# the buffers (spark/codec/native_columns.py). What is odd is left out, and the caller makes that column in its slower way:
# nothing here raises for what a record holds.

cdef struct Place:
    const uint8_t *at
    const uint8_t *store_time
    const uint8_t *store_host
    const uint8_t *middle         # reconsume times 4, prepared transaction offset 8, body length 4
    Text body
    Text topic
    Text properties
    int32_t size
    int32_t sys_flag


cdef bint place_of(const uint8_t *p, Py_ssize_t room, Place *found) noexcept nogil:
    """False if it does not add up to its size, or lies not whole in its room."""
    cdef int64_t size, at = 56, length, width
    if room < FIXED_BYTES:
        return False
    size = <int32_t>get32(p)
    if size < FIXED_BYTES or size > room:
        return False
    if get32(p + 4) == MAGIC_V1:
        width = 1
    elif get32(p + 4) == MAGIC_V2:
        width = 2
    else:
        return False
    found.at, found.size, found.sys_flag = p, <int32_t>size, <int32_t>get32(p + 36)
    if found.sys_flag & 0x10:     # an IPv6 address takes 12 bytes more
        at += 12
    found.store_time, found.store_host = p + at, p + at + 8
    at += 16
    if found.sys_flag & 0x20:
        at += 12
    found.middle = p + at
    at += 16
    if at + width + 2 > size:
        return False
    length = <int32_t>get32(p + at - 4)
    if length < 0 or at + length + width + 2 > size:
        return False
    found.body.at, found.body.n = p + at, length
    at += length + width
    length = p[at - 1] if width == 1 else get16(p + at - 2)
    if at + length + 2 > size:
        return False
    found.topic.at, found.topic.n = p + at, length
    at += length + 2
    length = get16(p + at - 2)
    if length > 0x7FFF or at + length != size:
        return False
    found.properties.at, found.properties.n = p + at, length
    return True


cdef bint is_utf8(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """As strict as Python: no surrogates, nothing longer than needed, nothing beyond U+10FFFF."""
    cdef Py_ssize_t i = 0, more, k
    cdef uint64_t word
    cdef uint32_t c, first
    while i < n:
        if n - i >= 8:
            memcpy(&word, p + i, 8)
            if not word & <uint64_t>0x8080808080808080:
                i += 8
                continue
        first = p[i]
        i += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if n - i < more:
            return False
        c = first & (0x3F >> more)
        for k in range(more):
            if p[i + k] & 0xC0 != 0x80:
                return False
            c = c << 6 | p[i + k] & 0x3F
        if (more == 2 and (c < 0x800 or 0xD800 <= c <= 0xDFFF)) or (more == 3 and (c < 0x10000 or c > 0x10FFFF)):
            return False
        i += more
    return True


cdef class Texts:
    """A column of spans that grows by `put`. Its buffers have room for all that may come, told at the start."""
    cdef bytes offsets, data, valid
    cdef int32_t *ends
    cdef uint8_t *out
    cdef uint8_t *bits
    cdef Py_ssize_t rows, nulls
    cdef int32_t used

    def __cinit__(self, Py_ssize_t most_rows, Py_ssize_t most_bytes, bint nullable):
        self.offsets = PyBytes_FromStringAndSize(NULL, 4 * (most_rows + 1))
        self.data = PyBytes_FromStringAndSize(NULL, most_bytes)
        self.ends = <int32_t *>PyBytes_AS_STRING(self.offsets)
        self.out = <uint8_t *>PyBytes_AS_STRING(self.data)
        self.ends[0] = 0
        if nullable:
            self.valid = PyBytes_FromStringAndSize(NULL, most_rows // 8 + 1)
            self.bits = <uint8_t *>PyBytes_AS_STRING(self.valid)
            memset(self.bits, 0, <size_t>(most_rows // 8 + 1))

    cdef inline void put(self, const uint8_t *p, Py_ssize_t n) noexcept nogil:
        memcpy(self.out + self.used, p, <size_t>n)
        self.took(n)

    cdef inline void took(self, Py_ssize_t n) noexcept nogil:
        """So many bytes were written behind the last ones."""
        self.used += <int32_t>n
        if self.bits != NULL:
            self.bits[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        self.rows += 1
        self.ends[self.rows] = self.used

    cdef inline void put_or_null(self, const Text *span) noexcept nogil:
        if span != NULL:
            self.put(span.at, span.n)
            return
        self.nulls += 1
        self.rows += 1
        self.ends[self.rows] = self.used

    cdef tuple parts(self):
        return self.rows, self.nulls, self.valid if self.nulls else None, self.offsets, self.data, self.used


cdef bytes whole_numbers(const Place *places, Py_ssize_t count, int kind):
    """4 bytes each, by their place in the fixed part; below 0 times of reconsumption, which stand behind the hosts."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 4 * count)
    cdef int32_t *out = <int32_t *>PyBytes_AS_STRING(made)
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = <int32_t>(get32(places[i].at + kind) if kind >= 0 else get32(places[i].middle))
    return made


cdef bytes long_numbers(const Place *places, Py_ssize_t count, int kind):
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef int64_t *out = <int64_t *>PyBytes_AS_STRING(made)
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = <int64_t>(get64(places[i].at + kind) if kind >= 0 else get64(places[i].store_time))
    return made


cdef tuple spans_of(const Place *places, Py_ssize_t count, bint topics):
    cdef Py_ssize_t i, total = 0
    cdef const Text *span
    for i in range(count):
        total += places[i].topic.n if topics else places[i].body.n
    cdef Texts column = Texts(count, total, False)
    for i in range(count):
        span = &places[i].topic if topics else &places[i].body
        if topics and not is_utf8(span.at, span.n):
            return None
        column.put(span.at, span.n)
    return column.parts()


cdef tuple hosts_of(const Place *places, Py_ssize_t count, bint born, text_of):
    """Most records of a chunk have the host of the one before them."""
    cdef Py_ssize_t i, n, last_n = 0
    cdef const uint8_t *host
    cdef const uint8_t *last = NULL
    cdef bytes text = b""
    cdef str named
    cdef Texts column = Texts(count, 64 * count, False)   # the longest: 8 groups, brackets, a port of 10 digits
    for i in range(count):
        host = places[i].at + 48 if born else places[i].store_host
        n = 20 if places[i].sys_flag & (0x10 if born else 0x20) else 8
        if last == NULL or n != last_n or memcmp(host, last, <size_t>n) != 0:
            named = text_of(PyBytes_FromStringAndSize(<const char *>host, n))
            text = named.encode()
            if PyBytes_GET_SIZE(text) > 64:
                return None
            last, last_n = host, n
        column.put(<const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return column.parts()


cdef enum:
    MOST_PAIRS = 64


cdef int pairs_of(Text raw, Text *names, Text *values) noexcept nogil:
    """The rules of protocol/properties.py. How many, or -1: a name comes twice, too many, or no UTF-8."""
    cdef const uint8_t *at = raw.at
    cdef const uint8_t *end = raw.at + raw.n
    cdef const uint8_t *stop
    cdef const uint8_t *middle
    cdef int count = 0, i
    if not is_utf8(raw.at, raw.n):
        return -1
    while at < end:
        stop = <const uint8_t *>memchr(at, 2, <size_t>(end - at))
        if stop == NULL:
            stop = end
        middle = <const uint8_t *>memchr(at, 1, <size_t>(stop - at))
        if middle != NULL and middle > at and stop > middle + 1:
            if count == MOST_PAIRS:
                return -1
            names[count].at, names[count].n = at, middle - at
            values[count].at, values[count].n = middle + 1, stop - middle - 1
            for i in range(count):
                if names[i].n == names[count].n and memcmp(names[i].at, at, <size_t>names[i].n) == 0:
                    return -1
            count += 1
        at = stop + 1
    return count


cdef void put_id(Texts ids, const Place *place, const Text *unique) noexcept nogil:
    """The sender's id, else the one made of where the record is stored."""
    cdef int n
    if unique != NULL:
        ids.put(unique.at, unique.n)
        return
    n = 20 if place.sys_flag & 0x20 else 8
    put_hex(ids.out + ids.used, place.store_host, n)
    put_hex(ids.out + ids.used + 2 * n, place.at + 28, 8)
    ids.took(2 * n + 16)


cdef dict property_columns(const Place *places, Py_ssize_t count, wanted):
    """keys, tags, msgId and properties, those that are wanted. None if a row is odd."""
    cdef Py_ssize_t i, total = 0, most
    cdef int k, n
    cdef Text names[MOST_PAIRS]
    cdef Text values[MOST_PAIRS]
    cdef const Text *own[3]       # of the row: keys, tags, id
    cdef dict made = {}
    for i in range(count):
        total += places[i].properties.n
    most = total // 3 + count     # a pair has a name, a mark and a value
    cdef Texts keys = Texts(count, total, True) if "keys" in wanted else None
    cdef Texts tags = Texts(count, total, True) if "tags" in wanted else None
    cdef Texts ids = Texts(count, total + 56 * count, False) if "msgId" in wanted else None
    cdef bint mapped = "properties" in wanted
    cdef Texts left = Texts(most, total, False) if mapped else None
    cdef Texts right = Texts(most, total, False) if mapped else None
    cdef bytes rows = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef int32_t *ends = <int32_t *>PyBytes_AS_STRING(rows)
    ends[0] = 0
    for i in range(count):
        n = pairs_of(places[i].properties, names, values)
        if n < 0:
            return None
        own[0] = own[1] = own[2] = NULL
        for k in range(n):
            if mapped:
                left.put(names[k].at, names[k].n)
                right.put(values[k].at, values[k].n)
            if same(names[k], b"KEYS", 4):
                own[0] = &values[k]
            elif same(names[k], b"TAGS", 4):
                own[1] = &values[k]
            elif same(names[k], b"UNIQ_KEY", 8):
                own[2] = &values[k]
        ends[i + 1] = ends[i] + n
        if keys is not None:
            keys.put_or_null(own[0])
        if tags is not None:
            tags.put_or_null(own[1])
        if ids is not None:
            put_id(ids, &places[i], own[2])
    if keys is not None:
        made["keys"] = keys.parts()
    if tags is not None:
        made["tags"] = tags.parts()
    if ids is not None:
        made["msgId"] = ids.parts()
    if mapped:
        made["properties"] = rows, left.parts(), right.parts()
    return made


def walk_records(buffer):
    """Where each record of a pulled body begins, 8 bytes each; None if sizes and magics do not lead to its end."""
    cdef const uint8_t[::1] view = buffer
    cdef Py_ssize_t n = view.shape[0], at = 0, count = 0
    cdef int64_t size
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 8 * (n // FIXED_BYTES + 1))
    cdef int64_t *out = <int64_t *>PyBytes_AS_STRING(made)
    while n - at >= FIXED_BYTES:
        size = <int32_t>get32(&view[at])
        if get32(&view[at] + 4) != MAGIC_V1 and get32(&view[at] + 4) != MAGIC_V2:
            return None
        if size < FIXED_BYTES or size > n - at:
            return None
        out[count] = at
        count += 1
        at += size
    return made[: 8 * count] if at == n else None


cdef bint is_intact(const Place *place) noexcept nogil:
    cdef int64_t expected = own_crc(place.at + place.size - CRC_BYTES) if place.properties.n >= CRC_BYTES else -1
    if expected >= 0:
        return expected == <int64_t>(crc32_bytes(0, place.at, <size_t>(place.size - CRC_BYTES)) & 0x7FFFFFFF)
    return get32(place.at + 8) == crc32_bytes(0, place.body.at, <size_t>place.body.n) & 0x7FFFFFFF


def walk_log(buffer, int64_t position, int64_t most, bint verify):
    """Records that follow each other from the first byte, which lies at `position` of the log, and begin before `most`.

    Where each begins, 8 bytes each, up to the first that is not whole and intact; and where that is. What is wrong
    there, if anything is, the caller's own way says."""
    cdef const uint8_t[::1] view = buffer
    cdef Py_ssize_t n = view.shape[0], at = 0, count = 0
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 8 * (n // FIXED_BYTES + 1))
    cdef int64_t *out = <int64_t *>PyBytes_AS_STRING(made)
    cdef Place place
    while at < n and at < most:
        if not place_of(&view[at], n - at, &place) or <int64_t>get64(place.at + 28) != position + at:
            break
        if not is_utf8(place.topic.at, place.topic.n) or (verify and not is_intact(&place)):
            break
        out[count] = at
        count += 1
        at += place.size
    return made[: 8 * count], at


def cut_columns(buffer, starts, wanted, text_of):
    """The buffers of the wanted columns of the records that start there; columns that are odd are missing.

    `text_of` makes the text of a host. None if a record does not add up: the caller's own way says which."""
    cdef const uint8_t[::1] view = buffer
    cdef const int64_t[::1] at = starts
    cdef Py_ssize_t count = at.shape[0], n = view.shape[0], i
    cdef Place *places
    cdef dict made = {}
    if count == 0 or n >= <Py_ssize_t>1 << 30:   # Arrow's offsets have 31 bits
        return None
    places = <Place *>realloc(NULL, <size_t>count * sizeof(Place))
    if places == NULL:
        raise MemoryError("no memory for the places of records")
    try:
        for i in range(count):
            if at[i] < 0 or at[i] >= n or not place_of(&view[at[i]], n - at[i], &places[i]):
                return None
        for name in wanted:
            if name in _WHOLE:
                made[name] = whole_numbers(places, count, _WHOLE[name])
            elif name in _LONG:
                made[name] = long_numbers(places, count, _LONG[name])
            elif name == "body" or name == "topic":
                made[name] = spans_of(places, count, name == "topic")
            elif name == "bornHost" or name == "storeHost":
                made[name] = hosts_of(places, count, name == "bornHost", text_of)
        if any([name in _NAMED for name in wanted]):
            made.update(property_columns(places, count, wanted) or {})
    finally:
        free(places)
    return {name: parts for name, parts in made.items() if parts is not None}


_WHOLE = {"queueId": 12, "flag": 16, "sysFlag": 36, "storeSize": 0, "reconsumeTimes": -1}
_LONG = {"queueOffset": 20, "commitLogOffset": 28, "bornTimestamp": 40, "storeTimestamp": -1}
_NAMED = frozenset(("keys", "tags", "msgId", "properties"))
