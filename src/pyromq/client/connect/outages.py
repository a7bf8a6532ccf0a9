"""Servers that do not answer: one warning when that begins and one when it ends, however many calls notice it.

An overloaded one that answers only some calls has such a pair of lines in five seconds at most. The session and the
name servers report each call here. What consumers could not do meanwhile is said at level debug.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from ... import logs
from ...ambient import Clock
from ...errors import CallFailed

log = logs.get("pyromq.client")

FORGET_S = 600.0  # an address that nothing names any more: its server is elsewhere now


@dataclass(slots=True)
class _Outage:
    began: float
    is_said: bool = False


@dataclass(slots=True, eq=False)
class Outages:
    """Event loop only. `is_heard`: the client has groups. One that asks once gets an error, which is enough."""

    clock: Clock
    is_heard: Callable[[], bool]
    away: dict[str, _Outage] = field(init=False, default_factory=dict)  # by address
    _few: logs.Limited = field(init=False)

    def __post_init__(self) -> None:
        self._few = logs.Limited(log, self.clock)

    def failed(self, server: str, address: str, fault: CallFailed) -> None:
        """Note that a call failed; `server` says what is at the address."""
        outage = self.away.setdefault(address, _Outage(self.clock.monotonic()))
        fields: dict[str, object] = {"address": address, "fault": str(fault)}
        if not outage.is_said and self.is_heard() and self._few.lets_through(address, fields):
            outage.is_said = True
            log.warning(f"a {server} does not answer", **fields)
        else:
            log.debug(f"a {server} does not answer", **fields)

    def answered(self, address: str) -> None:
        self._end(address, "a server that was away answers again")

    def forget(self, known: Container[str]) -> None:
        """End the outages of addresses that nothing has named for long."""
        before = self.clock.monotonic() - FORGET_S
        for address in [each for each, outage in self.away.items() if outage.began < before and each not in known]:
            self._end(address, "a server that was away is no longer among those of the cluster")

    def warn(self, event: str, fault: Exception, /, **fields: object) -> None:
        """Log what failed, at level debug where a server is away, which is said already."""
        fields["fault"] = str(fault)
        if self.away and isinstance(fault, CallFailed):
            log.debug(event, **fields)
        else:
            self._few.warning(event, **fields)

    def _end(self, address: str, event: str) -> None:
        outage = self.away.pop(address, None)
        if outage is not None and outage.is_said:
            log.warning(event, address=address, away_s=round(self.clock.monotonic() - outage.began, 1))
