"""Calls that the kernel serves without an event: plain sends, fed to the broker's own feed (`kernel/grpc_sends.py`).

A connection asks its lane after each read what became of them. Answers that wait for the log are parked with those of
remoting connections of the same listener, and leave in the same order. Event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...kernel.grpc_sends import HotPeer
from ...kernel.seam import PendingReply
from ..connection.pending_replies import FrameWriter


class HotSession(Protocol):
    """What a native session has beyond others."""

    @property
    def hot_calls(self) -> int: ...

    def serve_hot(self, hot: object, peer: HotPeer, remote: str) -> None: ...

    def take_parked(self) -> Sequence[PendingReply]: ...

    def answer_parked(self, answers: bytes) -> None: ...


class ReplyPark(Protocol):
    """Keeps answers until the log is readable: `transport/service.py`."""

    def reply_when_readable(self, connection: FrameWriter, waiting: Sequence[PendingReply]) -> None: ...


class HotCalls(NamedTuple):
    """What one listener serves so."""

    sends: object  # the native `HotSends`
    listener: str
    park: ReplyPark


class HotLane:
    """One connection's hot calls."""

    __slots__ = ("_park", "_seen", "_session", "_writer")

    def __init__(self, hot: HotCalls, session: HotSession, writer: FrameWriter, address: str) -> None:
        self._session = session
        self._writer = writer
        self._park = hot.park
        self._seen = 0
        session.serve_hot(hot.sends, HotPeer(address, hot.listener), address)

    def settle(self) -> bool:
        """Park answers that cannot leave yet; return whether calls were served since the last time."""
        waiting = self._session.take_parked()
        if waiting:
            self._park.reply_when_readable(self._writer, waiting)
        before, self._seen = self._seen, self._session.hot_calls
        return self._seen != before or bool(waiting)

    def answer(self, frames: bytes) -> None:
        """Answer calls whose answers were parked."""
        self._session.answer_parked(frames)
