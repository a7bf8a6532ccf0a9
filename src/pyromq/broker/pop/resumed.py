"""Answers to pops that were held, as a kernel finds them: they leave together, once they are written down."""

from __future__ import annotations

from ... import logs
from ...kernel.pops import PopResumes
from ...transport.peer import FramePeer
from .tickets import KernelPop

log = logs.get("pyromq.broker")


class Resumed:
    """Event loop only. `finish` in the same turn as the last `search`, and before Python changes the table."""

    def __init__(self) -> None:
        self._kernel: PopResumes | None = None
        self._answers: dict[FramePeer, list[bytes]] = {}

    def search(self, pop: KernelPop, *, is_last: bool) -> int | None:
        """Return how many messages the kernel has found for it; None: it is Python's to look."""
        if pop.kernel is not self._kernel:
            self.finish()
            self._kernel = pop.kernel
        before = pop.kernel.messages
        found = pop.kernel.resume(pop.frame, pop.born_ms, pop.allowance, is_last)
        if found is None:
            return None
        if isinstance(found, bytes):
            self._answers.setdefault(pop.peer, []).append(found)
        return pop.kernel.messages - before

    def finish(self) -> None:
        """Write down, then answer. What is handed out stays so in memory if it cannot be written: it is tried again."""
        kernel, self._kernel = self._kernel, None
        if kernel is None:
            return
        answers, self._answers = self._answers, {}
        try:
            position = kernel.finish()
        except Exception:
            log.exception("what held pops were given cannot be written down now")
            position = 0
        for peer, frames in answers.items():
            whole = frames[0] if len(frames) == 1 else b"".join(frames)
            if position:
                peer.send_when_readable(whole, position)
            else:
                peer.send_now(whole)
