"""Whether a send is taken now: an overloaded broker says so early and names the limit, instead of growing slow.

The limits are time waited, loop lag, unflushed bytes and waiting replies; how many requests may wait, and with how many
bytes, is transport's to decide. Asked by `handler.py` for every message. A kernel does not ask while its gate is open:
`keep_gate` leaves there what follows from the limits, and nobody else knows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...kernel.state import Gate, Reason
from ...model.codes import ResponseCode
from ...store.log.watermarks import Watermark
from ..config import BrokerConfig

TICK_S = 0.1


class LoopLag:
    """How late the event loop is, measured by a timer that should fire every `TICK_S`. Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.watchers: list[Callable[[], None]] = []  # called after each measurement
        self.due = clock.monotonic() + TICK_S
        self.last_ms = 0.0

    def measured(self, due: float, last_ms: float) -> None:
        """Note how late the last tick was, and when the next one is due."""
        self.due, self.last_ms = due, last_ms
        for watcher in self.watchers:
            watcher()

    def now_ms(self) -> float:
        return self.at(self._clock.monotonic())

    def at(self, moment: float) -> float:
        """Return the lag seen at the last tick, or more while the next tick is overdue."""
        overdue = (moment - self.due) * 1000
        return overdue if overdue > self.last_ms else self.last_ms

    async def run(self) -> None:
        late_ms = 0.0
        while True:
            self.measured(self._clock.monotonic() + TICK_S, late_ms)
            await self._clock.sleep(TICK_S)
            late_ms = max(0.0, (self._clock.monotonic() - self.due) * 1000)


def keep_gate(gate: Gate, live: Live[BrokerConfig], lag: LoopLag, flushed: Watermark) -> None:
    """Leave in the gate, from now on, what the limits of lag, unflushed and waiting replies mean for a kernel.

    Disk and gathered messages are set by those who know of them: `DiskSpaceGate` and `Intake`.
    """

    def note_lag() -> None:
        limit_ms = live.config.max_loop_lag_ms
        gate.set(Reason.LAG, lag.last_ms > limit_ms)
        gate.due = lag.due + limit_ms / 1000

    def note_flushed(position: int) -> None:
        gate.log_limit = position + live.config.max_unflushed_bytes

    def use(config: BrokerConfig) -> None:
        note_lag()
        note_flushed(flushed.value)
        gate.set(Reason.SYNC, config.answers_wait)  # how many replies wait is counted at each send

    use(live.config)
    live.watch(use)
    lag.watchers.append(note_lag)
    flushed.on_advance(note_flushed)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Admission:
    """Event loop only."""

    clock: Clock
    lag: LoopLag
    unflushed: Callable[[], int]
    waiting: Callable[[], int]
    no_disk: Callable[[], str | None]  # why there is no room on disk, None while there is
    lacks_copies: Callable[[], bool] = lambda: False  # whether nothing may be stored for want of slaves
    refused: Counter[str] = field(default_factory=Counter)  # by the limit that refused them, since the start

    def __call__(self, config: BrokerConfig, arrived: float, timeout_ms: int | None = None) -> None:
        """Raise RequestRefused if the broker is overloaded, or full, or came to this request too late.

        `arrived`: what waited to be served for longer than its client does is not stored late and silently.
        `timeout_ms`: how long that is, where the client says it.
        """
        no_disk = self.no_disk()
        if no_disk is not None:
            self.refused["disk"] += 1
            raise RequestRefused(f"service not available now: {no_disk}", ResponseCode.SERVICE_NOT_AVAILABLE)
        if self.lacks_copies():
            self.refused["inSyncReplicas"] += 1
            raise RequestRefused("in-sync replicas not enough", ResponseCode.SYSTEM_ERROR)  # Java's words
        now = self.clock.monotonic()
        waited = (now - arrived) * 1000
        limit, key = config.wait_time_mills_in_send_queue, "waitTimeMillsInSendQueue"
        if timeout_ms is not None and timeout_ms > 0:
            limit, key = timeout_ms, "its client's time-out"
        if waited > limit and config.broker_fast_failure_enable:
            raise self._busy("TIMEOUT_CLEAN_QUEUE", f"this request waited {waited:.0f} ms to be served", key, limit)
        lag = self.lag.at(now)
        if lag > config.max_loop_lag_ms:
            raise self._busy(
                "PC_SYNCHRONIZED",
                f"the broker runs {lag:.0f} ms late",
                "osPageCacheBusyTimeOutMills",
                config.max_loop_lag_ms,
            )
        unflushed = self.unflushed()
        if unflushed > config.max_unflushed_bytes:
            raise self._busy(
                "OVERLOAD", f"{unflushed} bytes wait for the disk", "maxUnflushedBytes", config.max_unflushed_bytes
            )
        waiting = self.waiting()
        if waiting >= config.max_waiting_replies:
            raise self._busy(
                "OVERLOAD", f"{waiting} sends wait for the disk", "maxWaitingReplies", config.max_waiting_replies
            )

    def _busy(self, mark: str, what: str, key: str, limit: int) -> RequestRefused:
        self.refused[key] += 1
        return RequestRefused(
            f"[{mark}]broker busy, start flow control for a while: {what}, the limit ({key}) is {limit}",
            ResponseCode.SYSTEM_BUSY,
        )
