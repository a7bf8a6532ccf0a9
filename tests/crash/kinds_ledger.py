"""What was sent, what may come of it, and what came: the memory and the judge of the checker of message kinds. Pure.

Times are milliseconds of the machine's wall clock, which the broker reads too. The rules:

- none lost: every send that was acked ends as it should, delivered, retried to the end, or dead
- none early: nothing before its delay, its timer, or the wait before its retry
- none outside its order: a lane's next message only after the one before was handled
- none that was rolled back, none that was never sent
- none twice, except where at-least-once allows it: around a kill, or where a send had no answer and was repeated
- none stored twice in its topic, kill or not, unless it was sent twice: a delay, timer or commit is carried out once
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

BEFORE_KILL_MS = 8_000  # what was consumed so long before a kill may not be committed on disk
AFTER_KILL_MS = 15_000  # until consumers have their queues again


class End(Enum):
    DELIVERED = "delivered"
    DEAD = "dead"
    NEVER = "never"


@dataclass(slots=True)
class Sent:
    """One message. `fails`: how many of its deliveries fail before one succeeds."""

    key: str
    kind: str
    begun_ms: int
    end: End = End.DELIVERED
    delay_ms: int = 0
    due_ms: int = 0  # an absolute time, of a timer
    fails: int = 0
    lane: str = ""
    number: int = 0
    tries: int = 1
    acked: bool = False

    @property
    def not_before_ms(self) -> int:
        return max(self.begun_ms + self.delay_ms, self.due_ms)


@dataclass(frozen=True, slots=True)
class Delivery:
    times: int  # retries before it
    at_ms: int
    succeeded: bool
    place: int  # in the order of all deliveries


@dataclass(slots=True)
class Outage:
    killed_ms: int
    back_ms: int


@dataclass(slots=True)
class Ledger:
    retry_waits_ms: dict[int, int]  # before the n-th retry
    sent: dict[str, Sent] = field(default_factory=dict)
    deliveries: dict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    dead: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # when each copy was stored
    stored: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # copies in its own topic
    outages: list[Outage] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    handled: int = 0

    def send(self, one: Sent) -> Sent:
        self.sent[one.key] = one
        return one

    def delivered(self, key: str, times: int, at_ms: int) -> bool:
        """Whether the handler is to succeed."""
        one = self.sent.get(key)
        if one is None:
            self.strangers.append(key)
            return True
        succeeds = one.end is not End.DEAD and times >= one.fails
        self.handled += 1
        self.deliveries[key].append(Delivery(times, at_ms, succeeds, self.handled))
        return succeeds

    # --- open -----------------------------------------------------------------------------------------------------

    def open(self) -> list[Sent]:
        """Acked, and not yet what it should be."""
        return [one for one in self.sent.values() if one.acked and not self._is_done(one)]

    def _is_done(self, one: Sent) -> bool:
        if one.end is End.NEVER:
            return True
        if one.end is End.DEAD:
            return bool(self.dead.get(one.key))
        return any(delivery.succeeded for delivery in self.deliveries.get(one.key, ()))

    # --- judgement ------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        found = [f"LOST: {one.kind} {one.key} was acked and did not end ({one.end.value})" for one in self.open()]
        found += [f"STRANGE: {key} was never sent" for key in self.strangers]
        for one in self.sent.values():
            found += self._never(one)
            found += self._early(one)
            found += self._twice(one)
            if self.stored.get(one.key, 0) > one.tries:
                found.append(f"STORED: {one.kind} {one.key} is {self.stored[one.key]} times in its topic")
        return found + self._order()

    def _never(self, one: Sent) -> Iterable[str]:
        if one.end is End.NEVER and self.deliveries.get(one.key):
            yield f"UNWANTED: {one.kind} {one.key} was rolled back and delivered"

    def _early(self, one: Sent) -> Iterable[str]:
        deliveries = self.deliveries.get(one.key, [])
        for each in deliveries:
            due = self._due_ms(one, each.times, deliveries)
            if due is not None and each.at_ms < due:
                yield f"EARLY: {one.kind} {one.key}, retry {each.times}, came {due - each.at_ms} ms before its time"

    def _due_ms(self, one: Sent, times: int, deliveries: Iterable[Delivery]) -> int | None:
        if times == 0:
            return one.not_before_ms
        if one.lane:
            return None  # an ordered message waits in its place, by the client's clock
        before = [each.at_ms for each in deliveries if each.times == times - 1 and not each.succeeded]
        return min(before) + self.retry_waits_ms[times] if before else None

    def _twice(self, one: Sent) -> Iterable[str]:
        by_times: dict[int, list[int]] = defaultdict(list)
        for each in self.deliveries.get(one.key, ()):
            by_times[each.times].append(each.at_ms)
        if one.end is End.DEAD:
            by_times[-1] = sorted(self.dead.get(one.key, ()))
        for times, moments in by_times.items():
            spare = one.tries - 1
            for first, again in pairwise(moments):
                causes = self.deliveries.get(one.key, ())
                cause = [each.at_ms for each in causes if times == -1 or each.times == times - 1]
                if self._near_a_kill([first, again, *cause], one):
                    continue
                if spare > 0:
                    spare -= 1
                    continue
                yield f"TWICE: {one.kind} {one.key}, retry {times}, came again after {again - first} ms without a kill"

    def _near_a_kill(self, moments: list[int], one: Sent) -> bool:
        moments = [*moments, one.begun_ms] if one.tries > 1 else moments
        return any(
            outage.killed_ms - BEFORE_KILL_MS <= moment <= outage.back_ms + AFTER_KILL_MS
            for outage in self.outages
            for moment in moments
        )

    def _order(self) -> list[str]:
        """A lane's messages one after another: none begins before all that were acked before it have succeeded."""
        lanes: dict[str, list[Sent]] = defaultdict(list)
        for one in self.sent.values():
            if one.lane:
                lanes[one.lane].append(one)
        found = []
        for lane, members in lanes.items():
            done_at = 0
            for one in sorted(members, key=lambda one: one.number):
                deliveries = self.deliveries.get(one.key, [])
                if deliveries and deliveries[0].place < done_at:
                    found.append(f"ORDER: number {one.number} of lane {lane} began before the one before it was done")
                succeeded = [each.place for each in deliveries if each.succeeded]
                if succeeded:
                    done_at = max(done_at, succeeded[0])
        return found

    # --- figures --------------------------------------------------------------------------------------------------

    def lateness_ms(self) -> list[int]:
        """How late each timed delivery was; a time at which the broker was away moves to its return."""
        late: list[int] = []
        for one in self.sent.values():
            deliveries = self.deliveries.get(one.key, [])
            timed = [each for each in deliveries if each.times or one.delay_ms or one.due_ms]
            due = {each.times: self._due_ms(one, each.times, deliveries) for each in timed}
            first = {each.times: each.at_ms for each in reversed(timed)}
            late += [first[times] - self._served_ms(at) for times, at in due.items() if at is not None]
        return sorted(max(0, each) for each in late)

    def _served_ms(self, due_ms: int) -> int:
        for outage in self.outages:
            if outage.killed_ms <= due_ms < outage.back_ms:
                due_ms = outage.back_ms
        return due_ms

    def figures(self) -> dict[str, object]:
        kinds: dict[str, int] = defaultdict(int)
        for one in self.sent.values():
            kinds[one.kind] += one.acked
        late = self.lateness_ms()
        return {
            "acked": dict(sorted(kinds.items())),
            "unanswered": sum(not one.acked for one in self.sent.values()),
            "stored": sum(self.stored.values()),
            "deliveries": self.handled,
            "dead": sum(map(len, self.dead.values())),
            "kills": len(self.outages),
            "repeats": sum(len(each) - len({delivery.times for delivery in each}) for each in self.deliveries.values()),
            "lateMs": {share: late[(len(late) - 1) * share // 100] for share in (50, 99, 100)} if late else {},
        }
