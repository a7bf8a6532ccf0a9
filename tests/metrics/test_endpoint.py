"""The listener of scrapers over real sockets, with families of a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConfigError
from pyromq.metrics.endpoint import MOST_CONNECTIONS, MetricsEndpoint
from pyromq.metrics.exporting import Exporting
from pyromq.metrics.families import Family, HistogramValue, LabelSets, MetricKind
from pyromq.metrics.limiting import Limiting
from pyromq.metrics.settings import Detail, Exporter, MetricsSettings
from pyromq.store.message_store import run_at_once
from pyromq.transport.address import parse_address
from pyromq.transport.listening import bind
from tests.metrics.scraping import ask, get, scrape, value, values

LABELS = LabelSets({"cluster": "c"})
HOSTILE = 'a"b\\c\nd\u202e{}'


async def families() -> AsyncIterator[Family]:
    yield Family("a_total", MetricKind.COUNTER, "A\nhelp \\ text.", [(LABELS.of(topic=HOSTILE), 3)])
    counts = HistogramValue([1, 0, 2], 7.5)
    yield Family("b_seconds", MetricKind.HISTOGRAM, "B.", [(LABELS.of(), counts)], unit="seconds", bounds=(0.5, 1))
    many = [(LABELS.of(number=str(number)), number) for number in range(5_000)]
    yield Family("c", MetricKind.GAUGE, "C.", many)
    yield Family("nothing", MetricKind.GAUGE, "No series, so no line.", [])


@pytest.fixture
async def address() -> AsyncIterator[str]:
    endpoint = MetricsEndpoint(families, Limiting(100_000), Detail.FULL, list, SystemClock(), run_at_once)
    listening = await bind("127.0.0.1", 0)
    endpoint.accept_on(listening)
    yield listening.address
    await endpoint.stop()


async def test_what_prometheus_reads_is_what_was_written(address: str) -> None:
    found = await scrape(address)
    assert value(found, "a_total", topic=HOSTILE, cluster="c") == 3
    assert [value(found, "b_seconds_bucket", le=bound) for bound in ("0.5", "1.0", "+Inf")] == [1, 1, 3]
    assert (value(found, "b_seconds_sum"), value(found, "b_seconds_count")) == (7.5, 3)
    assert sorted(values(found, "c")) == list(range(5_000))
    assert "nothing" not in found
    assert (found["a"].documentation, found["c"].type) == ("A\nhelp \\ text.", "gauge")


async def test_some_names_only(address: str) -> None:
    found = await scrape(address, "/metrics?name[]=b_seconds&name[]=nothing")
    assert list(found) == ["b_seconds"]


async def test_a_connection_serves_many_requests_in_order(address: str) -> None:
    one = b"GET /-/healthy HTTP/1.1\r\n\r\n"
    last = b"GET /-/ready HTTP/1.1\r\nConnection: close\r\n\r\n"
    reply = await ask(address, one * 3 + last)
    assert reply.body.count(b"healthy\n") == 3
    assert reply.body.endswith(b"ready\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        (b"DELETE /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00" + b"\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9_000, 431),
    ],
)
async def test_what_is_refused(address: str, head: bytes, status: int) -> None:
    assert (await ask(address, head)).status == status
    assert (await get(address, "/-/healthy")).status == 200


async def test_a_head_request_gets_no_body(address: str) -> None:
    reply = await ask(address, b"HEAD /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-length"] != "0"


async def test_there_is_room_for_a_few_connections_and_again_when_they_leave(address: str) -> None:
    host, port = parse_address(address)
    held = [await asyncio.open_connection(host, port) for _ in range(MOST_CONNECTIONS)]
    for _, writer in held:
        writer.write(b"GET /-/healthy HTTP/1.1\r\n\r\n")
    for reader, _ in held:
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    reader, writer = await asyncio.open_connection(host, port)
    assert await reader.read() == b""
    for _, one in [*held, (reader, writer)]:
        one.close()
        await one.wait_closed()
    while True:  # until the other side has seen them leave
        try:
            assert (await get(address, "/-/healthy")).status == 200
            return
        except (IndexError, ConnectionError):
            continue


def test_settings_that_would_export_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="metricsGrpcExporterTarget"):
        MetricsSettings(metrics_exporter_type=Exporter.OTLP_GRPC).check_metrics()
    with pytest.raises(ConfigError, match="'zone' is not name:value"):
        MetricsSettings(metrics_label="zone").check_metrics()
    assert MetricsSettings(metrics_label=" a:b , c:d:e,").extra_labels == {"a": "b", "c": "d:e"}


async def test_strangers_are_not_served_without_a_word() -> None:
    settings = MetricsSettings(
        metrics_exporter_type=Exporter.PROM, metrics_prom_exporter_port=0, metrics_prom_exporter_host="0.0.0.0"
    )
    with pytest.raises(ConfigError, match="other machines might read"):
        await Exporting.bind(settings, allows_strangers=False)
    listening = await Exporting.bind(settings, allows_strangers=True)
    assert listening is not None
    taken = parse_address(listening.address)[1]
    again = MetricsSettings(metrics_exporter_type=Exporter.PROM, metrics_prom_exporter_port=taken)
    listening.listen()
    with pytest.raises(ConfigError, match="metricsPromExporterPort names another"):
        await Exporting.bind(again, allows_strangers=False)
    listening.close()
