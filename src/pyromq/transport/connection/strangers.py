"""Connections that have not shown who they are, where everybody is asked: few of them, few bytes, little time.

    strangers = Strangers(limits, clock)         # one for all listeners of a daemon
    stranger = strangers.welcome(host)           # of a connection that is accepted
    stranger.meet(connection)
    stranger.hold(4096)                          # bytes are kept for it
    stranger.note_passage(is_known=True)         # it has shown who it is
    stranger.end()                               # it is gone

What is beyond a limit is counted by the limit's name in `refused`. Where too much is kept, the machine that has most
of it loses its connections, the oldest bytes first: a flood from some addresses takes nothing from the others.
Event loop only.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from ...ambient import Clock
from ..limits import StrangerLimits
from ..turns.timeouts import Timeouts

_AT_ONCE = 64  # connections that are cut off before others have their turn; the next change goes on with it


class StrangerPeer(Protocol):
    """A connection as it is seen from here."""

    @property
    def is_open(self) -> bool: ...

    def violation(self, event: str, **fields: object) -> None: ...

    def recognised(self) -> None:
        """Take the peer for one that has shown who it is: the limits of all others hold from now on."""


class _Host:
    """What the connections of one machine have."""

    __slots__ = ("connections", "held", "keeping")

    def __init__(self) -> None:
        self.connections = 0
        self.held = 0
        self.keeping: dict[Stranger, None] = {}  # those for whom bytes are kept, in the order in which that began


class Strangers:
    """Invariant: `held` is what is kept for all of them; while it is above the limit, each change cuts some off."""

    def __init__(self, limits: StrangerLimits, clock: Clock) -> None:
        self.limits = limits
        self.deadlines: Timeouts[Stranger] = Timeouts(clock, lambda one: one.late())
        self.refused: Counter[str] = Counter()
        self.connections = 0
        self.held = 0
        self._hosts: dict[str, _Host] = {}

    def beyond(self, host: str, most: int | None = None) -> tuple[str, int] | None:
        """Return name and value of the limit that one more connection would break. `most`: of all, if that is less."""
        limits, known = self.limits, self._hosts.get(host)
        total = limits.connections if most is None else min(limits.connections, most)
        if self.connections >= total:
            return "stranger_connections", total
        if known is not None and known.connections >= limits.connections_per_address:
            return "stranger_connections_per_address", limits.connections_per_address
        return None

    def welcome(self, host: str) -> Stranger:
        """Count a connection that is accepted now."""
        known = self._hosts.setdefault(host, _Host())
        known.connections += 1
        self.connections += 1
        stranger = Stranger(self, host, known)
        self.deadlines.begin(stranger, self.limits.seconds)
        return stranger

    def left(self, host: str, known: _Host) -> None:
        """Count a connection no longer."""
        self.connections -= 1
        if not self.connections:
            self.deadlines.stop()
        known.connections -= 1
        if not known.connections and self._hosts.get(host) is known:
            del self._hosts[host]

    def cut_off(self) -> None:
        """Close connections that have what is too much."""
        excess = self.held - self.limits.held_bytes
        for _ in range(_AT_ONCE):
            if excess <= 0:
                return
            host = max(self._hosts.values(), key=lambda one: one.held)
            blamed = next((one for one in host.keeping if one.peer is not None and one.peer.is_open), None)
            if blamed is None:
                return
            excess -= blamed.held  # what is in work is counted on until that has come to its end
            blamed.cut("too much held for strangers", "stranger_bytes", self.limits.held_bytes)


class Stranger:
    """One of them."""

    __slots__ = ("_among", "_host", "_known", "held", "is_over", "peer", "refusals")

    def __init__(self, among: Strangers, host: str, known: _Host) -> None:
        self._among = among
        self._host = host
        self._known = known
        self.held = 0
        self.refusals = 0
        self.is_over = False
        self.peer: StrangerPeer | None = None

    def meet(self, peer: StrangerPeer) -> None:
        """Take this as the connection, from now on."""
        self.peer = peer

    def hold(self, change: int) -> None:
        """Count bytes that are kept for it, more or fewer. Over the limit one is cut off, maybe this one."""
        if not self.is_over:
            self._count(change)
            if change > 0 and self._among.held > self._among.limits.held_bytes:
                self._among.cut_off()

    def _count(self, change: int) -> None:
        self.held += change
        self._known.held += change
        self._among.held += change
        if not self.held:
            self._known.keeping.pop(self, None)
        elif change > 0:
            self._known.keeping[self] = None

    def note_passage(self, is_known: bool) -> None:
        """Note that a request was accepted: its time is no longer measured. `is_known`: it has shown who sent it."""
        if self.is_over:
            return
        self._among.deadlines.end(self)
        if not is_known:
            return  # a white list lets it in
        self.end()
        if self.peer is not None:
            self.peer.recognised()

    def note_refusal(self) -> None:
        """Count a request that was refused, because nobody showed who sent it. Many of them end the connection."""
        self.refusals += 1
        if self.refusals >= self._among.limits.refusals:
            self.cut("too many refused requests", "stranger_refusals", self._among.limits.refusals)

    def late(self) -> None:
        """Cut it off: its time is over."""
        self.cut("nobody has shown who he is", "stranger_seconds", self._among.limits.seconds)

    def note_fault(self, limit: str) -> None:
        """Count what ends this connection for another reason."""
        self._among.refused[limit] += 1

    def cut(self, event: str, limit: str, value: float) -> None:
        if self.peer is not None and self.peer.is_open:
            self._among.refused[limit] += 1
            self.peer.violation(event, limit=limit, value=value)

    def end(self) -> None:
        """Count it no longer: it has shown who it is, or is gone."""
        if not self.is_over:
            self.is_over = True
            self._among.deadlines.end(self)
            self._count(-self.held)
            self._among.left(self._host, self._known)
