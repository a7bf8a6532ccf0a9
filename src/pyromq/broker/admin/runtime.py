"""What the broker is doing, in one table of texts (request 28), under the keys that RocketMQ's tools look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ...ambient import Clock
from ...config import Live
from ...kernel.choice import kernel_name
from ...protocol.bodies.route import KVTable
from ...protocol.row import RequestClass
from ...store.files.disk import Disk
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply, Request
from ...transport.turns.loop_holds import LoopHolds
from ..config import BrokerConfig
from ..pull.handler import PullHandler
from ..stats.counters import Counters
from ..stats.put_times import PutTimes
from ..stats.rates import ByDay, Rates, Totals, bytes_text, duration_text

VERSION = "V5_5_0"  # what we speak as; mqadmin prints it
MINUTE_S = 60.0


@dataclass(eq=False, repr=False)
class RuntimeInfo:
    """Event loop only. `sample` is to be called every second.

    `waiting` tells how many requests of a class wait to be served, `delays` how far each delay level is delivered and
    where its queue ends, `timers` how far the timer is behind, `faults` what went wrong inside, under names of ours.
    """

    live: Live[BrokerConfig]
    clock: Clock
    store: MessageStore
    disk: Disk
    counters: Counters
    waiting: Callable[[RequestClass], int]
    lag_ms: Callable[[], float]
    holds: LoopHolds
    put_times: PutTimes
    pulls: PullHandler
    delays: Callable[[], Mapping[int, tuple[int, int]]]
    timers: Callable[[], Mapping[str, str]]
    faults: Callable[[], Mapping[str, str]]

    def __post_init__(self) -> None:
        now = self._booted_ms = self.clock.now_ms()
        self._booted = self.clock.monotonic()
        self._rates = Rates(now)
        self._puts, self._gets = ByDay(now, midnight), ByDay(now, midnight)
        self._minute_ends = self._booted + MINUTE_S

    def sample(self) -> None:
        now = self.clock.now_ms()
        put, got = self.counters.put_total, self.counters.got_total
        self._rates.sample(now, Totals(put, got, self.pulls.missed, got))
        self._puts.sample(now, put)
        self._gets.sample(now, got)
        if self.clock.monotonic() >= self._minute_ends:
            self._minute_ends += MINUTE_S
            self.put_times.end_minute()

    async def __call__(self, request: Request) -> Reply:
        log = self.store.commit_log
        first = await self.store.ask(lambda: log.store_time_at(log.start))
        table = self._store_part(first) | self._traffic_part() | self._times_part() | self._queue_part()
        table["pyromqLoopHolds"] = str(self.holds.total)  # ours: requests that held the event loop
        for hold in self.holds.all():
            table[f"pyromqLoopHolds_{hold.code}"] = f"{hold.times} times, {hold.longest_ms:.0f} ms at most"
        table["pyromqMistypedMessages"] = str(sum(self.counters.mistyped_of_day().values()))  # ours: message.type
        for level, (offset, end) in self.delays().items():
            table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return Reply(body=KVTable(table=table))

    def _store_part(self, first: int | None) -> dict[str, str]:
        usage = self.disk.usage()
        log, root = self.store.commit_log, self.live.config.store_path_root_dir
        ratio, free = f"{usage.ratio:.2f}", usage.total - usage.used
        return {
            "bootTimestamp": str(self._booted_ms),
            "runtime": duration_text(int(self.clock.monotonic() - self._booted)),
            "brokerActive": "true",
            "brokerVersionDesc": VERSION,
            "pyromqKernel": kernel_name(),  # ours alone: which kernel serves, docs/kernel.md
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{root}/commitlog": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogMinOffset": str(log.start),
            "commitLogMaxOffset": str(log.end),
            "commitLogDirCapacity": f"Total : {bytes_text(usage.total)}, Free : {bytes_text(free)}.",
            "earliestMessageTimeStamp": str(-1 if first is None else first),
            "dispatchBehindBytes": "0",  # queues are written in the same call as the record
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": str(round(self.lag_ms())),
            "remainHowManyDataToFlush": bytes_text(self.store.unflushed),
            "remainTransientStoreBufferNumbs": str((1 << 31) - 1),  # as Java says where it is off
            "startAcceptSendRequestTimeStamp": str(self.live.config.start_accept_send_request_time_stamp),
        }

    def _traffic_part(self) -> dict[str, str]:
        text = self._rates.text
        got = text(lambda totals: totals.transferred)
        return {
            "putTps": text(lambda totals: totals.put),
            "getFoundTps": text(lambda totals: totals.found),
            "getMissTps": text(lambda totals: totals.missed),
            "getTotalTps": text(lambda totals: totals.found + totals.missed, complete=True),
            "getTransferredTps": got,
            "getTransferedTps": got,  # 4.9's spelling
            "putMessageTimesTotal": str(self.counters.put_total),
            "msgPutTotalYesterdayMorning": str(self._puts.yesterday_morning),
            "msgPutTotalTodayMorning": str(self._puts.today_morning),
            "msgPutTotalTodayNow": str(self.counters.put_total),
            "msgGetTotalYesterdayMorning": str(self._gets.yesterday_morning),
            "msgGetTotalTodayMorning": str(self._gets.today_morning),
            "msgGetTotalTodayNow": str(self.counters.got_total),
        }

    def _times_part(self) -> dict[str, str]:
        """Format times as whole milliseconds, as Java does."""
        times, counters = self.put_times, self.counters
        return {
            "putMessageEntireTimeMax": str(times.longest_ms),
            "putMessageDistributeTime": times.histogram_text(),
            "putMessageFailedTimes": str(times.failed),
            "putMessageSizeTotal": str(counters.put_bytes),
            "putMessageAverageSize": str(counters.put_bytes / max(1, counters.put_total)),
            "putLatency99": times.percentile_text(0.99),
            "putLatency999": times.percentile_text(0.999),
            "getMessageEntireTimeMax": str(int(self.pulls.longest_ms)),
        }

    def _queue_part(self) -> dict[str, str]:
        """Return what waits to be served, where Java shows its thread pools; transactions have nothing waiting."""
        capacity = str(self.live.config.queued_requests)
        send, pull, query = RequestClass.SEND, RequestClass.PULL, RequestClass.QUERY
        table = {}
        for name, kind in {"send": send, "pull": pull, "litePull": pull, "query": query, "ack": pull}.items():
            table[f"{name}ThreadPoolQueueSize"] = str(self.waiting(kind))
            table[f"{name}ThreadPoolQueueCapacity"] = capacity
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = str(round(self.lag_ms()))
        return table | {
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": capacity,
            **self.timers(),
            "timerCongestNum": "0",
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
            **self.faults(),
        }


def midnight(now_ms: int) -> int:
    """Return the start of the day of a time, where the broker is."""
    day = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    return int(day.timestamp() * 1000)
