"""What the broker is doing, in one table of texts (request 28), under the keys that RocketMQ's tools look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class RuntimeInfo:
    """Event loop only. `sample` is to be called every second.

    `waiting` tells how many requests of a class wait to be served, `delays` how far each delay level is delivered and
    where its queue ends, `timers` how far the timer is behind, `faults` what went wrong inside, under names of ours.
    """

    def __init__(
        self,
        live: Live[BrokerConfig],
        clock: Clock,
        store: MessageStore,
        disk: Disk,
        counters: Counters,
        waiting: Callable[[RequestClass], int],
        lag_ms: Callable[[], float],
        holds: LoopHolds,
        put_times: PutTimes,
        pulls: PullHandler,
        delays: Callable[[], Mapping[int, tuple[int, int]]],
        timers: Callable[[], Mapping[str, str]],
        faults: Callable[[], Mapping[str, str]],
    ) -> None:
        now = clock.now_ms()
        self._live = live
        self._clock = clock
        self._store = store
        self._disk = disk
        self._counters = counters
        self._waiting = waiting
        self._lag_ms = lag_ms
        self._holds = holds
        self._put_times = put_times
        self._pulls = pulls
        self._delays = delays
        self._timers = timers
        self._faults = faults
        self._booted_ms = now
        self._booted = clock.monotonic()
        self._rates = Rates(now)
        self._puts, self._gets = ByDay(now, midnight), ByDay(now, midnight)
        self._minute_ends = clock.monotonic() + MINUTE_S

    def sample(self) -> None:
        now = self._clock.now_ms()
        put, got = self._counters.put_total, self._counters.got_total
        self._rates.sample(now, Totals(put, got, self._pulls.missed, got))
        self._puts.sample(now, put)
        self._gets.sample(now, got)
        if self._clock.monotonic() >= self._minute_ends:
            self._minute_ends += MINUTE_S
            self._put_times.end_minute()

    async def __call__(self, request: Request) -> Reply:
        log = self._store.commit_log
        first = await self._store.ask(lambda: log.store_time_at(log.start))
        table = self._store_part(first) | self._traffic_part() | self._times_part() | self._queue_part()
        table |= self._holds_part()
        for level, (offset, end) in self._delays().items():
            table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return Reply(body=KVTable(table=table))

    def _store_part(self, first: int | None) -> dict[str, str]:
        usage = self._disk.usage()
        log, root = self._store.commit_log, self._live.config.store_path_root_dir
        ratio, free = f"{usage.ratio:.2f}", usage.total - usage.used
        return {
            "bootTimestamp": str(self._booted_ms),
            "runtime": duration_text(int(self._clock.monotonic() - self._booted)),
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
            "pageCacheLockTimeMills": str(round(self._lag_ms())),
            "remainHowManyDataToFlush": bytes_text(self._store.unflushed),
            "remainTransientStoreBufferNumbs": str((1 << 31) - 1),  # as Java says where it is off
            "startAcceptSendRequestTimeStamp": str(self._live.config.start_accept_send_request_time_stamp),
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
            "putMessageTimesTotal": str(self._counters.put_total),
            "msgPutTotalYesterdayMorning": str(self._puts.yesterday_morning),
            "msgPutTotalTodayMorning": str(self._puts.today_morning),
            "msgPutTotalTodayNow": str(self._counters.put_total),
            "msgGetTotalYesterdayMorning": str(self._gets.yesterday_morning),
            "msgGetTotalTodayMorning": str(self._gets.today_morning),
            "msgGetTotalTodayNow": str(self._counters.got_total),
        }

    def _times_part(self) -> dict[str, str]:
        """Format times as whole milliseconds, as Java does."""
        times, counters = self._put_times, self._counters
        return {
            "putMessageEntireTimeMax": str(times.longest_ms),
            "putMessageDistributeTime": times.histogram_text(),
            "putMessageFailedTimes": str(times.failed),
            "putMessageSizeTotal": str(counters.put_bytes),
            "putMessageAverageSize": str(counters.put_bytes / max(1, counters.put_total)),
            "putLatency99": times.percentile_text(0.99),
            "putLatency999": times.percentile_text(0.999),
            "getMessageEntireTimeMax": str(int(self._pulls.longest_ms)),
        }

    def _holds_part(self) -> dict[str, str]:
        """Return the requests, which Java does not count, that held the event loop longer than `loopHoldMs`."""
        table = {"pyromqLoopHolds": str(self._holds.total)}
        for hold in self._holds.all():
            table[f"pyromqLoopHolds_{hold.code}"] = f"{hold.times} times, {hold.longest_ms:.0f} ms at most"
        return table

    def _queue_part(self) -> dict[str, str]:
        """Return what waits to be served, where Java shows its thread pools; transactions have nothing waiting."""
        capacity = str(self._live.config.queued_requests)
        waits = {
            "send": RequestClass.SEND,
            "pull": RequestClass.PULL,
            "litePull": RequestClass.PULL,
            "query": RequestClass.QUERY,
            "ack": RequestClass.PULL,
        }
        table = {}
        for name, kind in waits.items():
            table[f"{name}ThreadPoolQueueSize"] = str(self._waiting(kind))
            table[f"{name}ThreadPoolQueueCapacity"] = capacity
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = str(round(self._lag_ms()))
        return table | {
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": capacity,
            "timerReadBehind": "0",
            "timerOffsetBehind": "0",
            "timerCongestNum": "0",
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
            **self._timers(),
            **self._faults(),
        }


def midnight(now_ms: int) -> int:
    """Return the start of the day of a time, where the broker is."""
    day = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    return int(day.timestamp() * 1000)
