"""Metrics: what a scrape asks, and how it leaves. Made last, since it looks at everything."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ... import __version__
from ...errors import ConfigError
from ...metrics.exporting import Exporting, MetricsSource
from ...metrics.families import Collect, LabelSets
from ...metrics.limiting import Limiting
from ...metrics.settings import MetricsSettings
from ...transport.certificates.reading import read_certificate
from ...transport.listening import Listening
from ...transport.server import Server
from ...transport.turns.slices import Slices
from ..metrics.clients import ClientMetrics
from ..metrics.collect import BrokerMetrics
from ..metrics.meter import Meter
from ..metrics.progress import ProgressMetrics
from ..metrics.serving import ServingMetrics, ServingState
from ..metrics.settings import MetricGroups
from ..metrics.storage import StorageMetrics, TableMetrics
from ..metrics.traffic import TrafficMetrics
from ..metrics.waiting import PopMetrics, RetryMetrics, TimerFigures, TransactionMetrics
from .delivery import RetryParts, TimingParts, TransactionParts
from .foundation import Foundation
from .naming import Naming
from .popping import PopParts
from .serving import SendParts


class MetricsParts:
    """Event loop only."""

    def __init__(
        self,
        base: Foundation,
        naming: Naming,
        sends: SendParts,
        timing: TimingParts,
        transactions: TransactionParts,
        retries: RetryParts,
        pops: PopParts,
        pop_figures: Callable[[], Mapping[str, str]],
        servers: Callable[[], Iterable[Server]],
        troubles: Callable[[], list[str]],
        listening: Listening | None,
    ) -> None:
        environment, config = base.environment, base.environment.config
        settings, clock = config.part(MetricsSettings), base.clock
        cluster, broker = config.broker_cluster_name, config.broker_name
        own = {"cluster": cluster, "node_type": "broker", "node_id": broker, "otel_scope_name": "broker-meter"}
        meter = Meter(LabelSets({**settings.extra_labels, **own}), Slices(clock), cluster, broker)
        limiting = Limiting(settings.metrics_otel_cardinality_limit)
        now_ms, store, offsets, events = clock.now_ms, base.store, base.offsets, base.counters.events
        certificate = _Certificate(config.tls_server_cert_path)  # type: ignore[attr-defined]
        window = sends.duplicates
        serving = ServingMetrics(
            meter,
            base.live,
            base.counters,
            servers,
            sends.admission,
            base.statistics.lag,
            environment.loops,
            base.storage.quarantine,
            ServingState(
                version=__version__,
                loop=_loop_name(),
                python=platform.python_version(),
                troubles=troubles,
                name_servers=naming.registration.state,
                certificate_ends_ms=certificate.ends_ms,
                duplicates=lambda: 0 if window is None else len(window),
                now_ms=now_ms,
            ),
        )
        given = pops.order.table.given_end
        wanted = config.part(MetricGroups)
        progress = ProgressMetrics(meter, base.topics, offsets, base.consumers, store, now_ms, given)
        retried = RetryMetrics(meter, store, retries.dead_letters, events, offsets.groups, now_ms)
        ended = TransactionMetrics(meter, transactions.halves, not environment.is_slave, events, now_ms)
        stored = StorageMetrics(meter, base.live, store, environment.disk, now_ms)
        timed = TimerFigures(meter, timing.timers, timing.timer_store, now_ms)
        tables = TableMetrics(meter, base.live, lambda: len(base.topics), lambda: len(base.groups))
        connected = ClientMetrics(meter, base.consumers, base.producers, offsets)
        groups: list[tuple[bool, Collect]] = [
            (wanted.enable_stats_metrics, tables.families),
            (wanted.enable_request_metrics, serving.requests),
            (wanted.enable_request_metrics, serving.creations),
            (wanted.enable_request_metrics, TrafficMetrics(meter, base.counters, base.topics).families),
            (wanted.enable_connection_metrics, connected.families),
            (wanted.enable_lag_and_dlq_metrics, progress.families),
            (wanted.enable_lag_and_dlq_metrics, retried.families),
            (wanted.enable_transaction_metrics, ended.families),
            (wanted.enable_remoting_metrics, serving.latencies),
            (wanted.enable_message_store_metrics, stored.families),
            (wanted.enable_message_store_metrics, timed.families),
            (wanted.enable_pop_metrics, PopMetrics(meter, pop_figures).families),
            (True, serving.own),
        ]
        parts = [part for is_wanted, part in groups if is_wanted]
        self.metrics = BrokerMetrics(meter, parts, clock.monotonic, lambda: limiting.left_out)
        self.exporting = Exporting(
            settings,
            listening,
            MetricsSource(self.metrics.collect, limiting, troubles),
            clock=clock,
            rng=environment.rng,
            run_blocking=environment.run_blocking,
        )


class _Certificate:
    """When the certificate of the listeners ends; read anew when its file has changed."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._changed = 0.0
        self._ends_ms: int | None = None

    def ends_ms(self) -> int | None:
        if self._file is None:
            return None
        try:
            changed = self._file.stat().st_mtime
            if changed != self._changed:
                self._ends_ms = round(read_certificate(self._file).until.timestamp() * 1000)
                self._changed = changed
        except (OSError, ConfigError):
            return self._ends_ms
        return self._ends_ms


def _loop_name() -> str:
    return "uvloop" if "uvloop" in sys.modules else "asyncio"
