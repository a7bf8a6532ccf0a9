# ReceiveMessage, AckMessage and ChangeInvisibleDuration as they come: what has a field that we do not know, or one twice, is
# Python's.

cdef bint read_receive(Text request, Receive *m) noexcept nogil:
    """A ReceiveMessageRequest; False for any field that we do not know, or one that comes twice."""
    cdef const uint8_t *at = request.at
    cdef const uint8_t *end = request.at + request.n
    cdef Field f
    cdef uint32_t seen = 0
    memset(m, 0, sizeof(Receive))
    while at < end:
        if not take_field(&at, end, &f) or not 1 <= f.number <= 8 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.kind == 0:
            if f.number == 4 and f.value <= INT32_MAX:
                m.batch = <int64_t>f.value
            elif f.number == 6 and f.value <= 1:
                m.renews = f.value == 1
            else:
                return False
        elif f.number == 1:
            if not read_name(f.text, &m.group):
                return False
        elif f.number == 2:
            if not read_queue(f.text, &m.topic, &m.broker):
                return False
        elif f.number == 3:
            if not read_filter(f.text, m):
                return False
        elif f.number == 5:
            m.has_invisible = True
            if not read_duration(f.text, &m.invisible_ms):
                return False
        elif f.number == 7:
            m.has_poll = True
            if not read_duration(f.text, &m.poll_ms):
                return False
        elif f.number != 8 or not is_quotable(f.text):     # the attempt says nothing where no order is kept
            return False
    return True


cdef bint read_queue(Text queue, Text *topic, Text *broker) noexcept nogil:
    cdef const uint8_t *at = queue.at
    cdef const uint8_t *end = queue.at + queue.n
    cdef Field f
    cdef uint32_t seen = 0
    while at < end:
        if not take_field(&at, end, &f) or not 1 <= f.number <= 5 or (f.number != 5 and seen >> f.number & 1):
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 1 and f.kind == 2:
            if not read_name(f.text, topic):
                return False
        elif f.number == 4 and f.kind == 2:
            if not read_broker(f.text, broker):
                return False
        elif f.number == 5 and f.kind == 2:
            if not is_numbers(f.text):
                return False
        elif f.kind != 0 or f.number == 1 or f.number == 4:
            return False              # number and permission of the queue say nothing
    return True


cdef bint read_broker(Text text, Text *name) noexcept nogil:
    """Its name; that its endpoints are well-formed is all that matters of them."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = text.at + text.n
    cdef Field f
    cdef uint32_t seen = 0
    while at < end:
        if not take_field(&at, end, &f) or not 1 <= f.number <= 3 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 1 and f.kind == 2:
            name[0] = f.text
        elif f.number == 3 and f.kind == 2:
            if not is_endpoints(f.text):
                return False
        elif f.kind != 0 or f.number != 2 or f.value > INT32_MAX:
            return False
    return name.n <= 255 and is_quotable(name[0])


cdef bint is_endpoints(Text text) noexcept nogil:
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = text.at + text.n
    cdef const uint8_t *inside
    cdef Field f, part
    while at < end:
        if not take_field(&at, end, &f):
            return False
        if f.number == 1 and f.kind == 0 and f.value <= INT32_MAX:
            continue
        if f.number != 2 or f.kind != 2:
            return False
        inside = f.text.at
        while inside < at:
            if not take_field(&inside, at, &part):
                return False
            if not (part.number == 1 and part.kind == 2 and is_quotable(part.text)) and not (
                part.number == 2 and part.kind == 0 and part.value <= INT32_MAX
            ):
                return False
    return True


cdef bint is_numbers(Text packed) noexcept nogil:
    cdef const uint8_t *at = packed.at
    cdef const uint8_t *end = packed.at + packed.n
    cdef uint64_t value
    while at < end:
        if not take_varint(&at, end, &value) or value > INT32_MAX:
            return False
    return True


cdef bint read_filter(Text text, Receive *m) noexcept nogil:
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = text.at + text.n
    cdef Field f
    cdef uint32_t seen = 0
    while at < end:
        if not take_field(&at, end, &f) or not 1 <= f.number <= 2 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 1 and f.kind == 0 and f.value <= 2:
            m.filter_type = <int64_t>f.value
        elif f.number == 2 and f.kind == 2 and is_quotable(f.text):
            m.expression = f.text
        else:
            return False
    return True


cdef bint read_duration(Text text, int64_t *ms) noexcept nogil:
    """Whole milliseconds of a Duration that is not negative."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = text.at + text.n
    cdef Field f
    cdef uint64_t seconds = 0, nanos = 0
    cdef uint32_t seen = 0
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 0 or not 1 <= f.number <= 2 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 1:
            seconds = f.value
        else:
            nanos = f.value
    if seconds > <uint64_t>TIME_END or nanos > 999999999:
        return False
    ms[0] = <int64_t>(seconds * 1000 + nanos // 1000000)
    return True


cdef bint read_timeout(Text text, int64_t *ms) noexcept nogil:
    """`grpc-timeout`: up to eight digits and a unit."""
    cdef Text digits
    cdef uint8_t unit
    if not 2 <= text.n <= 9:
        return False
    digits.at, digits.n = text.at, text.n - 1
    unit = text.at[text.n - 1]
    if not integer(digits, 0, 99999999, ms):
        return False
    if unit == c'S':
        ms[0] *= 1000
    elif unit == c'M':
        ms[0] *= 60000
    elif unit == c'H':
        ms[0] *= 3600000
    elif unit == c'u':
        ms[0] //= 1000
    elif unit == c'n':
        ms[0] //= 1000000
    elif unit != c'm':
        return False
    return True


cdef int read_ack(Text request, Text *group, Text *topic, Text *entries) noexcept nogil:
    """An AckMessageRequest, and how many entries it has; 0: it is not for us."""
    cdef const uint8_t *at = request.at
    cdef const uint8_t *end = request.at + request.n
    cdef Field f
    cdef int count = 0
    group[0] = topic[0] = literal(NULL, 0)
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 2:
            return 0
        if f.number == 1 and group.at == NULL:
            if not read_name(f.text, group) or group.at == NULL:
                return 0
        elif f.number == 2 and topic.at == NULL:
            if not read_name(f.text, topic) or topic.at == NULL:
                return 0
        elif f.number == 3 and count < MOST_ENTRIES:
            entries[count] = f.text
            count += 1
        else:
            return 0
    return count


cdef bint read_ack_entry(Text entry, Text *message_id, Text *receipt) noexcept nogil:
    cdef const uint8_t *at = entry.at
    cdef const uint8_t *end = entry.at + entry.n
    cdef Field f
    cdef uint32_t seen = 0
    message_id[0] = receipt[0] = literal(NULL, 0)
    while at < end:
        if not take_field(&at, end, &f) or f.kind != 2 or not 1 <= f.number <= 2 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 1:
            message_id[0] = f.text
        else:
            receipt[0] = f.text
    return message_id.n <= 1024 and is_quotable(message_id[0])


cdef bint read_change(
    Text request, Text *group, Text *topic, Text *receipt, int64_t *invisible, bint *suspend
) noexcept nogil:
    cdef const uint8_t *at = request.at
    cdef const uint8_t *end = request.at + request.n
    cdef Field f
    cdef uint32_t seen = 0
    group[0] = topic[0] = receipt[0] = literal(NULL, 0)
    invisible[0], suspend[0] = 0, False
    while at < end:
        if not take_field(&at, end, &f) or not 1 <= f.number <= 7 or seen >> f.number & 1:
            return False
        seen |= <uint32_t>1 << f.number
        if f.number == 7 and f.kind == 0 and f.value <= 1:
            suspend[0] = f.value == 1
        elif f.kind != 2:
            return False
        elif f.number == 1:
            if not read_name(f.text, group):
                return False
        elif f.number == 2:
            if not read_name(f.text, topic):
                return False
        elif f.number == 3:
            receipt[0] = f.text
        elif f.number == 4:
            if not read_duration(f.text, invisible):
                return False
        elif f.number != 5 or not is_quotable(f.text):     # the message id says nothing here
            return False
    return seen & 26 == 26


cdef bint read_grpc_receipt(Text text, GrpcReceipt *m) noexcept nogil:
    """Eight or nine fields, of a message that was not popped in order."""
    cdef Py_ssize_t at = 0, begin = 0
    cdef int64_t start, revive
    m.fields = 0
    if not 0 < text.n <= MOST_RECEIPT or not is_quotable(text):
        return False
    while at <= text.n:
        if at == text.n or text.at[at] == c' ':
            if m.fields == 9:
                return False
            m.field[m.fields].at, m.field[m.fields].n = text.at + begin, at - begin
            m.fields += 1
            begin = at + 1
        at += 1
    m.position = -1
    return (
        m.fields >= 8
        and integer(m.field[0], 0, INT64_MAX, &start)
        and integer(m.field[1], 0, <int64_t>1 << 60, &m.pop_time)
        and integer(m.field[2], 0, <int64_t>1 << 60, &m.invisible)
        and integer(m.field[3], 0, INT32_MAX, &revive)
        and revive != 999
        and m.field[4].n == 1
        and c'0' <= m.field[4].at[0] <= c'2'
        and integer(m.field[6], 0, INT32_MAX, &m.queue)
        and integer(m.field[7], 0, INT64_MAX, &m.offset)
        and (m.fields == 8 or integer(m.field[8], -1, INT64_MAX, &m.position))
    )
