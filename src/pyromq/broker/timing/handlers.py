"""What may be asked about delays: how far each level is (request 45)."""

from __future__ import annotations

from ...transport.dispatch import Reply, Request
from .progress import DelayProgress


class DelayHandlers:
    """Event loop only."""

    def __init__(self, progress: DelayProgress) -> None:
        self._progress = progress

    def offsets(self, request: Request) -> Reply:
        """45: a slave copies it."""
        return Reply(body=self._progress.body())
