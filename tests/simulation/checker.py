"""What must hold after every step of a simulated set, whoever is dead, paused or cut off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyromq.broker.election.set_state import SetState
from tests.simulation.disk import Record, ReplicaDisk


class Violation(AssertionError):
    """A promise of elected sets is broken."""


class AllowedLoss(Exception):
    """Every replica that had acknowledged a record lost it by a power cut before it was synced: nothing can hold it."""


class Checker:
    """Keeps `promised`: all records that were confirmed, acknowledged or shown, in their places."""

    def __init__(self, disks: Mapping[int, ReplicaDisk], recorded: Callable[[], SetState | None]) -> None:
        self._disks = disks
        self._recorded = recorded
        self.promised: list[Record] = []
        self.holders: list[tuple[frozenset[int], ...]] = []  # the sets one of which keeps each record, when promised
        self._lost_by: list[set[int]] = []  # who lost it by a power cut since
        self._lost: dict[int, dict[int, Record]] = {}  # what power cuts took of each replica, by place
        self._acking: dict[int, int] = {}
        self._readable: dict[int, int] = {}
        self._forgetful: set[int] = set()  # lost their power, and have not caught up since
        self.acks = self.reads = self.elections = 0

    def promise(self, replica: int, epoch: int, upto: int, possible: Sequence[frozenset[int]]) -> None:
        """A master of this epoch counts all below `upto` as confirmed; the store has one of these sets."""
        if self._acking.setdefault(epoch, replica) != replica:
            raise Violation(f"epoch {epoch} has two masters that acknowledge: {self._acking[epoch]} and {replica}")
        log = self._disks[replica].log
        if upto > len(log):
            raise Violation(f"master {replica} confirms {upto} and has {len(log)}")
        self._compare(replica, log, min(upto, len(self.promised)))
        state = self._recorded()
        smallest = min(possible, key=len)
        if upto > len(self.promised) and state is not None and len(smallest) < state.minimum:
            raise Violation(f"master {replica} confirms with {sorted(smallest)}, and the minimum is {state.minimum}")
        for place in range(len(self.promised), upto):
            self.promised.append(log[place])
            self.holders.append(tuple(possible))
            self._lost_by.append({each for each in self._lost if self._has_lost(each, place, log[place])})
        self.check()

    def _has_lost(self, replica: int, place: int, record: Record) -> bool:
        """Return whether a power cut took the record from a replica, whose report of it was still on its way then."""
        log = self._disks[replica].log
        return self._lost[replica].get(place) == record and log[place : place + 1] != [record]

    def ack(self, replica: int, epoch: int, position: int, record: Record, possible: Sequence[frozenset[int]]) -> None:
        self.acks += 1
        log = self._disks[replica].log
        if position < len(log) and log[position] == record:
            self.promise(replica, epoch, position + 1, possible)
        if position >= len(self.promised) or self.promised[position] != record:
            raise Violation(f"{record} was acknowledged at {position} by {replica}, where something else stands")

    def show(self, replica: int, readable: int) -> None:
        """A consumer has read all that this replica shows."""
        self.reads += 1
        if readable > len(self.promised):
            raise Violation(f"replica {replica} shows {readable} records, {len(self.promised)} are confirmed")
        self._compare(replica, self._disks[replica].log, readable)

    def move_readable(self, replica: int, readable: int) -> None:
        if readable < self._readable.get(replica, 0):
            raise Violation(f"readable of {replica} sank from {self._readable[replica]} to {readable}")
        self._readable[replica] = readable

    def restart(self, replica: int) -> None:
        self._readable.pop(replica, None)

    def cut(self, replica: int, position: int) -> None:
        if position < self._readable.get(replica, 0):
            raise Violation(f"{replica} cuts its log to {position}, below {self._readable[replica]} that it has shown")
        self.check()

    def lose_power(self, replica: int, before: list[Record], *, acks_synced: bool) -> None:
        end = len(self._disks[replica].log)
        self._lost.setdefault(replica, {}).update(enumerate(before[end:], end))
        for place in range(end, len(self.promised)):
            if before[place : place + 1] == [self.promised[place]]:
                self._lost_by[place].add(replica)
        if not acks_synced:
            self._forgetful.add(replica)
        self.check()

    def catch_up(self, replica: int) -> None:
        self._forgetful.discard(replica)
        self.check()

    def lead(self, replica: int, epoch: int) -> None:
        """A replica begins its epoch: it has all that was promised, unless the power took that from all who had it.

        One that stood still since it was elected may begin after a later epoch has. What that one promised does not
        count here: nobody acknowledges anything to the old one any more.
        """
        self.elections += 1
        log = self._disks[replica].log
        before = [record for record in self.promised if record.epoch < epoch]  # epochs only grow along a log
        if log[: len(before)] != before:
            first = self._first_difference(log)
            for place in range(first, len(before)):
                if not any(holders <= self._lost_by[place] for holders in self.holders[place]):
                    had = [sorted(holders) for holders in self.holders[place]]
                    lost = sorted(self._lost_by[place])
                    raise Violation(
                        f"{replica} leads without {self.promised[place]} at {place}, which {had} had and only {lost} "
                        "lost by a power cut"
                    )
            raise AllowedLoss
        self.catch_up(replica)

    def check(self) -> None:
        """Acknowledged is in the log of every replica that may be elected, at the same places."""
        state = self._recorded()
        for replica in sorted(state.in_sync) if state is not None else ():
            log = self._disks[replica].log
            if replica not in self._forgetful and log[: len(self.promised)] != self.promised:
                place = self._first_difference(log)
                raise Violation(f"{replica} may be elected, and lacks {self.promised[place]} at {place}")

    def _compare(self, replica: int, log: list[Record], length: int) -> None:
        if log[:length] != self.promised[:length]:
            place = self._first_difference(log)
            has = log[place] if place < len(log) else "nothing"
            raise Violation(f"{replica} has {has} at {place}, where {self.promised[place]} was promised")

    def _first_difference(self, log: list[Record]) -> int:
        for place, record in enumerate(self.promised):
            if place >= len(log) or log[place] != record:
                return place
        return len(self.promised)
