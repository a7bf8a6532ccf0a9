"""What the copies of a message that lie in the log say about its life. Pure: no store, no clock.

A message is stored anew at each step: half, waiting for its time, in its topic, waiting for a retry, on the retry
topic of a group, among its dead letters. The copies share the unique key. `message_life.py` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import UNSET

from ...model import names
from ...model.ids import offset_message_id
from ...model.message import NO_ATTEMPT_LEFT, Property
from ...model.pop_names import first_topic, retrying_group
from ...protocol.bodies.own import LifeState, LifeStep
from ...protocol.record import Record


class Step(Enum):
    HALF = "half"
    TIMED = "timed"  # waits for a level or a timer
    STORED = "stored"  # in its topic
    RETRY_TIMED = "waits for a retry"
    RETRY = "on the retry topic"
    DEAD = "dead"
    GIVEN_UP = "given up"  # a half message that was asked about too often
    RECALLED = "recalled"


@dataclass(frozen=True, slots=True)
class Copy:
    """One stored copy. `group`: whose retry or dead letter it is. `due_ms`: of what waits."""

    step: Step
    record: Record
    pairs: Mapping[str, str]
    group: str = ""
    due_ms: int = 0

    @property
    def position(self) -> int:
        return self.record.physical_offset

    def shown(self) -> LifeStep:
        record = self.record
        return LifeStep(
            at_ms=record.store_timestamp,
            what=self.step.value,
            topic=record.topic,
            queue=record.queue_id,
            offset=record.queue_offset,
            offset_id=offset_message_id(record.store_host, record.physical_offset),
            group=self.group or UNSET,
            retry=record.reconsume_times if self.group else UNSET,
            until_ms=self.due_ms or UNSET,
        )


def classify(topic: str, record: Record, pairs: Mapping[str, str], due_ms: int) -> Copy | None:
    """Return what a record with the message's unique key is to the message; None: it belongs to another topic."""
    named = pairs.get(Property.RETRY_TOPIC)
    held = record.topic
    if held == topic:
        return Copy(Step.STORED, record, pairs)
    if named is None and (group := retrying_group(held, topic)):
        return Copy(Step.RETRY, record, pairs, group)
    for prefix, step in ((names.RETRY_PREFIX, Step.RETRY), (names.DLQ_PREFIX, Step.DEAD)):
        if held.startswith(prefix):
            is_its = first_topic(held, named) == topic
            return Copy(step, record, pairs, held.removeprefix(prefix)) if is_its else None
    real = pairs.get(Property.REAL_TOPIC)
    if held in (names.SCHEDULE_TOPIC, names.TIMER_TOPIC):
        if real == topic:
            recalls = Property.TIMER_DEL_UNIQKEY in pairs
            return Copy(Step.RECALLED, record, pairs) if recalls else Copy(Step.TIMED, record, pairs, due_ms=due_ms)
        if real is not None and names.is_retry(real) and first_topic(real, named) == topic:
            return Copy(Step.RETRY_TIMED, record, pairs, real.removeprefix(names.RETRY_PREFIX), due_ms)
        return None
    by_topic = {names.HALF_TOPIC: Step.HALF, names.CHECKS_EXHAUSTED_TOPIC: Step.GIVEN_UP}
    return Copy(by_topic[held], record, pairs) if held in by_topic and real == topic else None


# Of a half message: undecided, rolled back or given up; and its checks, which are forgotten once it is decided.
Decided = Callable[[Copy], tuple[str, int | None]]


def state_of(copies: Sequence[Copy], decided: Decided, now_ms: int) -> LifeState:
    """Return the state of the message itself, before any group. `copies` in the order of the log."""
    own = [copy for copy in copies if not copy.group]
    newest = own[-1]
    if any(copy.step is Step.STORED for copy in own):
        return LifeState(state="ready")
    recalled = [copy for copy in own if copy.step is Step.RECALLED]  # a copy that was carried may lie behind it
    if recalled:
        return LifeState(state="recalled", at_ms=recalled[0].record.store_timestamp)
    if newest.step is Step.TIMED:
        return LifeState(state="timed", until_ms=newest.due_ms, overdue=newest.due_ms < now_ms)
    if newest.step is Step.GIVEN_UP:
        return LifeState(state="given up", at_ms=newest.record.store_timestamp)
    word, checks = decided(newest)
    return LifeState(state=word, checks=UNSET if checks is None else checks)


def deliveries_of(dead: Record, reason: str | None) -> int:
    """Return how often a dead letter was delivered. The gRPC endpoint's last pop, which only ended it, was none."""
    return dead.reconsume_times - (reason == NO_ATTEMPT_LEFT)


def of_group(group: str, copies: Iterable[Copy], progress: Callable[[str, Record], str]) -> LifeState:
    """Return where the message stands with one group; `progress` says how far that is with a record."""
    mine = [copy for copy in copies if copy.group in ("", group)]
    newest = mine[-1]
    retry = newest.record.reconsume_times
    if newest.step is Step.DEAD:
        reason = newest.pairs.get(Property.OWN_REASON, UNSET)
        attempts = deliveries_of(newest.record, newest.pairs.get(Property.OWN_REASON))
        return LifeState(state="dead", at_ms=newest.record.store_timestamp, retry=attempts, reason=reason)
    if newest.step is Step.RETRY_TIMED:
        return LifeState(state="in retry", until_ms=newest.due_ms, retry=retry)
    if newest.step is Step.RETRY:
        return LifeState(state=progress(group, newest.record), retry=retry)
    stored = [copy for copy in mine if copy.step is Step.STORED]
    return LifeState(state=progress(group, stored[-1].record) if stored else "not there yet")
