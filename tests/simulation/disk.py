"""A simulated replica's disk: an abstract log, its epochs and the boot note; a power cut takes what was not synced."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.ambient import Random
from pyromq.broker.election.amnesia import BootNote
from pyromq.broker.election.joining import epochs_found
from pyromq.protocol.replication.epochs import EpochList


class Record(NamedTuple):
    epoch: int
    value: int


class ReplicaDisk:
    """Positions are places in `log`. Cutting is durable at once, as `store/cutting.py` makes it."""

    def __init__(self, number: int) -> None:
        self.log: list[Record] = []
        self.synced = 0
        self.cuts = 0
        self.epochs = EpochList()
        self._durable_epochs = EpochList()
        self.note: BootNote | None = None
        self._boots, self._number = 0, number

    @property
    def boot(self) -> str:
        return f"{self._number}.{self._boots}"

    @property
    def end(self) -> int:
        return len(self.log)

    def save_epochs(self, epochs: EpochList, *, is_synced: bool = True) -> None:
        self.epochs = epochs
        if is_synced:
            self._durable_epochs = epochs

    def cut(self, position: int, epochs: EpochList) -> None:
        if position < self.end:
            self.cuts += 1
        del self.log[position:]
        self.synced = min(self.synced, position)
        self.save_epochs(epochs)

    def note_synced(self, end: int, cuts: int) -> None:
        """Note that a sync ended that began with this end, unless the log was cut meanwhile."""
        if cuts == self.cuts:
            self.synced = max(self.synced, end)

    def lose_power(self, rng: Random) -> None:
        del self.log[rng.randint(self.synced, self.end) :]
        self.synced = self.end
        self._boots += 1
        self.epochs = self._durable_epochs = epochs_found(self._durable_epochs, self.end)
