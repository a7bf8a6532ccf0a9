# A master's log to the end of ours: plain records are walked and checked once, and go to the `Appender` in one run. Its
# twin is kernel/python/follow_feed.py. What is odd ends the run, and is none of ours: store/log/following.py looks at it.

cdef class FollowFeed:
    """Bound to one store. Event loop only."""

    cdef Appender appender
    cdef bint index_tags
    cdef object queue                     # the store's queue of a topic and id; None if there is none yet
    cdef dict topics                      # by name
    cdef LaneTopic last_topic
    cdef list lanes
    cdef Buffer entries, packed, keys, runs
    cdef uint64_t turn
    cdef readonly int64_t messages        # taken since the start

    def __init__(self, Appender appender, bint index_tags, queue):
        self.appender, self.index_tags, self.queue = appender, index_tags, queue
        self.topics, self.lanes = {}, []

    def __dealloc__(self):
        free(self.entries.at)
        free(self.packed.at)
        free(self.keys.at)
        free(self.runs.at)

    def take(self, const uint8_t[::1] data, sealed):
        cdef Addition new
        cdef Py_ssize_t count
        cdef int wanted = -1 if sealed is None else sealed is True
        if self.appender.stopped is not None or data.shape[0] < FIXED_BYTES:
            return 0
        self.lanes.clear()
        self.entries.used = self.keys.used = self.runs.used = 0
        self.turn += 1
        new.start, new.store_time = self.appender.log.end, self.appender.log.last_time
        new.records, new.n = &data[0], 0
        count = self.walk(&data[0], data.shape[0], wanted, &new)
        if not count:
            return 0
        pack_entries(self.lanes, &self.entries, &self.packed)
        new.keys, new.key_count = self.keys.at, <Py_ssize_t>(self.keys.used // KEY_BYTES)
        new.runs, new.run_count = <KeyRun *>self.runs.at, <Py_ssize_t>(self.runs.used // sizeof(KeyRun))
        self.appender.put(&new, self.lanes)
        self.messages += count
        return new.n

    cdef Py_ssize_t walk(self, const uint8_t *p, Py_ssize_t n, int wanted, Addition *new) except -1:
        """How many records are plain and whole; `new` gets their bytes, the last of them and its time."""
        cdef Place place
        cdef Found found
        cdef bint sealed
        cdef Py_ssize_t count = 0
        cdef int64_t position = new.start, store_time
        while place_of(p + new.n, n - new.n, &place) and is_plain_place(&place, position):
            if position + place.size + BLANK_BYTES > self.appender.log.limit:
                break
            if not is_whole(&place, position, &sealed) or (wanted >= 0 and wanted != sealed):
                break
            if not walk_properties(place.properties.at, place.properties.n, &no_names, False, &found):
                break
            store_time = max(new.store_time, <int64_t>get64(place.store_time))
            if not self.add(&place, &found, position, store_time):
                break
            new.store_time, new.last_position = store_time, position
            new.n += place.size
            position += place.size
            count += 1
        return count

    cdef bint add(self, const Place *place, const Found *found, int64_t position, int64_t store_time) except -1:
        """The record's queue entry and keys. False: its topic or queue is none of ours, or its offset is not the next."""
        cdef LaneTopic topic = self.last_topic
        cdef Lane lane
        if topic is None or not is_named(topic, place.topic):
            topic = self.topic_of(place.topic)
            if topic is None:
                return False
            self.last_topic = topic
        if not place.sys_flag & 4:        # prepared and rolled back ones have no queue entry
            lane = self.lane(topic, <int32_t>get32(place.at + 12))
            if lane is None or <int64_t>get64(place.at + 20) != lane.next:
                return False
            note_entry(&self.entries, lane, position, place.size, tag_hash(found))
        if self.appender.index is not None and position > self.appender.index.covered and place.sys_flag & 0x0C != 0x0C:
            add_keys(&self.keys, topic.prefix, found, self.index_tags, position)
            self.note_run(store_time)
        return True

    cdef LaneTopic topic_of(self, Text name):
        """None: it is not ASCII."""
        cdef bytes raw = bytes_of(name)
        cdef LaneTopic topic = self.topics.get(raw)
        if topic is None and raw.isascii():
            topic = LaneTopic(raw.decode("ascii"))
            if len(self.topics) >= MOST_GRANTS:
                self.topics.clear()
            self.topics[raw] = topic
        return topic

    cdef Lane lane(self, LaneTopic topic, int32_t queue_id):
        """None: the store has no such queue yet, or one of another kind."""
        cdef Lane lane = topic.lanes.get(queue_id)
        if lane is not None and lane.turn == self.turn:
            return lane
        if lane is None or lane.tail.is_removed:
            tail = self.queue(topic.topic, queue_id)
            if tail is None:
                return None
            lane = Lane.__new__(Lane)
            lane.tail = tail
            topic.lanes[queue_id] = lane
        if lane.tail.entry_bytes != ENTRY_BYTES or lane.tail.offsets_ahead:
            return None
        join_lane(self.lanes, lane, self.turn)
        return lane

    cdef int note_run(self, int64_t store_time) except -1:
        """The keys so far end with those of a record of this time."""
        cdef KeyRun *run = NULL
        if self.runs.used:
            run = <KeyRun *>(self.runs.at + self.runs.used) - 1
        if run == NULL or run.store_time != store_time:
            reserve(&self.runs, sizeof(KeyRun))
            run = <KeyRun *>(self.runs.at + self.runs.used)
            run.store_time = store_time
            self.runs.used += sizeof(KeyRun)
        run.until = <Py_ssize_t>(self.keys.used // KEY_BYTES)
        return 0
