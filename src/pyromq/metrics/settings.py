"""Settings of metrics, with Java's keys and defaults. Broker, name server and proxy have them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..config import setting
from ..errors import ConfigError

PORT = 5557
NO_PORT = -1


class Exporter(Enum):
    DISABLE = "DISABLE"
    OTLP_GRPC = "OTLP_GRPC"
    PROM = "PROM"
    LOG = "LOG"


class Detail(Enum):
    FULL = "full"
    TOPIC = "topic"  # no series of groups
    BROKER = "broker"  # none of topics, either


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """How metrics leave a daemon."""

    metrics_exporter_type: Exporter = setting(
        Exporter.DISABLE,
        flag=True,
        help="how metrics leave: PROM serves /metrics, OTLP_GRPC sends them to a collector, LOG writes them into the "
        "log; DISABLE",
    )
    metrics_prom_exporter_port: int = setting(
        PORT, low=0, high=65535, flag=True, help="port of /metrics; 0 takes a free one"
    )
    metrics_prom_exporter_host: str = setting(
        "", help="address of /metrics; empty: loopback. Nobody who asks there says who he is"
    )
    metrics_grpc_exporter_target: str = setting(
        "", help="host:port or http(s)://host:port of a collector that takes OTLP over gRPC"
    )
    metrics_grpc_exporter_header: str = setting("", help="metadata for it, name:value separated by commas")
    metric_grpc_exporter_time_out_in_mills: int = setting(3_000, low=1, wide=True, help="ms that it may take to answer")
    metric_grpc_exporter_interval_in_mills: int = setting(
        60_000, low=100, wide=True, help="ms between two exports over OTLP"
    )
    metric_logging_exporter_interval_in_mills: int = setting(
        10_000, low=100, wide=True, help="ms between two exports into the log"
    )
    metrics_export_batch_max_data_points: int = setting(1_000, low=1, help="data points of one message over OTLP")
    metrics_label: str = setting("", help="labels for every series, name:value separated by commas")
    metrics_in_delta: bool = setting(
        False, help="OTLP and LOG carry what was added since the last export, not the sums since the start"
    )
    metrics_otel_cardinality_limit: int = setting(
        50_000, low=1, help="series of one metric; the smallest beyond it share one row, otel_metric_overflow"
    )
    metrics_detail: Detail = setting(
        Detail.FULL, help="full; topic leaves out series of groups, broker those of topics, too"
    )

    @property
    def extra_labels(self) -> dict[str, str]:
        return pairs_of(self.metrics_label, "metricsLabel")

    @property
    def metadata(self) -> dict[str, str]:
        return pairs_of(self.metrics_grpc_exporter_header, "metricsGrpcExporterHeader")

    def check_metrics(self) -> None:
        """Raise ConfigError for settings that would export nothing."""
        _ = self.extra_labels, self.metadata
        if self.metrics_exporter_type is Exporter.OTLP_GRPC and not self.metrics_grpc_exporter_target:
            raise ConfigError(
                "metricsExporterType = OTLP_GRPC needs the address of a collector: set metricsGrpcExporterTarget to "
                "its host:port, 127.0.0.1:4317 say"
            )


def pairs_of(text: str, key: str) -> dict[str, str]:
    """Return `name:value,name:value` as a dictionary; what is after the first colon is the value."""
    found = {}
    for pair in text.split(","):
        name, colon, value = pair.strip().partition(":")
        if pair.strip() and (not colon or not name.strip()):
            raise ConfigError(f"{key} = {text}: {pair.strip()!r} is not name:value")
        if pair.strip():
            found[name.strip()] = value.strip()
    return found
