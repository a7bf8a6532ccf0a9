# Check points in one arena: 64 bytes each, found by their lane's sorted ring, ordered by two heaps. No Python objects.

cdef enum:
    POINT_BYTES = 80          # with its places in ring and heaps: what it counts against the table's limit
    POP_GAP_BYTES = 4
    BY_DUE = 0, BY_AGE = 1

cdef uint32_t NO_POINT = 0xFFFFFFFF


cdef extern from *:
    """
    static inline int kernel_lowest_bit(uint64_t v) { return __builtin_ctzll(v); }
    static inline int kernel_bit_count(uint64_t v) { return __builtin_popcountll(v); }
    """
    int lowest_bit "kernel_lowest_bit"(uint64_t v) nogil
    int bit_count "kernel_bit_count"(uint64_t v) nogil


cdef struct PopPoint:
    int64_t start, pop_time, invisible
    uint64_t open             # 0: this place is free
    uint32_t *gaps            # distances of all offsets from the start; NULL: they follow each other
    uint32_t lane             # its place among the lanes
    uint32_t epoch
    uint32_t place[2]         # in the heaps
    uint16_t revive
    uint8_t count
    uint8_t suspend


cdef struct PopHeap:
    uint32_t *at
    uint32_t used, room


cdef class PopLane:
    """One lane. `ring[first:until]` are its check points by start and pop time."""

    cdef readonly int64_t number
    cdef readonly str group, topic
    cdef readonly int queue_id
    cdef uint32_t place               # among the lanes of its table
    cdef uint32_t told                # the epoch that has its LANE entry; 0: none
    cdef int64_t next, messages
    cdef int64_t settled_base, settled_next   # as the broker was told by the feed last
    cdef uint64_t turn                # of the feed that has changed it last
    cdef uint32_t *ring
    cdef Py_ssize_t first, until, room

    def __dealloc__(self):
        free(self.ring)

    cdef inline Py_ssize_t points(self) noexcept:
        return self.until - self.first

    cdef int insert(self, Py_ssize_t at, uint32_t point) except -1:
        """At this place of the ring, by moving the shorter side."""
        cdef Py_ssize_t count = self.until - self.first, wanted
        cdef uint32_t *grown
        if self.first > 0 and (at - self.first < count // 2 or self.until == self.room):
            memmove(self.ring + self.first - 1, self.ring + self.first, <size_t>(at - self.first) * 4)
            self.first -= 1
            self.ring[at - 1] = point
            return 0
        if self.until == self.room:
            wanted = 2 * self.room if self.room else 16
            grown = <uint32_t *>realloc(self.ring, <size_t>wanted * 4)
            if grown == NULL:
                raise MemoryError("no memory for check points")
            self.ring, self.room = grown, wanted
        memmove(self.ring + at + 1, self.ring + at, <size_t>(self.until - at) * 4)
        self.until += 1
        self.ring[at] = point
        return 0

    cdef void remove(self, Py_ssize_t at) noexcept:
        if at - self.first < self.until - 1 - at:
            memmove(self.ring + self.first + 1, self.ring + self.first, <size_t>(at - self.first) * 4)
            self.first += 1
        else:
            memmove(self.ring + at, self.ring + at + 1, <size_t>(self.until - 1 - at) * 4)
            self.until -= 1
        if self.first == self.until:
            self.first = self.until = 0
            if self.room > 4096:
                free(self.ring)
                self.ring, self.room = NULL, 0


cdef inline int64_t due_of(const PopPoint *point) noexcept nogil:
    """When its invisible time is over, within 64 bits."""
    if point.invisible > 0 and point.pop_time > INT64_MAX - point.invisible:
        return INT64_MAX
    if point.invisible < 0 and point.pop_time < INT64_MIN - point.invisible:
        return INT64_MIN
    return point.pop_time + point.invisible


cdef inline bint is_less(const PopPoint *point, int64_t start, int64_t pop_time) noexcept nogil:
    """Whether it comes before that start and pop time in its lane."""
    return point.start < start or (point.start == start and point.pop_time < pop_time)


cdef inline int64_t offset_of(const PopPoint *point, int number) noexcept nogil:
    return point.start + (number if point.gaps == NULL else <int64_t>point.gaps[number])


cdef inline int bit_of(const PopPoint *point, int64_t offset) noexcept nogil:
    """Which of its messages that is; -1: none."""
    cdef int low = 0, high = point.count, middle
    if point.gaps == NULL:
        return <int>(offset - point.start) if 0 <= offset - point.start < point.count else -1
    while low < high:
        middle = (low + high) // 2
        if offset_of(point, middle) < offset:
            low = middle + 1
        else:
            high = middle
    return low if low < point.count and offset_of(point, low) == offset else -1


cdef inline int64_t bytes_of_point(const PopPoint *point) noexcept nogil:
    return POINT_BYTES + (0 if point.gaps == NULL else POP_GAP_BYTES * point.count)


cdef class PopPoints:
    """All that is open. The table below adds limit and journal."""

    cdef PopPoint *arena
    cdef uint32_t room, top, free_point, count      # places, used ones, the first free one, open ones
    cdef PopHeap heap[2]
    cdef bint asleep                                # the heaps are empty: a replay goes on, and nobody asks for them
    cdef int64_t used
    cdef list places                                # lanes by place
    cdef dict by_number, numbers                        # by number; numbers by names
    cdef int64_t next_number
    cdef int64_t *epochs                            # begin and open check points of each
    cdef Py_ssize_t epoch_count, epoch_room
    cdef uint32_t first_epoch                       # number of the first of them

    def __cinit__(self):
        self.free_point = NO_POINT
        self.places, self.by_number, self.numbers = [], {}, {}
        self.first_epoch = 1
        self.add_epoch(0)

    def __dealloc__(self):
        cdef uint32_t at
        for at in range(self.top):
            if self.arena[at].open:
                free(self.arena[at].gaps)
        free(self.arena)
        free(self.heap[0].at)
        free(self.heap[1].at)
        free(self.epochs)

    # --- epochs ---------------------------------------------------------------------------------------------------

    cdef int add_epoch(self, int64_t begin) except -1:
        cdef int64_t *grown
        if self.epoch_count == self.epoch_room:
            grown = <int64_t *>realloc(self.epochs, <size_t>(self.epoch_room + 64) * 16)
            if grown == NULL:
                raise MemoryError("no memory for check points")
            self.epochs = grown
            self.epoch_room += 64
        self.epochs[2 * self.epoch_count], self.epochs[2 * self.epoch_count + 1] = begin, 0
        self.epoch_count += 1
        return 0

    cdef void drop_epoch(self) noexcept:
        self.epoch_count -= 1
        memmove(self.epochs, self.epochs + 2, <size_t>self.epoch_count * 16)
        self.first_epoch += 1

    cdef inline uint32_t epoch(self) noexcept:
        return self.first_epoch + <uint32_t>self.epoch_count - 1

    # --- lanes ----------------------------------------------------------------------------------------------------

    cdef PopLane lane_of(self, number):
        cdef PopLane lane = self.by_number.get(number)
        if lane is None:
            raise ValueError(f"there is no lane {number}")
        return lane

    cdef PopLane add_lane(self, int64_t number, str group, str topic, int queue_id):
        cdef PopLane lane = PopLane.__new__(PopLane)
        lane.number, lane.group, lane.topic, lane.queue_id, lane.next = number, group, topic, queue_id, -1
        lane.settled_base = lane.settled_next = -2
        lane.place = <uint32_t>len(self.places)
        self.places.append(lane)
        self.by_number[number] = lane
        self.numbers[group, topic, queue_id] = number
        self.next_number = max(self.next_number, number + 1)
        return lane

    cdef inline PopLane lane_at(self, uint32_t place):
        return <PopLane>self.places[place]

    cdef Py_ssize_t position(self, PopLane lane, int64_t start, int64_t pop_time) noexcept:
        """The first place of its ring with this start and pop time or greater ones. Both ends are looked at first:
        most check points come there, and leave there."""
        cdef Py_ssize_t low = lane.first, high = lane.until, middle
        if low == high or is_less(self.arena + lane.ring[high - 1], start, pop_time):
            return high
        if not is_less(self.arena + lane.ring[low], start, pop_time):
            return low
        while low < high:
            middle = (low + high) // 2
            if is_less(self.arena + lane.ring[middle], start, pop_time):
                low = middle + 1
            else:
                high = middle
        return low

    cdef uint32_t find(self, PopLane lane, int64_t start, int64_t pop_time) noexcept:
        cdef Py_ssize_t at = self.position(lane, start, pop_time)
        cdef uint32_t found
        if at < lane.until:
            found = lane.ring[at]
            if self.arena[found].start == start and self.arena[found].pop_time == pop_time:
                return found
        return NO_POINT

    cdef int64_t base_of_lane(self, PopLane lane) noexcept:
        cdef int64_t lowest = lane.next, offset
        cdef Py_ssize_t at
        cdef const PopPoint *point
        for at in range(lane.first, lane.until):
            point = self.arena + lane.ring[at]
            if at > lane.first and point.start >= lowest:
                break
            offset = offset_of(point, lowest_bit(point.open))
            lowest = offset if at == lane.first else min(lowest, offset)
        return lowest

    # --- heaps ----------------------------------------------------------------------------------------------------

    cdef bint is_before(self, int which, uint32_t one, uint32_t other) noexcept:
        cdef const PopPoint *a = self.arena + one
        cdef const PopPoint *b = self.arena + other
        cdef int64_t x = a.pop_time if which == BY_AGE else due_of(a), y = b.pop_time if which == BY_AGE else due_of(b)
        if x != y:
            return x < y
        if a.lane != b.lane:
            return self.lane_at(a.lane).number < self.lane_at(b.lane).number
        return a.start < b.start if a.start != b.start else a.pop_time < b.pop_time

    cdef void put_at(self, int which, uint32_t place, uint32_t point) noexcept:
        self.heap[which].at[place] = point
        self.arena[point].place[which] = place

    cdef void rise(self, int which, uint32_t place, uint32_t point) noexcept:
        cdef uint32_t above
        while place:
            above = (place - 1) // 2
            if not self.is_before(which, point, self.heap[which].at[above]):
                break
            self.put_at(which, place, self.heap[which].at[above])
            place = above
        self.put_at(which, place, point)

    cdef void sink(self, int which, uint32_t place, uint32_t point) noexcept:
        cdef PopHeap *heap = &self.heap[which]
        cdef uint32_t below = 2 * place + 1
        while below < heap.used:
            if below + 1 < heap.used and self.is_before(which, heap.at[below + 1], heap.at[below]):
                below += 1
            if not self.is_before(which, heap.at[below], point):
                break
            self.put_at(which, place, heap.at[below])
            place, below = below, 2 * below + 1
        self.put_at(which, place, point)

    cdef void push(self, int which, uint32_t point) noexcept:
        """There is room: `make_room` made it."""
        if self.asleep:
            return
        self.heap[which].used += 1
        self.rise(which, self.heap[which].used - 1, point)

    cdef void pull_out(self, int which, uint32_t point) noexcept:
        cdef PopHeap *heap = &self.heap[which]
        cdef uint32_t place = self.arena[point].place[which], last
        if self.asleep:
            return
        heap.used -= 1
        if place == heap.used:
            return
        last = heap.at[heap.used]
        if place and self.is_before(which, last, heap.at[(place - 1) // 2]):
            self.rise(which, place, last)
        else:
            self.sink(which, place, last)

    cdef void sleep(self) noexcept:
        """Let the heaps be until they are asked: most of what a journal tells is settled again before its end."""
        self.asleep = True
        self.heap[BY_DUE].used = self.heap[BY_AGE].used = 0

    cdef void wake(self) noexcept:
        cdef uint32_t at
        self.asleep = False
        for at in range(self.top):
            if self.arena[at].open:
                self.push(BY_DUE, at)
                self.push(BY_AGE, at)

    # --- check points ---------------------------------------------------------------------------------------------

    cdef int make_room(self) except -1:
        """For one more check point, in arena and heaps."""
        cdef uint32_t wanted
        cdef int which
        cdef void *grown
        if self.free_point != NO_POINT or self.top < self.room:
            return 0
        if self.room >= 0x7FFFFFFF:
            raise MemoryError("too many check points")
        wanted = 2 * self.room if self.room else 256
        for which in range(2):
            grown = realloc(self.heap[which].at, <size_t>wanted * 4)
            if grown == NULL:
                raise MemoryError("no memory for check points")
            self.heap[which].at = <uint32_t *>grown
        grown = realloc(self.arena, <size_t>wanted * sizeof(PopPoint))
        if grown == NULL:
            raise MemoryError("no memory for check points")
        self.arena, self.room = <PopPoint *>grown, wanted
        return 0

    cdef int add(
        self, PopLane lane, int64_t start, const int64_t *offsets, int count, int64_t pop_time, int64_t invisible,
        int revive, bint suspend,
    ) except -1:
        """A new check point; the caller has made sure that there is no equal one, and that the offsets ascend."""
        cdef PopPoint *point
        cdef uint32_t *gaps = NULL
        cdef uint32_t place
        cdef int i
        self.make_room()
        if offsets[0] != start or offsets[count - 1] - start != count - 1:
            gaps = <uint32_t *>realloc(NULL, <size_t>count * 4)
            if gaps == NULL:
                raise MemoryError("no memory for check points")
            for i in range(count):
                gaps[i] = <uint32_t>(offsets[i] - start)
        try:
            place = self.free_point if self.free_point != NO_POINT else self.top
            lane.insert(self.position(lane, start, pop_time), place)
        except MemoryError:
            free(gaps)
            raise
        point = self.arena + place
        if place == self.top:
            self.top += 1
        else:
            self.free_point = <uint32_t>point.start
        point.start, point.pop_time, point.invisible, point.gaps = start, pop_time, invisible, gaps
        point.open = ~<uint64_t>0 >> (64 - count)
        point.lane, point.epoch, point.revive = lane.place, self.epoch(), <uint16_t>revive
        point.count, point.suspend = <uint8_t>count, suspend
        lane.messages += count
        self.epochs[2 * self.epoch_count - 1] += 1
        self.count += 1
        self.used += bytes_of_point(point)
        self.push(BY_DUE, place)
        self.push(BY_AGE, place)
        return 0

    cdef int settle(self, PopLane lane, uint32_t place, uint64_t bits) except -1:
        """Close these open messages of it, and let it go with the last."""
        cdef PopPoint *point = self.arena + place
        lane.messages -= bit_count(bits)
        if point.open != bits:
            point.open &= ~bits
            return 0
        lane.remove(self.position(lane, point.start, point.pop_time))
        self.pull_out(BY_DUE, place)
        self.pull_out(BY_AGE, place)
        self.epochs[2 * (point.epoch - self.first_epoch) + 1] -= 1
        self.count -= 1
        self.used -= bytes_of_point(point)
        free(point.gaps)
        point.gaps, point.open = NULL, 0
        point.start = self.free_point
        self.free_point = place
        return 0

    cdef int drop(self, PopLane lane) except -1:
        while lane.points():
            self.settle(lane, lane.ring[lane.until - 1], self.arena[lane.ring[lane.until - 1]].open)
        lane.next = -1
        lane.settled_base = lane.settled_next = -2
        return 0

    cdef as_given(self, uint32_t place):
        cdef const PopPoint *p = self.arena + place
        cdef int i
        cdef list offsets = []
        for i in range(p.count):
            offsets.append(offset_of(p, i))
        cdef PopLane lane = self.lane_at(p.lane)
        cdef tuple given = (lane.number, p.start, p.pop_time, p.invisible, p.revive, tuple(offsets), p.open, p.suspend != 0)
        return make_tuple(CheckPoint, given)

    cdef list points_of(self, PopLane lane, Py_ssize_t most):
        cdef Py_ssize_t at
        cdef list found = []
        for at in range(lane.first, min(lane.until, lane.first + most)):
            found.append(self.as_given(lane.ring[at]))
        return found
