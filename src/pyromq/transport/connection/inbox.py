"""Bytes of one connection in, commands out; keeps the unfinished end. Transport's side of `kernel/seam.py`."""

from __future__ import annotations

from ...kernel.seam import NOTHING, Fed, Feed, FeedConnection, as_fed
from ...protocol.command import Command
from ...protocol.frame import FrameLimits, decode_frames

_LENGTH_WORDS = 8


class Inbox:
    """After a ProtocolError the stream is out of step and the inbox must be dropped."""

    __slots__ = ("_limits", "needed", "tail")

    def __init__(self, limits: FrameLimits) -> None:
        self._limits = limits
        self.tail = bytearray()  # of a frame that is not complete yet
        self.needed = _LENGTH_WORDS  # nothing is looked at before this many bytes are there

    @property
    def tail_bytes(self) -> int:
        return len(self.tail)

    def drop(self) -> int:
        """Forget the unfinished frame; return how many bytes it had."""
        size, self.tail = len(self.tail), bytearray()
        return size

    def receive(
        self, feed: Feed, connection: FeedConnection, received: memoryview, fed: Fed | None = None
    ) -> tuple[Fed, list[Command]]:
        """Return what the feed did with these bytes, and the commands that it left.

        `fed`: what it did, if it has seen them already, which it may where no unfinished end is.
        """
        if not self.tail:
            fed = as_fed(feed(connection, received), received) if fed is None else fed
            commands, used = self._split(fed, received)
            if used < len(received):
                self.tail += received[used:]
            return fed, commands
        self.tail += received
        if len(self.tail) < self.needed:
            return NOTHING, []  # a large frame in small pieces is not scanned again with each piece
        view = memoryview(self.tail)
        fed = as_fed(feed(connection, view), view)
        commands, used = self._split(fed, view)
        self.tail = bytearray(view[used:])  # a new one: views that the feed handed back still point into the old
        return fed, commands

    def _split(self, fed: Fed, view: memoryview) -> tuple[list[Command], int]:
        """Decode what is Python's; return the commands, and how many bytes are dealt with."""
        if not fed.used:
            commands, used, self.needed = decode_frames(view, self._limits)
            return commands, used
        if fed.used == len(view) and not fed.frames:  # all of it was the kernel's
            self.needed = _LENGTH_WORDS
            return [], fed.used
        commands = [command for frame in fed.frames for command in decode_frames(memoryview(frame), self._limits)[0]]
        behind, used, self.needed = decode_frames(view[fed.used :], self._limits)
        return commands + behind, fed.used + used
