"""The master's end of the streams of an elected set: the wire of Java's auto-switch mode, for one epoch.

A follower says who it is and is answered with the epochs of this log; it cuts its own to where both agree, which it
alone decides, and reports its end. Bytes are sent under the epoch that wrote them, together with what is confirmed.
The follower's hello has no place for an epoch: it is the follower that closes when the master's is not the one that it
was told to follow. Reports go to the mastership (`Lead`), whose rules decide what they mean; one that cannot be true
ends the stream. A replica has one stream: a second one ends the first, and begins with nothing acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ....errors import ProtocolError
from ....protocol.replication.auto_switch import (
    Guest,
    Hello,
    Welcome,
    encode_transfer_head,
    encode_welcome,
)
from ....protocol.replication.epochs import EpochList, MasterEpoch
from .log_source import LogSource
from .wires import CannotServe, HeardOfSlave, bound_begin

Drop = Callable[[str], None]


class Lead(Protocol):
    """One replica's time as master, in one epoch: who has how much, and what that confirms."""

    @property
    def epoch(self) -> int: ...

    @property
    def is_over(self) -> bool:
        """Return whether it is deposed: it takes nobody, and confirms nothing."""
        ...

    @property
    def confirmed(self) -> int:
        """Return up to where every member of the acting set has the log. Never sinks."""
        ...

    @property
    def is_short(self) -> bool:
        """Return whether sends have to be refused before they are appended."""
        ...

    @property
    def on_confirmed(self) -> list[Callable[[int], None]]:
        """Return who is called, in the same turn, when `confirmed` has moved."""
        ...

    def begin_stream(self, replica: int) -> None:
        """Forget what a replica has said on an earlier stream."""
        ...

    def end_stream(self, replica: int) -> None: ...

    def heard(self, replica: int) -> None:
        """Note that a byte of a replica came now."""
        ...

    def note_report(self, replica: int, position: int) -> None:
        """Note what a replica says that it has. ProtocolError: it cannot be true."""
        ...

    def note_own(self, end: int, synced: int) -> None:
        """Note how far the log goes here, and how much of it is on the medium."""
        ...


class ElectedStreams:
    """All streams of one master in one epoch. Event loop only. `wire` is what the HA port makes connections with."""

    def __init__(self, lead: Lead, source: LogSource, epochs: EpochList, me: int) -> None:
        """`epochs`: of this log; the last one is the lead's own, and nothing is added while it leads."""
        self.lead = lead
        self.source = source
        self.epochs = epochs
        self.me = me
        self._wires: dict[int, ElectedWire] = {}

    @property
    def replicas(self) -> frozenset[int]:
        """Return whose streams there are: a replica counts from its hello on."""
        return frozenset(self._wires)

    def wire(self, drop: Drop) -> ElectedWire:
        return ElectedWire(self, drop)

    def take(self, replica: int, wire: ElectedWire) -> None:
        """Let this be the stream of a replica, and end an older one."""
        before = self._wires.get(replica)
        self._wires[replica] = wire
        if before is not None:
            before.drop("it has connected anew")
        self.lead.begin_stream(replica)

    def leave(self, replica: int, wire: ElectedWire) -> None:
        if self._wires.get(replica) is wire:
            del self._wires[replica]
            self.lead.end_stream(replica)

    def close(self) -> None:
        """End all streams: this master's time is over."""
        for wire in tuple(self._wires.values()):
            wire.drop("this broker leads no more")


class ElectedWire:
    """One follower's connection. A learner is streamed to, and never counts."""

    def __init__(self, streams: ElectedStreams, drop: Drop) -> None:
        self._streams = streams
        self.drop = drop
        self._guest = Guest()
        self._hello: Hello | None = None
        self._told = 0  # what was confirmed in the head that was sent last
        self._at: tuple[MasterEpoch, int] = (MasterEpoch(0, 0), 0)  # the epoch that is sent, and where it ends

    @property
    def _replica(self) -> int | None:
        """Return whose reports count here; None: nobody's."""
        return None if self._hello is None or self._hello.is_learner else self._hello.broker_id

    @property
    def who(self) -> str | None:
        return None if self._hello is None else f"replica {self._hello.broker_id}"

    @property
    def has_news(self) -> bool:
        return self._told < self._streams.lead.confirmed

    def hear(self, data: bytes) -> HeardOfSlave:
        if self._streams.lead.is_over:
            raise ProtocolError("this broker leads no more")
        answer, reports = b"", []
        for said in self._guest.feed(data):
            if isinstance(said, Hello):
                answer = self._welcome(said)
            else:
                reports.append(said.position)
        if self._replica is not None:
            self._streams.lead.heard(self._replica)
        return HeardOfSlave(tuple(reports), answer)

    def _welcome(self, hello: Hello) -> bytes:
        streams = self._streams
        if hello.broker_id in (0, streams.me):
            raise ProtocolError(
                f"it says that it is replica {hello.broker_id}, and this is {streams.me}: each replica of a set has a "
                "number of its own, from 1 on"
            )
        if hello.from_last_file:
            raise ProtocolError(
                "it wants the last file alone (syncFromLastFile): what it lacked then would be gone if it became "
                "master. Switch that off there"
            )
        self._hello = hello
        if not hello.is_learner:
            streams.take(hello.broker_id, self)
        return encode_welcome(Welcome(streams.source.end, streams.lead.epoch, streams.epochs))

    def begin(self, report: int) -> int:
        source = self._streams.source
        begins = bound_begin(report, source) if report else source.start
        if self._streams.epochs.at(begins, source.end) is None:
            raise CannotServe(
                "its log ends before the epochs that are known here begin. Begin with an empty store there",
                slave_ends=report,
                epochs=str(self._streams.epochs),
            )
        return begins

    def note(self, position: int) -> None:
        if self._replica is not None:
            self._streams.lead.note_report(self._replica, position)

    def head(self, position: int, length: int) -> bytes:
        self._told = self._streams.lead.confirmed
        return encode_transfer_head(position, length, self._epoch_at(position)[0], self._told)

    def run(self, position: int, most: int) -> int:
        return min(most, self._epoch_at(position)[1] - position)

    def _epoch_at(self, position: int) -> tuple[MasterEpoch, int]:
        """Return the epoch that wrote this place, and where it ends: the newest one is still written."""
        epoch, end = self._at
        if not epoch.start <= position < end:
            found = self._streams.epochs.at(position, self._streams.source.end)
            assert found is not None, "begin() looked for it"
            self._at = found
        return self._at

    def closed(self) -> None:
        if self._replica is not None:
            self._streams.leave(self._replica, self)
