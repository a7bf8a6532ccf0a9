"""How requests are served: what waits, how long answers take, what is refused, how late the loop is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...config import Live
from ...kernel.choice import kernel_name
from ...metrics.families import Family, HistogramValue, Labels, MetricKind
from ...metrics.requests import names_of, of_strangers
from ...model.codes import ResponseCode
from ...protocol.requests import RequestCode as Code
from ...protocol.row import RequestClass
from ...store.tables.quarantine import Quarantine
from ...supervision import Loops
from ...transport.server import Server
from ...transport.turns.answer_times import BOUNDS, AnswerKind, TimeHistogram
from ..config import BrokerConfig
from ..registration import REGISTERED
from ..send.admission import Admission, LoopLag
from ..stats.counters import Counters
from ..stats.events import CREATION_BOUNDS_MS
from .meter import Meter, Series, by_label, with_unit

# Java's thread pools, and the class of requests that has their work here.
_POOLS = {
    **dict.fromkeys(("send", "reply", "transaction"), RequestClass.SEND),
    **dict.fromkeys(("pull", "lite_pull", "ack"), RequestClass.PULL),
    **dict.fromkeys(("query_message",), RequestClass.QUERY),
    **dict.fromkeys(("heartbeat", "client_manager"), RequestClass.HEARTBEAT),
    **dict.fromkeys(("consumer_manager", "admin"), RequestClass.ADMIN),
}
RPC_BOUNDS_MS = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
_SENDS = (Code.SEND_MESSAGE.code, Code.SEND_MESSAGE_V2.code, Code.SEND_BATCH_MESSAGE.code)
_PULLS = (Code.PULL_MESSAGE.code, Code.LITE_PULL_MESSAGE.code)
_MAKE_TOPICS = (Code.UPDATE_AND_CREATE_TOPIC.code, Code.UPDATE_AND_CREATE_TOPIC_LIST.code)
_MAKE_GROUPS = (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.code, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST.code)
_NO_TIMES = [0] * (len(BOUNDS) + 1)


class ServingState(NamedTuple):
    """What is asked of the broker at each scrape."""

    version: str
    loop: str
    python: str
    troubles: Callable[[], list[str]]
    name_servers: Callable[[], dict[str, str]]
    certificate_ends_ms: Callable[[], int | None]
    duplicates: Callable[[], int]
    now_ms: Callable[[], int]


@dataclass(slots=True, eq=False, repr=False)
class ServingMetrics:
    """Event loop only."""

    meter: Meter
    live: Live[BrokerConfig]
    counters: Counters
    servers: Callable[[], Iterable[Server]]
    admission: Admission
    lag: LoopLag
    loops: Loops
    quarantine: Quarantine
    state: ServingState

    # --- under Java's names -------------------------------------------------------------------------------------------

    async def requests(self) -> AsyncIterator[Family]:
        meter = self.meter
        waiting = {
            name: sum(server.service.waiting(kind) for server in self.servers()) for name, kind in _POOLS.items()
        }
        series = by_label(meter, "processor", {**waiting, "async_put": 0})
        yield meter.gauge(
            "rocketmq_processor_watermark", "Requests that wait to be served, by Java's thread pools.", series
        )

    async def latencies(self) -> AsyncIterator[Family]:
        series: dict[Labels, HistogramValue] = {}
        for kind, counts, total_s in self._answers():
            labels = self._rpc_labels(kind)
            before = series.get(labels)
            now = HistogramValue(_in_ms(counts, RPC_BOUNDS_MS), total_s * 1000)
            series[labels] = now if before is None else _sum(before, now)
        text = "From a request's arrival to its answer. What a kernel answers is counted as within a millisecond."
        family = Family(
            "rocketmq_rpc_latency_milliseconds", MetricKind.HISTOGRAM, text, list(series.items()), bounds=RPC_BOUNDS_MS
        )
        yield with_unit(family, "milliseconds")

    async def creations(self) -> AsyncIterator[Family]:
        """Yield how long topics and groups took to be made by administrators."""
        topics = self._created(_MAKE_TOPICS, is_system="false")
        groups = self._created(_MAKE_GROUPS)
        for what, series in (("topic", topics), ("consumer_group", groups)):
            name = f"rocketmq_{what}_create_execution_time_milliseconds"
            text = f"How long it took to create or change a {what.replace('_', ' ')} by an administrator's request."
            yield with_unit(Family(name, MetricKind.HISTOGRAM, text, series, bounds=CREATION_BOUNDS_MS), "milliseconds")

    def _created(self, codes: Sequence[int], **labels: str) -> Series:
        found: dict[str, HistogramValue] = {}
        for server in self.servers():
            for kind, times in server.service.times.all():
                if kind.code in codes:
                    status = "success" if kind.response == ResponseCode.SUCCESS else "failure"
                    now = HistogramValue(_in_ms(times.counts, CREATION_BOUNDS_MS), times.total_s * 1000)
                    found[status] = now if status not in found else _sum(found[status], now)
        return [(self.meter.labels.of(invocation_status=status, **labels), value) for status, value in found.items()]

    def _answers(self) -> Iterable[tuple[AnswerKind, list[int], float]]:
        for server in self.servers():
            for kind, times in server.service.times.all():
                yield kind, times.counts, times.total_s
        for code, count in zip(
            (Code.SEND_MESSAGE_V2.code, Code.PULL_MESSAGE.code), self.counters.by_kernel, strict=True
        ):
            if count:
                counts = list(_NO_TIMES)
                counts[0] = count
                yield AnswerKind(code, ResponseCode.SUCCESS, False), counts, 0.0

    def _rpc_labels(self, kind: AnswerKind) -> Labels:
        return self.meter.labels.of(protocol_type="remoting", result="success", **names_of(kind))

    # --- under names of ours ------------------------------------------------------------------------------------------

    async def own(self) -> AsyncIterator[Family]:
        meter, state = self.meter, self.state
        build = meter.labels.of(version=state.version, kernel=kernel_name(), python=state.python, loop=state.loop)
        yield meter.gauge("pyromq_build_info", "1; its labels say which build serves.", [(build, 1)])
        troubles = state.troubles()
        yield meter.gauge("pyromq_ready", "1 while the broker can do what it is there for.", 0 if troubles else 1)
        yield meter.gauge(
            "pyromq_trouble",
            "1 for each reason why it cannot.",
            by_label(meter, "what", [(one, 1) for one in troubles]),
        )
        text = "How late the event loop is: everything else is as late."
        yield with_unit(meter.gauge("pyromq_loop_lag_seconds", text, self.lag.now_ms() / 1000), "seconds")
        for name, codes, what in (("send", _SENDS, "sends"), ("pull", _PULLS, "pulls, without those that waited,")):
            yield with_unit(
                self._times(f"pyromq_{name}_seconds", codes, f"How long {what} took by handlers."), "seconds"
            )
        text = "Sends and pulls that the kernel answered without a handler."
        answered = dict(zip(("send", "pull"), self.counters.by_kernel, strict=True))
        yield meter.counter("pyromq_kernel_answers_total", text, by_label(meter, "request", answered))
        text = "Requests refused for a limit."
        yield meter.counter("pyromq_refused_total", text, self._refused())
        connections = {server.name: server.connections for server in self.servers()}
        yield meter.gauge("pyromq_connections", "Open connections.", by_label(meter, "listener", connections))
        for family in of_strangers(meter.labels, self.servers()):
            yield family
        buffered = sum(server.service.buffered_bytes for server in self.servers())
        text = "Bytes kept for peers: unfinished requests, answers they do not read."
        yield with_unit(meter.gauge("pyromq_buffered_bytes", text, buffered), "bytes")
        text = "Records that a loop of the broker could not handle and put aside."
        yield meter.gauge("pyromq_quarantined", text, len(self.quarantine))
        text = "Times that a loop of the broker died and began again."
        yield meter.counter("pyromq_loop_faults_total", text, [(meter.labels.of(), self.loops.restarts)])
        text = "Sends that are remembered, so that a repeat is stored once."
        yield meter.gauge("pyromq_duplicate_window_sends", text, state.duplicates())
        registered = [(name, 1 if word == REGISTERED else 0) for name, word in state.name_servers().items()]
        text = "1 while the name server knows this broker."
        yield meter.gauge("pyromq_namesrv_registered", text, by_label(meter, "name_server", registered))
        ends_ms = state.certificate_ends_ms()
        if ends_ms is not None:
            text, left = "Seconds until the certificate ends.", (ends_ms - state.now_ms()) / 1000
            yield with_unit(meter.gauge("pyromq_certificate_ends_seconds", text, left), "seconds")

    def _times(self, name: str, codes: Iterable[int], text: str) -> Family:
        found: dict[str, TimeHistogram] = {}
        for server in self.servers():
            for kind, times in server.service.times.all():
                if kind.code not in codes or kind.held:
                    continue
                outcome = "done" if kind.response == ResponseCode.SUCCESS else "other"
                sums = found.setdefault(outcome, TimeHistogram())
                sums.counts = [mine + its for mine, its in zip(sums.counts, times.counts, strict=True)]
                sums.total_s += times.total_s
        series = [
            (self.meter.labels.of(outcome=outcome), HistogramValue(times.counts, times.total_s))
            for outcome, times in found.items()
        ]
        return Family(name, MetricKind.HISTOGRAM, text, series, bounds=BOUNDS)

    def _refused(self) -> Series:
        counts = {("send", limit): count for limit, count in self.admission.refused.items()}
        for server in self.servers():
            for (kind, limit), count in server.service.refused.items():
                key = kind.name.lower(), limit
                counts[key] = counts.get(key, 0) + count
        of = self.meter.labels.of
        return [(of(request_class=kind, limit=limit), count) for (kind, limit), count in counts.items()]


def _sum(one: HistogramValue, other: HistogramValue) -> HistogramValue:
    sums = [mine + its for mine, its in zip(one.counts, other.counts, strict=True)]
    return HistogramValue(sums, one.total + other.total)


def _in_ms(counts: list[int], bounds_ms: Sequence[int]) -> list[int]:
    """Return counts of `BOUNDS` as counts of other bounds; one that is between two of ours goes to the next."""
    found, place = [0] * (len(bounds_ms) + 1), 0
    for bound, count in zip((*BOUNDS, float("inf")), counts, strict=True):
        while place < len(bounds_ms) and bound * 1000 > bounds_ms[place] * 1.000001:
            place += 1
        found[place] += count
    return found
