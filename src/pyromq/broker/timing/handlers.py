"""What may be asked about waits: how far each delay level is (45), the timer is (60), what waits by topic (61)."""

from __future__ import annotations

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.headers.stats import SwitchTimerEngine
from ...store.timer.timer_store import TimerStore
from ...transport.dispatch import Reply, Request, RequestOf
from .progress import DelayProgress
from .timers import Timers

FILE_WHEEL, ROCKSDB = "F", "R"


class DelayHandlers:
    """Event loop only."""

    def __init__(self, progress: DelayProgress) -> None:
        self._progress = progress

    def offsets(self, request: Request) -> Reply:
        """Answer 45: a slave copies it."""
        return Reply(body=self._progress.body())


class TimerHandlers:
    """Event loop only."""

    def __init__(self, store: TimerStore, timers: Timers) -> None:
        self._store = store
        self._timers = timers

    def check_point(self, request: Request) -> Reply:
        """Answer 60: a slave copies it."""
        return Reply(body=self._store.check().pack())

    def metrics(self, request: Request) -> Reply:
        """Answer 61: a slave copies it, too."""
        return Reply(body=self._timers.counts.body())

    def switch(self, request: RequestOf[SwitchTimerEngine, None]) -> Reply:
        """Answer 5001: there is one engine, Java's files."""
        wanted = request.header.engine_type
        if wanted == FILE_WHEEL:
            return Reply()
        why = "timers in RocksDB are not kept here" if wanted == ROCKSDB else f"{wanted!r} is no engine, F is"
        raise RequestRefused(f"switch timer engine failed: {why}", ResponseCode.INVALID_PARAMETER)
