"""Epochs of a replicated log: which master wrote from which position on, and where two logs stop being the same.

An epoch has one master. It writes the entry (epoch, start) before its first record, and whoever follows it takes the
same entry over. So two logs that both have an entry are equal up to the smaller of its two ends. The text of the list
is Java's file `epochFileCheckpoint`; `store/epochs.py` keeps it on a disk. Nothing here touches a file.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ...errors import ProtocolError
from ...model.wire_text import INT_MAX, whole_number


class MasterEpoch(NamedTuple):
    """One master's time: its number, and the position in the log at which it began."""

    number: int
    start: int


class Agreement(NamedTuple):
    """How far two logs are the same: the position, and the entries that are left of the log that is cut to it."""

    position: int
    epochs: EpochList


class EpochList:
    """Entries of one log, oldest first. A value: every change returns another list.

    Invariant: numbers grow, starts grow."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[MasterEpoch] = ()) -> None:
        """`entries` in their order. Raises ProtocolError if numbers or starts do not grow, or are below 0."""
        self.entries = tuple(entries)
        for epoch in self.entries[:1]:
            if epoch.number < 0 or epoch.start < 0:
                raise ProtocolError(f"the epoch {epoch.number} that starts at {epoch.start} cannot be: both begin at 0")
        for before, epoch in pairwise(self.entries):
            if epoch.number <= before.number or epoch.start <= before.start:
                raise ProtocolError(
                    f"epoch {epoch.number} from {epoch.start} stands behind epoch {before.number} from {before.start}: "
                    "numbers and positions have to grow"
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochList) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"EpochList({', '.join(f'{epoch.number} from {epoch.start}' for epoch in self.entries)})"

    @property
    def newest(self) -> int:
        """The number of the last epoch; -1 in an empty list."""
        return self.entries[-1].number if self.entries else -1

    def begun(self, number: int, start: int) -> EpochList:
        """Return the list of a new master whose log ends at `start`. Entries from there on go: nothing is in them.

        Java refuses an equal start, so that two masters share one entry and a tail of the first is not noticed."""
        if number <= self.newest:
            raise ProtocolError(f"epoch {number} cannot begin: this log has epoch {self.newest} already")
        return EpochList((*self.cut(start).entries, MasterEpoch(number, start)))

    def learned(self, number: int, start: int) -> EpochList:
        """Return the list of a follower that is sent this epoch with a stretch of the log, or with a heartbeat."""
        if self.entries and self.entries[-1] == (number, start):
            return self
        if number == self.newest:
            raise ProtocolError(
                f"the master says that epoch {number} starts at {start}, here it starts at {self.entries[-1].start}: "
                "its log is another one"
            )
        return self.begun(number, start)

    def cut(self, position: int) -> EpochList:
        """Return the list of a log that is cut to end at this position."""
        return EpochList(epoch for epoch in self.entries if epoch.start < position)

    def within(self, end: int) -> EpochList:
        """Return the list of a log that was found to end here: a power cut may have taken what others begin with.

        One that begins right at the end stays: its master had written nothing yet."""
        return EpochList(epoch for epoch in self.entries if epoch.start <= end)

    def without_expired(self, log_start: int) -> EpochList:
        """Return the list without epochs all of whose records have expired; the one of the first record stays."""
        first = bisect_right(self.entries, log_start, key=lambda epoch: epoch.start) - 1
        return EpochList(self.entries[max(first, 0) :])

    def at(self, position: int, log_end: int) -> tuple[MasterEpoch, int] | None:
        """Return the epoch that wrote this position, and where it ends; None: the position is in no epoch.

        At the end of the log that is the newest epoch, which writes there next."""
        place = bisect_right(self.entries, position, key=lambda epoch: epoch.start)
        if not place or position > log_end:
            return None
        return self.entries[place - 1], self._end(place - 1, log_end)

    def agreement(self, own_end: int, other: EpochList, other_end: int) -> Agreement | None:
        """Return how far this log and another are the same, by the newest entry that both have; None: there is none."""
        theirs = {epoch: place for place, epoch in enumerate(other.entries)}
        for place in range(len(self.entries) - 1, -1, -1):
            found = theirs.get(self.entries[place])
            if found is not None:
                position = min(self._end(place, own_end), other._end(found, other_end))
                return Agreement(position, EpochList(self.entries[: place + 1]))
        return None

    def _end(self, place: int, log_end: int) -> int:
        return self.entries[place + 1].start if place + 1 < len(self.entries) else log_end

    # -- as text ------------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return Java's file: the number of entries, the CRC of their lines, then `epoch-start` in each."""
        lines = b"".join(b"%d-%d\n" % epoch for epoch in self.entries)
        return b"%d\n%d\n%s" % (len(self.entries), _checksum(lines), lines)


def decode_epochs(content: bytes) -> EpochList:
    """Return the list that a file of Java's form holds. Raises ProtocolError, which says what is wrong with it."""
    count_line, _, rest = content.partition(b"\n")
    checksum_line, _, _ = rest.partition(b"\n")
    lines = rest.splitlines()[1:]
    count, checksum = _number(count_line), _number(checksum_line)
    entries = [
        MasterEpoch(_number(number), _number(start)) for number, _, start in (line.partition(b"-") for line in lines)
    ]
    if len(entries) != count:
        raise ProtocolError(f"{count} epochs are announced, {len(entries)} are there")
    if checksum not in (0, _checksum(b"".join(line + b"\n" for line in lines))):  # 0 counts as none, as in Java
        raise ProtocolError(f"the checksum {checksum} does not fit its {count} epochs")
    return EpochList(entries)


def _number(text: bytes) -> int:
    found = whole_number(text.strip())
    if found is None:
        raise ProtocolError(f"{text[:40]!r} is no whole number from 0 on")
    return found


def _checksum(lines: bytes) -> int:
    return zlib.crc32(lines) & INT_MAX
