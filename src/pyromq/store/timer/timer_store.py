"""What waits for a time, by time: Java's wheel and log on disk, and how far both are. Derived from the timer topic.

`broker/timing` feeds it from the queue of `rmq_sys_wheel_timer` and takes due slots out of it. Blocking; one call at a
time, from whatever thread. Memory is one byte for each slot of the wheel, however many messages wait.

Written in this order, so that a power cut between any two steps leaves something that `open` completes: units, sync,
state (with the queue's offset and the wheel's checksum), slots. Slots behind the state are written again from the
units, and then the checksum must be that of the state. Where the files do not fit together they are made anew from the
records of the topic, which are the truth.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ... import logs
from ...model.names import TIMER_TOPIC
from ...protocol.record import Record
from ..files.disk import Disk
from .timer_log import ALWAYS, BLANK, DELETE, NONE, ROLL, UNIT_BYTES, ChainBroken, TimerLog, Unit
from .timer_state import TimerCheck, TimerState, read_check, read_state, write_check, write_state
from .timer_wheel import NAME as WHEEL_FILE
from .timer_wheel import SLOTS, Slot, TimerWheel, WheelUnfit

log = logs.get("pyromq.store")

SET_BACK_MS = 60_000  # a clock that goes back by less makes timed messages late by that, and no more is done about it
_SPARE_SLOTS = 60  # as Java keeps them free between the longest delay and a whole turn
QueueOffsetAt = Callable[[int], int | None]  # place of a record in the commit log -> its offset in the timer topic


@dataclass(frozen=True, slots=True)
class TimerSettings:
    precision_ms: int = 1000
    roll_slots: int = 172_800  # what is further away comes by again halfway, so that its record stays young
    log_file_bytes: int = 100 << 20
    wheel_slots: int = SLOTS

    @property
    def window(self) -> int:
        """Return the number of slots within Java's bounds."""
        most = self.wheel_slots // 2 - _SPARE_SLOTS
        return self.roll_slots if 2 <= self.roll_slots <= most else most


class TimedRecord(NamedTuple):
    """A record of the timer topic. `due_ms` is its slot's time (TIMER_OUT_MS)."""

    queue_offset: int
    position: int
    size: int
    due_ms: int
    topic: str
    topic_hash: int
    recalls: bool


class Due(NamedTuple):
    """A slot whose time has passed: positions of its units, the oldest first."""

    slot_ms: int
    messages: array[int]
    recalls: array[int]


class TimerStore:
    """One timer's files, made by `open_timer_store`, ended by `close`. `read_ms`: the first slot not delivered yet."""

    def __init__(self, disk: Disk, settings: TimerSettings, now_ms: int, queue_offset_at: QueueOffsetAt) -> None:
        self._disk = disk
        self._precision = settings.precision_ms
        self._window = settings.window
        self._settings = settings
        self._log = TimerLog(disk, settings.log_file_bytes)
        self._wheel = TimerWheel(disk, settings.wheel_slots)
        self.read_ms = self._floor(now_ms)
        self.queue_offset = 0
        self.carried_to = 0
        self.waiting = 0  # messages, as the slots count them
        self._counter = 0
        self._written_ms = 0
        self._log_synced = 0
        self._wheel_end = 0  # slots of units below this are in the wheel's file, on the medium
        self._wheel_written = 0  # and of these in its page cache
        self.left_until_ms = 0  # what is due before this time may have left already, though it is read again
        self.known_before = 0  # offsets of the timer topic below this one are read a second time, after a rebuild
        self.dirty = False
        self._open(queue_offset_at)

    # -- opening ------------------------------------------------------------------------------------------------------

    def _open(self, queue_offset_at: QueueOffsetAt) -> None:
        state, check = read_state(self._disk), read_check(self._disk)
        if state is not None:
            self.carried_to = state.carried_to
        if check is not None and (state is None or _is_newer(check, state)):
            self._import(check, queue_offset_at)
        elif state is not None:
            self._take_over(state, check)
        elif self._disk.exists(WHEEL_FILE) or self._log.limit:
            self._rebuild("there is no state of it")

    def _take_over(self, state: TimerState, check: TimerCheck | None) -> None:
        self.read_ms, self.queue_offset = state.read_ms, state.queue_offset
        if check is not None and check.counter:  # else it was never written, or not in time
            # A backup of a running broker has our state from behind its end of the log, Java's from before it.
            self.read_ms = min(state.read_ms, check.read_ms)
        self._counter, self._written_ms = state.counter, state.written_ms
        self.known_before = state.known_before
        self.left_until_ms = state.left_until_ms
        try:
            if state.precision_ms != self._precision:
                raise WheelUnfit(f"timerPrecisionMs was {state.precision_ms} before and is {self._precision} now")
            if state.log_end > self._log.limit:
                raise WheelUnfit(f"the timer log ends at {self._log.limit}, it was written up to {state.log_end}")
            if self._log.limit:
                self._log.cut(state.log_end)
            if not state.log_end:
                return
            self.waiting = self._wheel.load(self._tick(self.read_ms), state.log_end)
            self._replay(state.wheel_end, state.log_end)
            self._compare(state)
        except WheelUnfit as unfit:
            self._rebuild(str(unfit))
            return
        self._log_synced = self._log.end
        self._wheel_end = self._wheel_written = state.wheel_end

    def _compare(self, state: TimerState) -> None:
        """Raise WheelUnfit if the checksum differs: damaged slots may look like empty or delivered ones."""
        checksum = self._wheel.checksum_from(self._tick(self.read_ms), self._tick(state.read_ms))
        if state.wheel_checksum is not None and checksum != state.wheel_checksum:
            raise WheelUnfit(f"{WHEEL_FILE} is damaged, or of another moment: its checksum is not that of its state")
        if state.waiting is not None and self.waiting != state.waiting:
            raise WheelUnfit(f"{WHEEL_FILE} is damaged: it counts {self.waiting} messages, {state.waiting} wait")

    def _import(self, check: TimerCheck, queue_offset_at: QueueOffsetAt) -> None:
        """Take over what Java left: a Java broker has run on this store since, or nobody else ever did."""
        self.read_ms, self._counter = check.read_ms or self.read_ms, check.counter
        self.queue_offset = min(check.queue_offset, check.master_queue_offset)
        if not self._log.limit:
            self.dirty = True
            return
        start = max(check.log_end - self._log.file_bytes, self._log.start)
        start -= start % self._log.file_bytes
        end, last = start, None
        for last in self._log.scan(start, self._log.limit):
            end = last.position + UNIT_BYTES
        try:
            if last is None and check.log_end:
                raise WheelUnfit("the timer log does not reach as far as timercheck says")
            self._log.cut(end)
            self.waiting = self._wheel.load(self._tick(self.read_ms), self._log.end)
            self._replay(start, self._log.end)
        except WheelUnfit as unfit:
            self._rebuild(str(unfit))
            return
        offset = None if last is None else queue_offset_at(last.record_position)
        if offset is not None:
            self.queue_offset = offset + 1  # a killed Java broker's checkpoint lags behind its log
        self.dirty = True

    def _replay(self, start: int, end: int) -> None:
        read_tick = self._tick(self.read_ms)
        reached = start
        for unit in self._log.scan(start, end):
            reached = unit.position + UNIT_BYTES
            tick = self._tick(unit.slot_ms)
            if tick < read_tick:
                continue
            before = self._wheel.get(tick)
            self._wheel.replay(tick, unit.position, bool(unit.flags & DELETE))
            after = self._wheel.get(tick)
            self.waiting += (after.messages if after else 0) - (before.messages if before else 0)
        if end - reached >= UNIT_BYTES + BLANK.size:
            raise WheelUnfit(f"the timer log has no unit at {reached}, it was written up to {end}")

    def _rebuild(self, why: str) -> None:
        """Begin again from the records of the timer topic: what is due before `read_ms` was delivered before."""
        log.warning("the timer's files are made anew from its topic", why=why)
        self.known_before = max(self.known_before, self.queue_offset)
        self.queue_offset = self.waiting = 0
        self._log_synced = self._wheel_end = self._wheel_written = 0
        self._write_state(self._written_ms)  # first: a crash in between rebuilds again
        self._log.drop_all()
        self._wheel.create()
        self.dirty = True

    def is_ahead_of(self, now_ms: int) -> bool:
        """Return whether slots that have yet to come count as delivered: the clock was ahead, and is set right."""
        return self.read_ms > now_ms + SET_BACK_MS

    def turn_back(self, now_ms: int) -> None:
        """Begin again at this time. The index tells what was delivered while the clock was ahead."""
        ahead_ms = self.read_ms - now_ms
        self.left_until_ms = max(self.left_until_ms, self.read_ms)
        self.read_ms = self._floor(now_ms)
        self._rebuild(f"the clock was set back: it was {ahead_ms} ms ahead when slots were read last")

    def begin_again(self, read_ms: int) -> None:
        """Begin again at this time, from all records of the topic: what was put for later slots may be gone."""
        self.left_until_ms = max(self.left_until_ms, self.read_ms)
        self.read_ms = self._floor(min(read_ms, self.read_ms))
        self.carried_to = 0
        self._rebuild(f"its slots count from {self.read_ms} on as the log of the set says")

    def fit_to(self, queue_end: int) -> None:
        """Rebuild the files if the topic, which ends here, went further before: the log was copied or cut."""
        if self.queue_offset > queue_end:
            self._rebuild(f"it was read up to {self.queue_offset}, and ends at {queue_end}")
            self.known_before = queue_end

    # -- time ---------------------------------------------------------------------------------------------------------

    def _floor(self, time_ms: int) -> int:
        return time_ms // self._precision * self._precision

    def _tick(self, time_ms: int) -> int:
        return time_ms // self._precision

    # -- putting ------------------------------------------------------------------------------------------------------

    def add(self, records: Sequence[TimedRecord], now_ms: int) -> int:
        """Let records wait, and return how many: fewer if the wheel would turn onto what was not delivered yet."""
        written = self._floor(now_ms)
        added = 0
        for one in records:
            slot_ms, flags = self._slot(one, written)
            tick = self._tick(slot_ms)
            if tick - self._tick(self.read_ms) >= self._settings.wheel_slots:
                break
            before = self._wheel.get(tick)
            slot = before or Slot(tick, NONE, NONE, 0)
            at = self._log.append(
                slot.last, flags, written, slot_ms - written, (one.position, one.size), one.topic_hash
            )
            change = -1 if one.recalls else 1
            self._wheel.put(Slot(tick, at if slot.first == NONE else slot.first, at, slot.messages + change), before)
            self.waiting += change
            self.queue_offset = one.queue_offset + 1
            added += 1
        self._log.write()
        self.dirty = self.dirty or added > 0
        return added

    def skip_to(self, queue_offset: int) -> None:
        """Go on at this offset: what lies before it is no message that waits."""
        self.queue_offset = queue_offset
        self.dirty = True

    def _slot(self, one: TimedRecord, written: int) -> tuple[int, int]:
        """Return its slot's time and its flags: never a slot that was delivered; far ahead, one on the way."""
        flags = ALWAYS | (DELETE if one.recalls else 0)
        window = self._window * self._precision
        ahead = one.due_ms - written
        if ahead < window:
            return self._floor(max(one.due_ms, self.read_ms)), flags
        # As Java: what is left for the last stretch must not be short.
        hop = self._window // 2 if ahead - window < self._window // 3 * self._precision else self._window
        return max(written + hop * self._precision, self.read_ms), flags | ROLL

    # -- taking -------------------------------------------------------------------------------------------------------

    def next_slot_ms(self) -> int | None:
        """Return the first slot that something waits in: due once the clock has passed it by a precision."""
        tick = self._wheel.next_tick(self._tick(self.read_ms))
        return None if tick is None else tick * self._precision

    def take(self, slot_ms: int) -> Due | None:
        """Return what waits in a slot. None: wheel and log do not fit together, and what waits must be added again."""
        self._log.write()  # only if the disk was full before
        slot = self._wheel.get(self._tick(slot_ms))
        try:
            if slot is None:
                raise ChainBroken(f"slot {slot_ms} of the wheel is empty")
            return Due(slot_ms, *self._log.chain(slot.last, slot.first, slot_ms))
        except ChainBroken as broken:
            self._rebuild(str(broken))
            return None

    def newer(self, slot_ms: int, above: int) -> list[Unit]:
        """Return what waits in a slot and came behind a place of the timer log, recalls too. Nothing is taken.

        Raises ChainBroken where wheel and log do not fit together: `take` mends that."""
        self._log.write()  # only if the disk was full before
        slot = self._wheel.get(self._tick(slot_ms))
        return [] if slot is None else self._log.newer(slot.last, above, slot_ms)

    def units(self, positions: Sequence[int]) -> list[Unit]:
        return self._log.units(positions)

    def done(self, slot_ms: int) -> None:
        """Clear a slot: everything in it was delivered."""
        slot = self._wheel.clear(self._tick(slot_ms))
        if slot is not None:
            self.waiting -= slot.messages
        self.read_ms = max(self.read_ms, slot_ms + self._precision)
        self.dirty = True

    def delivered_until(self, time_ms: int) -> None:
        """Clear all slots before a time: a master has delivered what waited in them."""
        while (slot_ms := self.next_slot_ms()) is not None and slot_ms < time_ms:
            self.done(slot_ms)
        self.read_ms = max(self.read_ms, self._floor(time_ms))

    def passed(self, now_ms: int) -> None:
        """Go on reading from now: nothing waits in any slot before. Not worth a write of its own."""
        self.read_ms = max(self.read_ms, self._floor(now_ms) - self._precision)

    def count_at(self, slot_ms: int) -> int:
        """Count the messages that wait in one slot. One small read, if any."""
        slot = self._wheel.get(self._tick(slot_ms))
        return 0 if slot is None else slot.messages

    def counts(self, limit: int) -> list[tuple[int, int]]:
        """Return the next slots, as times, with the number of messages in them."""
        return [(tick * self._precision, n) for tick, n in self._wheel.counts(self._tick(self.read_ms), limit)]

    # -- retention ----------------------------------------------------------------------------------------------------

    def pending_before(self, position: int, start: int, limit: int) -> list[Unit]:
        """Return units from one place of the timer log on that wait, and whose record lies below a place of the commit
        log and was not put again yet.

        Units are in the order of their records, so only the oldest are read."""
        found: list[Unit] = []
        for unit in self._log.scan(start, self._log.end):
            if unit.record_position >= position or len(found) == limit:
                break
            if unit.record_position >= self.carried_to and unit.slot_ms >= self.read_ms:
                found.append(unit)
        return found

    def copied(self, units: Sequence[Unit]) -> None:
        """Count these units no more: copies stand for them."""
        for unit in units:
            slot = self._wheel.get(self._tick(unit.slot_ms))
            if slot is not None:
                change = 1 if unit.flags & DELETE else -1
                self._wheel.put(slot._replace(messages=slot.messages + change), slot)
                self.waiting += change

    def carried(self, position: int, now_ms: int) -> None:
        """Note durably that everything below `position` was put again: else both would be delivered."""
        self.carried_to = max(self.carried_to, position)
        self.flush(now_ms)
        self._log.drop_before(self.carried_to)

    # -- flushing -----------------------------------------------------------------------------------------------------

    def flush(self, now_ms: int) -> None:
        """Return once everything that was added and taken is on the medium. The commit log must be there before."""
        self._log.write()
        if self._wheel_written > self._wheel_end:
            self._wheel.sync()
            self._wheel_end = self._wheel_written
        if self._log.end > self._log_synced:
            self._log.sync(self._log_synced)
            self._log_synced = self._log.end
        self._write_state(now_ms)
        self._wheel.write_out()  # behind the state: from here on its units can be read again
        self._wheel_written = self._log_synced
        write_check(self._disk, self.check(), durably=False)
        self.dirty = False

    def _write_state(self, now_ms: int, *, at_stop: bool = False) -> None:
        self._counter += 1
        # Never back, or Java's file, which is written behind ours, would look newer.
        self._written_ms = max(now_ms, self._written_ms)
        state = TimerState(
            precision_ms=self._precision,
            read_ms=self.read_ms,
            queue_offset=self.queue_offset,
            log_end=self._log_synced,
            wheel_end=self._wheel_end,
            carried_to=self.carried_to,
            known_before=self.known_before,
            left_until_ms=self.left_until_ms,
            written_ms=self._written_ms,
            counter=self._counter,
            wheel_checksum=self._wheel.checksum,
            waiting=self.waiting if at_stop else None,
        )
        write_state(self._disk, state)

    def check(self) -> TimerCheck:
        """Return the state as Java's broker would say it (request 60)."""
        offset = self.queue_offset
        return TimerCheck(self.read_ms, self._log.end, offset, offset, 0, self._written_ms, self._counter)

    def close(self, now_ms: int) -> None:
        """Flush and close. A store that never had a timer gets no files by it."""
        if self.dirty or self._counter:
            self.flush(now_ms)
            self._wheel.sync()
            self._wheel_end = self._wheel_written
            self._write_state(now_ms, at_stop=True)
            write_check(self._disk, self.check(), durably=True)
        self._wheel.close()
        self._log.close()


def _is_newer(check: TimerCheck, state: TimerState) -> bool:
    """Return whether a Java broker has written it since: it counts on from ours."""
    return check.counter > state.counter or check.written_ms > state.written_ms


def open_timer_store(
    disk: Disk, settings: TimerSettings, now_ms: int, record_at: Callable[[int], Record | None], queue_end: int
) -> TimerStore:
    """Open the timer's files. Blocking: before anybody is served."""

    def queue_offset_at(position: int) -> int | None:
        record = record_at(position)
        return record.queue_offset if record is not None and record.topic == TIMER_TOPIC else None

    timers = TimerStore(disk, settings, now_ms, queue_offset_at)
    timers.fit_to(queue_end)
    return timers
