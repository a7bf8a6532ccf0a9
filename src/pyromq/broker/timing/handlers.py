"""What may be asked about waits: how far each delay level is (45), the timer is (60), what waits by topic (61)."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.headers.admin import SwitchTimerEngine
from ...store.timer.timer_store import TimerStore
from ...transport.dispatch import Reply, Request, RequestOf
from .progress import DelayProgress, TimerCounts

FILE_WHEEL, ROCKSDB = "F", "R"


@dataclass(frozen=True, slots=True, eq=False)
class TimingHandlers:
    """Event loop only. A slave copies the answers to 45, 60 and 61."""

    progress: DelayProgress
    store: TimerStore
    counts: TimerCounts

    def delay_offsets(self, request: Request) -> Reply:
        return Reply(body=self.progress.body())

    def check_point(self, request: Request) -> Reply:
        return Reply(body=self.store.check().pack())

    def metrics(self, request: Request) -> Reply:
        return Reply(body=self.counts.body())

    def switch(self, request: RequestOf[SwitchTimerEngine, None]) -> Reply:
        """Answer 5001: there is one engine, Java's files."""
        wanted = request.header.engine_type
        if wanted == FILE_WHEEL:
            return Reply()
        why = "timers in RocksDB are not kept here" if wanted == ROCKSDB else f"{wanted!r} is no engine, F is"
        raise RequestRefused(f"switch timer engine failed: {why}", ResponseCode.INVALID_PARAMETER)
