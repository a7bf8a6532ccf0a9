"""Calls that the kernel serves without an event: plain sends, receives, acks and changes, fed to the broker's own feed
(`kernel/grpc_sends.py`, `kernel/grpc_pops.py`), and heartbeats that say nothing new (`kernel/grpc_beats.py`).

A connection asks its lane after each read what became of them. Answers that wait for the log are parked with those of
remoting connections of the same listener, and leave in the same order. Event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ...kernel.grpc_sends import HotPeer
from ...kernel.seam import PendingReply
from ...model.client_info import Language, Version
from ...protocol.command import Command
from ...protocol.frame import encode_frame
from ..connection.pending_replies import FrameWriter


class HotSession(Protocol):
    """What a native session has beyond others."""

    @property
    def hot_calls(self) -> int: ...

    def serve_hot(self, hot: object, peer: HotPeer, remote: str) -> None: ...

    def take_parked(self) -> Sequence[PendingReply]: ...

    def answer_parked(self, answers: bytes) -> None: ...

    def lose(self) -> None: ...


class ReplyPark(Protocol):
    """Keeps answers until the log is readable: `transport/service.py`."""

    def reply_when_readable(self, connection: FrameWriter, waiting: Sequence[PendingReply]) -> None: ...


class HotCalls(NamedTuple):
    """What one listener serves so."""

    sends: object  # the native `HotSends`
    listener: str
    park: ReplyPark


class HotWriter(FrameWriter, Protocol):
    """The connection that hot calls came on."""

    @property
    def is_open(self) -> bool: ...

    def close(self, reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class CallsPeer(HotPeer):
    """A connection's hot calls as the broker knows who asks: implements `peer.FramePeer`."""

    answers_later: bool = True
    writer: HotWriter = field(kw_only=True)
    park: ReplyPark = field(kw_only=True)
    language: Language | None = None
    version: int = Version.CURRENT

    @property
    def is_open(self) -> bool:
        return self.writer.is_open

    async def call(self, request: Command, timeout_s: float) -> Command:
        raise TypeError("nobody asks the peer of calls")

    def send(self, command: Command) -> None:
        """Answer a request that the feed left to a handler in the end."""
        if command.is_response:
            self.send_now(encode_frame(command))

    def send_now(self, frames: bytes) -> None:
        self.writer.send_frames(frames)

    def replies_pending(self, change: int) -> None:
        self.writer.replies_pending(change)

    def send_when_readable(self, frames: bytes, position: int) -> None:
        self.park.reply_when_readable(self.writer, (PendingReply(position, frames),))

    def close(self, reason: str) -> None:
        self.writer.close(reason)


class HotLane:
    """One connection's hot calls."""

    __slots__ = ("_park", "_seen", "_session", "_writer")

    def __init__(self, hot: HotCalls, session: HotSession, writer: HotWriter, address: str) -> None:
        self._session = session
        self._writer = writer
        self._park = hot.park
        self._seen = 0
        session.serve_hot(hot.sends, CallsPeer(address, hot.listener, writer=writer, park=hot.park), address)

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

    def lost(self) -> None:
        """Give back messages that were on their way: the connection is gone. Parked answers are given back later."""
        self._session.lose()
