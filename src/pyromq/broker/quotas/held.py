"""Refusals that are held back for a moment: a client that tries again at once, as Java's do, cannot flood us with that.

Those of handlers wait as tasks (`gate.py`); those that a kernel has made wait here, all by one timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from ... import logs
from ...ambient import Clock
from ...transport.peer import FramePeer

log = logs.get("pyromq.broker")

HELD_S = 0.1  # well within the time-outs of clients


@dataclass(slots=True, eq=False, repr=False)
class HeldRefusals:
    """Event loop only. What waits for a peer counts as its answers do: one that goes on asking is not read from."""

    clock: Clock
    _waiting: deque[tuple[float, FramePeer, bytes]] = field(default_factory=deque)  # the first is the next to leave

    def add(self, peer: FramePeer, answers: bytes) -> None:
        if HELD_S <= 0:
            peer.send_now(answers)
            return
        if not self._waiting:
            self.clock.call_later(HELD_S, self._leave)
        self._waiting.append((self.clock.monotonic() + HELD_S, peer, answers))
        # Soon, as the peer may be cut off for it: its connection is in the midst of what the kernel was fed.
        asyncio.get_running_loop().call_soon(peer.replies_pending, len(answers))

    def _leave(self) -> None:
        now = self.clock.monotonic()
        try:
            while self._waiting and self._waiting[0][0] <= now:
                _, peer, answers = self._waiting.popleft()
                _answer(peer, answers)
        finally:
            if self._waiting:
                self.clock.call_later(max(0.0, self._waiting[0][0] - now), self._leave)


def _answer(peer: FramePeer, answers: bytes) -> None:
    """Send what was held back. Whatever is wrong with one peer ends that peer's connection and nothing else."""
    try:
        peer.replies_pending(-len(answers))
        if peer.is_open:
            peer.send_now(answers)
    except Exception:
        log.exception("a refusal could not be sent", peer=peer.address)
        peer.close("internal error while sending")
