"""What a sender says to one slave and hears from it: the two protocols of a replicated log share one sender.

`ClassicWire` is the one of a master and its slaves; that of elected sets is in `elected_streams.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from ....errors import ProtocolError
from ....protocol.replication.classic import ReportReader, encode_header
from ..settings import ReplicationSettings
from .log_source import LogSource


class HeardOfSlave(NamedTuple):
    """What came of a slave: reports in their order, and what is answered at once."""

    reports: tuple[int, ...] = ()
    answer: bytes = b""


class CannotServe(ProtocolError):
    """This log cannot be streamed to that slave. Says why, and what to do; `facts` are the numbers of this one."""

    def __init__(self, why: str, **facts: object) -> None:
        super().__init__(why)
        self.facts = facts


class SenderWire(Protocol):
    """One connection's protocol. Owns no socket; event loop only."""

    @property
    def who(self) -> str | None:
        """Return by what the slave is known when it comes back; None: by its host."""
        ...

    @property
    def has_news(self) -> bool:
        """Return whether the slave should hear something soon, though there is nothing more of the log."""
        ...

    def hear(self, data: bytes) -> HeardOfSlave:
        """Read what came. ProtocolError: close the connection."""
        ...

    def begin(self, report: int) -> int:
        """Return where the stream begins for a slave whose first report this is. CannotServe says why it does not."""
        ...

    def note(self, position: int) -> None:
        """Count a report, which is within what was sent. ProtocolError: it cannot be true all the same."""
        ...

    def head(self, position: int, length: int) -> bytes:
        """Return what stands before so many bytes of the log; before none it is a heartbeat."""
        ...

    def run(self, position: int, most: int) -> int:
        """Return how many of the bytes from here on may stand behind one head: one at least."""
        ...

    def closed(self) -> None:
        """Note that the connection has ended."""
        ...


# Makes the wire of a new connection. It is handed what ends that connection, with the reason.
Wires: TypeAlias = Callable[[Callable[[str], None]], SenderWire]


def bound_begin(report: int, source: LogSource) -> int:
    """Return a report that is no 0 as the beginning of a stream. CannotServe: the log does not have that place."""
    if source.start <= report <= source.end:
        return report
    raise CannotServe(
        "its log does not go on where this one can. Begin with an empty store there, or with a copy of this one "
        "(docs/replication.md)",
        slave_ends=report,
        log_starts=source.start,
        log_ends=source.end,
    )


class ClassicWire:
    """Reports are all that a slave says; heads have a position and a length."""

    who = None
    has_news = False

    def __init__(self, source: LogSource, settings: Callable[[], ReplicationSettings]) -> None:
        self._source = source
        self._settings = settings
        self._reports = ReportReader()

    def hear(self, data: bytes) -> HeardOfSlave:
        position = self._reports.receive(data)
        return HeardOfSlave() if position is None else HeardOfSlave((position,))

    def begin(self, report: int) -> int:
        source = self._source
        if report == 0:
            return source.start if self._settings().ha_start_from_first else source.last_file
        return bound_begin(report, source)

    def note(self, position: int) -> None:
        """Count nothing: who has how much is judged over all connections (`confirm.py`)."""

    def head(self, position: int, length: int) -> bytes:
        return encode_header(position, length)

    def run(self, position: int, most: int) -> int:
        return most

    def closed(self) -> None:
        """Forget nothing: nothing is kept."""
