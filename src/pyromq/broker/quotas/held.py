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
# Between two times that refusals leave. One by one they would wake the event loop for each; and uvloop takes what is
# due in less than half a millisecond for due at once, so that waiting for the next of many would never let it sleep.
LEAVING_S = 0.005


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
        now, leaving = self.clock.monotonic(), dict[FramePeer, list[bytes]]()
        while self._waiting and self._waiting[0][0] <= now:
            _, peer, answers = self._waiting.popleft()
            leaving.setdefault(peer, []).append(answers)
        if self._waiting:
            self.clock.call_later(max(LEAVING_S, self._waiting[0][0] - now), self._leave)
        for peer, answers_of in leaving.items():
            _answer(peer, b"".join(answers_of))


def _answer(peer: FramePeer, answers: bytes) -> None:
    """Send what was held back. Whatever is wrong with one peer ends that peer's connection and nothing else."""
    try:
        peer.replies_pending(-len(answers))
        if peer.is_open:
            peer.send_now(answers)
    except Exception:
        log.exception("a refusal could not be sent", peer=peer.address)
        peer.close("internal error while sending")
