"""OTLP to a server that grpcio runs, read by OpenTelemetry's own message classes; and metrics as log lines."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from pyromq.ambient import SystemClock
from pyromq.metrics.families import Family, HistogramValue, LabelSets, MetricKind
from pyromq.metrics.log_export import as_json
from pyromq.metrics.otlp import OtlpExport, address_of
from pyromq.metrics.points import Course
from pyromq.metrics.settings import Exporter, MetricsSettings
from pyromq.testing.clock import ManualClock

LABELS = LabelSets({"cluster": "c"})


class Counts:
    """A daemon's counters, which a test moves."""

    def __init__(self) -> None:
        self.sent, self.spread = 0, [0, 0, 0]

    async def families(self) -> AsyncIterator[Family]:
        sent = [(LABELS.of(topic=topic), self.sent) for topic in ("T", "U", "V")]
        yield Family("sent_total", MetricKind.COUNTER, "Sent.", sent)
        spread = HistogramValue(list(self.spread), 1.5)
        name = "age_milliseconds"
        series = [(LABELS.of(), spread)]
        yield Family(name, MetricKind.HISTOGRAM, "Age.", series, "age", "milliseconds", (1, 5))
        yield Family("lag", MetricKind.GAUGE, "Lag.", [(LABELS.of(), 7)])


class Collector:
    """A gRPC server with the one method of a collector that takes metrics."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.metadata: list[dict[str, str]] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        method = grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=ExportMetricsServiceRequest.FromString,
            response_serializer=ExportMetricsServiceResponse.SerializeToString,
        )
        name = "opentelemetry.proto.collector.metrics.v1.MetricsService"
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Export": method}),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _export(self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext) -> object:
        self.metadata.append({pair.key: pair.value for pair in context.invocation_metadata()})
        self.requests.append(request)
        return ExportMetricsServiceResponse()

    def stop(self) -> None:
        self._server.stop(None).wait()


def points_of(collector: Collector) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for request in collector.requests:
        for metric in request.resource_metrics[0].scope_metrics[0].metrics:
            data = getattr(metric, str(metric.WhichOneof("data")))
            found.setdefault(metric.name, []).extend(data.data_points)
    return found


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    made = Collector()
    yield made
    await asyncio.to_thread(made.stop)


def settings_for(collector: Collector, **more: object) -> MetricsSettings:
    base = {
        "metrics_exporter_type": Exporter.OTLP_GRPC,
        "metrics_grpc_exporter_target": f"http://127.0.0.1:{collector.port}",
        "metric_grpc_exporter_interval_in_mills": 1_000,
    }
    return MetricsSettings(**{**base, **more})  # type: ignore[arg-type]


async def test_a_collector_gets_every_metric(collector: Collector) -> None:
    counts, clock = Counts(), SystemClock()
    counts.sent, counts.spread = 5, [1, 0, 2]
    header = "Authorization:Bearer a:b,x-tenant:7"
    settings = settings_for(collector, metrics_grpc_exporter_header=header, metrics_export_batch_max_data_points=2)
    export = OtlpExport(settings, counts.families, clock, random.Random(1))
    await export.close()  # exports what is left
    assert [len(request.resource_metrics) for request in collector.requests] == [1, 1, 1]  # five points, two at a time
    found = points_of(collector)
    assert sorted(found) == ["age", "lag", "sent_total"]
    assert [point.as_double for point in found["sent_total"]] == [5, 5, 5]
    attributes = {pair.key: pair.value.string_value for pair in found["sent_total"][1].attributes}
    assert attributes == {"cluster": "c", "topic": "U"}
    (age,) = found["age"]
    assert (age.count, age.sum, list(age.bucket_counts), list(age.explicit_bounds)) == (3, 1.5, [1, 0, 2], [1, 5])
    first = collector.requests[0].resource_metrics[0].scope_metrics[0].metrics[0]
    assert (first.sum.aggregation_temporality, first.sum.is_monotonic) == (2, True)
    assert 0 < age.start_time_unix_nano <= age.time_unix_nano
    assert collector.metadata[0]["authorization"] == "Bearer a:b"
    assert collector.metadata[0]["x-tenant"] == "7"


async def test_what_was_added_since_the_last_export(collector: Collector) -> None:
    counts = Counts()
    counts.sent = 5
    course = Course(counts.families, ManualClock(), in_delta=True)
    first = await course.next()
    counts.sent, counts.spread = 8, [0, 4, 0]
    second = await course.next()
    sent = [points.families[0].series[0] for points in (first, second)]
    assert [value for _, value in sent] == [5, 3]
    assert dict(sent[0][0].pairs)["aggregation"] == "delta"
    assert second.families[1].series[0][1] == HistogramValue([0, 4, 0], 0.0)
    assert second.families[2].series[0][1] == 7  # a gauge is what it is
    assert second.begun_ns == first.now_ns


async def test_a_collector_that_is_away_stops_nothing(collector: Collector) -> None:
    settings = settings_for(collector, metrics_grpc_exporter_target="http://127.0.0.1:1")
    export = OtlpExport(settings, Counts().families, SystemClock(), random.Random(1))
    await export.close()
    assert not collector.requests


@pytest.mark.parametrize(
    ("target", "address", "is_tls"),
    [
        ("collector:4317", "collector:4317", True),
        ("http://collector:4317/", "collector:4317", False),
        ("https://collector:4317", "collector:4317", True),
    ],
)
def test_where_a_collector_is(target: str, address: str, is_tls: bool) -> None:
    assert address_of(target) == (address, is_tls)


async def test_a_log_line_is_otlp_in_json() -> None:
    points = await Course(Counts().families, ManualClock(), in_delta=False).next()
    age = json.loads(as_json(points.families[1], points, in_delta=False))
    assert (age["name"], age["unit"], age["histogram"]["aggregationTemporality"]) == ("age", "milliseconds", 2)
    assert age["histogram"]["dataPoints"][0]["explicitBounds"] == [1, 5]
    sent = json.loads(as_json(points.families[0], points, in_delta=False))
    assert sent["sum"]["isMonotonic"] is True
    assert sent["sum"]["dataPoints"][1]["attributes"][1] == {"key": "topic", "value": {"stringValue": "U"}}
