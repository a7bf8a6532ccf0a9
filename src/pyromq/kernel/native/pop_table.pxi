# The table of young check points and its journal. Its twin is kernel/python/pop_table.py, which says what each call
# promises; kernel/pops.py explains the journal. The feed of pops calls the C methods.

cdef enum:
    ACK_SET = 0, ACK_AGAIN = 1, ACK_UNKNOWN = 2, ACK_CLASH = 3

cdef tuple ACKS = tuple(Ack)


cdef class PopTable(PopPoints):
    cdef int64_t most_bytes
    cdef bint is_changed
    cdef Buffer entries
    cdef uint32_t last_acked          # the newest entry is an ACK of this check point: where it begins, and its bits
    cdef size_t last_ack_at
    cdef uint64_t last_ack_bits

    def __init__(self, int64_t most_bytes):
        self.most_bytes = most_bytes
        self.is_changed = True
        self.last_acked = NO_POINT

    def __dealloc__(self):
        free(self.entries.at)

    # --- lanes ----------------------------------------------------------------------------------------------------

    def lane(self, str group not None, str topic not None, int queue_id):
        number = self.numbers.get((group, topic, queue_id))
        if number is None:
            number = self.next_number
            self.declare(self.add_lane(number, group, topic, queue_id))
        return number

    def names(self, lane):
        cdef PopLane found = self.lane_of(lane)
        return found.group, found.topic, found.queue_id

    def next_offset(self, lane):
        return self.lane_of(lane).next

    def set_next(self, lane, int64_t offset):
        self.move(self.lane_of(lane), offset)

    def base(self, lane):
        return self.base_of_lane(self.lane_of(lane))

    def drop_lane(self, lane):
        cdef PopLane found = self.lane_of(lane)
        cdef list dropped = self.points_of(found, found.points())
        cdef uint8_t *r
        if dropped or found.next != -1:
            self.declare(found)
            r = self.note(POP_DROPPED, 0)
            self.noted(put_unsigned(r, <uint64_t>found.number))
            self.drop(found)
        return dropped

    cdef int move(self, PopLane lane, int64_t offset) except -1:
        cdef uint8_t *r
        if lane.next != offset:
            self.declare(lane)
            lane.next = offset
            r = put_unsigned(self.note(POP_NEXT, 0), <uint64_t>lane.number)
            self.noted(put_signed(r, offset))
        return 0

    # --- check points ---------------------------------------------------------------------------------------------

    def hand_out(self, lane, int64_t start, offsets, int64_t next_offset, int64_t pop_time, int64_t invisible_ms, revive_queue):
        cdef int64_t given[MOST_POPPED]
        cdef int count = 0
        cdef PopLane found = self.lane_of(lane)
        if not 1 <= len(offsets) <= MOST_POPPED:
            raise ValueError(f"a check point has 1 to {MOST_POPPED} messages, not {len(offsets)}")
        for offset in offsets:
            if count == MOST_POPPED:
                raise ValueError(f"a check point has 1 to {MOST_POPPED} messages, not more")
            given[count] = offset
            count += 1
        check_given(start, given, count, next_offset)
        return self.give(found, start, given, count, next_offset, pop_time, invisible_ms, revive_of(revive_queue))

    cdef bint give(
        self, PopLane lane, int64_t start, const int64_t *offsets, int count, int64_t next_offset, int64_t pop_time,
        int64_t invisible, int revive,
    ) except -1:
        """As `hand_out`, of offsets that ascend."""
        cdef uint8_t *r
        cdef int i
        cdef int64_t behind = start
        cdef bint gaps = offsets[0] != start or offsets[count - 1] - start != count - 1
        if self.used >= self.most_bytes or self.find(lane, start, pop_time) != NO_POINT:
            return False
        self.add(lane, start, offsets, count, pop_time, invisible, revive, False)
        self.declare(lane)
        lane.next = next_offset
        r = self.note(POP_POP, (7 + (count if gaps else 0)) * MOST_VARINT)
        r[0] = WITH_GAPS if gaps else 0
        r = put_signed(put_unsigned(r + 1, <uint64_t>lane.number), start)
        r = put_signed(put_signed(put_signed(r, pop_time), invisible), revive)
        r = put_unsigned(put_signed(r, next_offset - start), <uint64_t>count)
        if gaps:
            for i in range(count):
                r = put_unsigned(r, <uint64_t>(offsets[i] - behind))
                behind = offsets[i] + 1
        self.noted(r)
        return True

    def ack(self, lane, int64_t start, int64_t pop_time, int64_t offset):
        return ACKS[self.settle_one(self.lane_of(lane), start, pop_time, offset)]

    cdef int settle_one(self, PopLane lane, int64_t start, int64_t pop_time, int64_t offset) except -1:
        cdef uint32_t found = self.find(lane, start, pop_time)
        cdef int bit = -1 if found == NO_POINT else bit_of(self.arena + found, offset)
        if bit < 0:
            return ACK_UNKNOWN
        if not self.arena[found].open >> bit & 1:
            return ACK_AGAIN
        self.declare(lane)
        self.note_ack(lane, found, <uint64_t>1 << bit)
        self.settle(lane, found, <uint64_t>1 << bit)
        if not self.arena[found].open:
            self.last_acked = NO_POINT    # another check point may get its place
        return ACK_SET

    def change(self, lane, int64_t start, int64_t pop_time, int64_t offset, int64_t now_ms, int64_t invisible_ms, bint suspend):
        return ACKS[self.change_one(self.lane_of(lane), start, pop_time, offset, now_ms, invisible_ms, suspend)]

    cdef int change_one(
        self, PopLane lane, int64_t start, int64_t pop_time, int64_t offset, int64_t now, int64_t invisible, bint suspend
    ) except -1:
        cdef uint32_t found = self.find(lane, start, pop_time), other
        cdef int bit = -1 if found == NO_POINT else bit_of(self.arena + found, offset), revive
        cdef uint64_t bits
        cdef uint8_t *r
        if bit < 0:
            return ACK_UNKNOWN
        bits = <uint64_t>1 << bit
        if not self.arena[found].open & bits:
            return ACK_AGAIN
        other = self.find(lane, offset, now)
        if other != NO_POINT and (other != found or self.arena[found].open != bits):
            return ACK_CLASH
        revive = self.arena[found].revive
        self.make_room()
        self.declare(lane)
        self.settle(lane, found, bits)
        self.add(lane, offset, &offset, 1, now, invisible, revive, suspend)
        r = self.note(POP_CHANGE, 8 * MOST_VARINT)
        r[0] = SUSPENDED if suspend else 0
        r = put_signed(put_signed(put_unsigned(r + 1, <uint64_t>lane.number), start), pop_time)
        r = put_unsigned(r, <uint64_t>(offset - start))
        r = put_signed(r, <int64_t>(<uint64_t>now - <uint64_t>pop_time))
        self.noted(put_signed(put_signed(r, invisible), revive))
        return ACK_SET

    def due(self, int64_t now_ms, Py_ssize_t most):
        return self.earliest(BY_DUE, now_ms, most)

    def aged(self, int64_t popped_before_ms, Py_ssize_t most):
        return self.earliest(BY_AGE, popped_before_ms, most)

    cdef list earliest(self, int which, int64_t time, Py_ssize_t most):
        """The first of a heap: those that are due, or old or in the way. All stay."""
        cdef list found = [], taken = []
        cdef int64_t excess = self.used - self.most_bytes // 8 * 7
        cdef uint32_t place
        cdef PopPoint *point
        if self.asleep:
            self.wake()
        while self.heap[which].used and len(found) < most:
            place = self.heap[which].at[0]
            point = self.arena + place
            if which == BY_DUE:
                if due_of(point) > time:
                    break
            elif excess <= 0 and point.pop_time >= time:
                break
            excess -= bytes_of_point(point)
            found.append(self.as_given(place))
            taken.append(place)
            self.pull_out(which, place)
        for one in taken:
            self.push(which, <uint32_t>one)
        return found

    def revived(self, point):
        self.leave(point, POP_REVIVED)

    def spilled(self, point):
        self.leave(point, POP_SPILLED)

    cdef int leave(self, given, int kind) except -1:
        return self.go(self.lane_of(given[0]), given[1], given[2], kind)

    cdef int go(self, PopLane lane, int64_t start, int64_t pop_time, int kind) except -1:
        cdef uint32_t found = self.find(lane, start, pop_time)
        if found != NO_POINT:
            self.declare(lane)
            self.noted(put_signed(put_signed(put_unsigned(self.note(kind, 0), <uint64_t>lane.number), start), pop_time))
            self.settle(lane, found, self.arena[found].open)
        return 0

    # --- figures --------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self):
        return self.used

    def lanes(self):
        return sorted(self.by_number)

    def points(self, lane, most=None):
        cdef PopLane found = self.lane_of(lane)
        return self.points_of(found, found.points() if most is None else most)

    def point(self, lane, int64_t start, int64_t pop_time):
        cdef uint32_t found = self.find(self.lane_of(lane), start, pop_time)
        return None if found == NO_POINT else self.as_given(found)

    def moved(self, lane, int64_t offset):
        cdef int64_t pop_time
        return pop_time if self.moved_to(self.lane_of(lane), offset, &pop_time) else None

    cdef bint moved_to(self, PopLane lane, int64_t offset, int64_t *pop_time) noexcept:
        cdef Py_ssize_t at = self.position(lane, offset, INT64_MAX)
        cdef const PopPoint *point
        if at == lane.until or self.arena[lane.ring[at]].start != offset:
            at -= 1
        while at >= lane.first:
            point = self.arena + lane.ring[at]
            if point.start != offset:
                break
            if point.count == 1 and offset_of(point, 0) == offset:
                pop_time[0] = point.pop_time
                return True
            at -= 1
        return False

    def in_flight(self, group=None):
        cdef PopLane lane
        cdef list found = []
        for number in sorted(self.by_number):
            lane = self.by_number[number]
            if lane.points() and (group is None or group == lane.group):
                found.append(LaneFigures(lane.number, lane.messages, lane.points()))
        return found

    # --- the journal ----------------------------------------------------------------------------------------------

    @property
    def entry_bytes(self):
        return self.entries.used

    def take_entries(self):
        cdef bytes taken = PyBytes_FromStringAndSize(<char *>self.entries.at, <Py_ssize_t>self.entries.used)
        self.clear_entries()
        return taken

    cdef void clear_entries(self) noexcept:
        self.entries.used = 0
        self.last_acked = NO_POINT

    def note_other(self, int kind, bytes body not None):
        cdef uint8_t *r
        if not FIRST_OTHER <= kind <= 255:
            raise ValueError(f"entries of others are of kind {FIRST_OTHER} to 255, not {kind}")
        r = self.note(kind, len(body) + MOST_VARINT)
        self.noted(put_text(put_unsigned(r, <uint64_t>len(body)), text_of(body)))

    def begin(self, int64_t journal_offset):
        if self.count or self.epoch_count > 1:
            raise ValueError("the table is in use already")
        self.epochs[0] = journal_offset

    def note_base(self, int64_t journal_offset, int64_t saved_offset):
        if not self.is_changed:
            return False
        self.add_epoch(journal_offset)
        while self.epoch_count > 1 and self.epochs[1] == 0 and self.epochs[2] <= saved_offset:
            self.drop_epoch()
        self.noted(put_unsigned(self.note(POP_BASE, 0), <uint64_t>self.epochs[0]))
        self.is_changed = False
        return True

    @staticmethod
    def base_of(bytes raw not None):
        cdef EntryReader reader = EntryReader(raw)
        cdef PopEntry entry
        found = None
        while reader.entry(&entry):
            if entry.kind == POP_BASE:
                found = entry.offset
        return found

    def replay(self, bytes raw not None, others=None):
        cdef EntryReader reader = EntryReader(raw)
        cdef PopEntry entry
        cdef Py_ssize_t number = 0
        self.sleep()
        while reader.entry(&entry):
            try:
                self.apply(&entry, others)
            except ValueError as fault:
                raise DamagedJournal(f"pop journal: entry {number} of {reader.n} bytes: {fault}") from None
            number += 1

    cdef int apply(self, PopEntry *e, others) except -1:
        cdef PopLane lane
        cdef uint32_t found
        if e.kind >= FIRST_OTHER:
            if others is not None:
                others(e.kind, bytes_of(e.other))
            return 0
        if e.kind == POP_LANE:
            return self.bind(e)
        if e.kind == POP_BASE:
            return 0
        lane = self.lane_of(e.lane)
        if e.kind == POP_DROPPED:
            return self.drop(lane)
        if e.kind == POP_NEXT:
            lane.next = e.next
            return 0
        if e.kind == POP_POP:
            return self.give_again(lane, e)
        found = self.find(lane, e.start, e.pop_time)
        if e.kind == POP_CHANGE:
            return self.change_again(lane, e, found)
        if found != NO_POINT:
            if e.kind == POP_ACK:
                e.bits &= self.arena[found].open
            else:
                e.bits = self.arena[found].open
            if e.bits:
                self.settle(lane, found, e.bits)
        return 0

    cdef int bind(self, PopEntry *e) except -1:
        """Give a lane its number, also one that another lane had which has nothing open."""
        cdef PopLane lane
        cdef str group = bytes_of(e.group).decode(), topic = bytes_of(e.topic).decode()
        cdef tuple key = (group, topic, e.queue_id)
        for number in (e.lane, self.numbers.get(key, e.lane)):
            lane = self.by_number.get(number)
            if lane is None or ((lane.group, lane.topic, lane.queue_id) == key and number == e.lane):
                continue
            if lane.points():
                raise ValueError(f"lane {e.lane} is told as {key}, but lane {number} has open check points")
            del self.by_number[number], self.numbers[lane.group, lane.topic, lane.queue_id]
        lane = self.by_number.get(e.lane)
        if lane is None:
            lane = self.add_lane(e.lane, group, topic, <int>e.queue_id)
        lane.next = e.next
        return 0

    cdef int give_again(self, PopLane lane, PopEntry *e) except -1:
        check_given(e.start, e.offsets, e.count, e.next)
        if self.find(lane, e.start, e.pop_time) != NO_POINT:
            raise ValueError(f"start {e.start} of pop time {e.pop_time} is open already")
        self.add(lane, e.start, e.offsets, e.count, e.pop_time, e.invisible, <int>e.revive, False)
        lane.next = e.next
        return 0

    cdef int change_again(self, PopLane lane, PopEntry *e, uint32_t found) except -1:
        cdef int bit = -1 if found == NO_POINT else bit_of(self.arena + found, e.offset)
        if bit >= 0 and self.arena[found].open >> bit & 1:
            self.settle(lane, found, <uint64_t>1 << bit)
        if self.find(lane, e.offset, e.next) != NO_POINT:
            raise ValueError(f"start {e.offset} of pop time {e.next} is open already")
        return self.add(lane, e.offset, &e.offset, 1, e.next, e.invisible, <int>e.revive, e.flags != 0)

    # --- entries --------------------------------------------------------------------------------------------------

    cdef int declare(self, PopLane lane) except -1:
        """Write its LANE entry, if this epoch has none yet."""
        cdef bytes group, topic
        cdef uint8_t *r
        if lane.told != self.epoch():
            group, topic = lane.group.encode(), lane.topic.encode()
            r = self.note(POP_LANE, 5 * MOST_VARINT + len(group) + len(topic))
            r = put_signed(put_signed(put_unsigned(r, <uint64_t>lane.number), lane.queue_id), lane.next)
            r = put_text(put_unsigned(r, <uint64_t>len(group)), text_of(group))
            self.noted(put_text(put_unsigned(r, <uint64_t>len(topic)), text_of(topic)))
            lane.told = self.epoch()
        return 0

    cdef int note_ack(self, PopLane lane, uint32_t place, uint64_t bits) except -1:
        """An ACK, in place of the one before if that is of the same check point."""
        cdef const PopPoint *point = self.arena + place
        cdef uint8_t *r
        cdef size_t at
        if self.last_acked == place:
            bits |= self.last_ack_bits
            self.entries.used = self.last_ack_at
        at = self.entries.used
        r = put_signed(put_signed(put_unsigned(self.note(POP_ACK, 0), <uint64_t>lane.number), point.start), point.pop_time)
        self.noted(put_unsigned(r, bits))
        self.last_acked, self.last_ack_at, self.last_ack_bits = place, at, bits
        return 0

    cdef uint8_t *note(self, int kind, Py_ssize_t more) except NULL:
        """Where the rest of an entry goes, for which there is room: `more` bytes, or those of four numbers."""
        reserve(&self.entries, 2 + <size_t>max(more, 4 * MOST_VARINT))
        self.entries.at[self.entries.used] = <uint8_t>kind
        return self.entries.at + self.entries.used + 1

    cdef void noted(self, const uint8_t *end) noexcept:
        self.entries.used = <size_t>(end - self.entries.at)
        self.last_acked = NO_POINT
        self.is_changed = True


cdef int revive_of(revive_queue) except -1:
    if not 0 <= revive_queue <= 65535:
        raise ValueError(f"a revive queue is 0 to 65535, not {revive_queue}")
    return <int>revive_queue


cdef int check_given(int64_t start, const int64_t *offsets, int count, int64_t next_offset) except -1:
    """ValueError unless they ascend from `start` on and end before `next_offset`."""
    cdef int64_t before
    cdef int i
    if not 0 <= start <= offsets[0]:
        raise ValueError(f"a read from {start} on cannot give offset {offsets[0]}")
    before = start - 1
    for i in range(count):
        if offsets[i] <= before:
            raise ValueError(f"offset {offsets[i]} comes behind {before}")
        before = offsets[i]
    if next_offset <= before:
        raise ValueError(f"offset {next_offset} comes behind {before}")
    if before - start > MOST_SPAN:
        raise ValueError(f"offset {before} is too far behind {start}")
    return 0
