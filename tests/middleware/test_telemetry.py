"""OpenTelemetry spans joined across sends and handlers, and Prometheus metrics of both."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry

from pyromq.client.core.retry import Reject, RetryLater
from pyromq.client.errors import NotSupported
from pyromq.client.received import Received
from pyromq.middleware.opentelemetry import OpenTelemetry
from pyromq.middleware.prometheus import Prometheus
from pyromq.model.group import ConsumeFromWhere
from pyromq.testing.broker import RmqBroker
from pyromq.text.extras import install_command


class Traced:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.layer = OpenTelemetry(provider)

    def named(self, name: str) -> list[Any]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]


async def test_a_handler_s_span_continues_the_sender_s_across_clients(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("orders")
    traced = Traced()
    sender = await rmq_broker.client(middleware=[traced.layer])
    reader = await rmq_broker.client(middleware=[traced.layer])
    seen: list[str] = []

    async def handle(msg: Received) -> None:
        seen.append(msg.properties["traceparent"])

    async with sender.producer() as producer, reader.push_consumer("orders", handle, group="billing"):
        await rmq_broker.settle()
        result = await producer.send("orders", b"x", tag="paid", keys=["k1", "k2"])
        await rmq_broker.settle()
    (sent,), (handled,) = traced.named("send orders"), traced.named("process orders")
    assert (sent.kind, handled.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert handled.context.trace_id == sent.context.trace_id
    assert handled.parent.span_id == sent.context.span_id
    assert seen[0].split("-")[1] == f"{sent.context.trace_id:032x}"
    assert dict(sent.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "orders",
        "messaging.operation.type": "send",
        "messaging.message.id": result.message_id,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "messaging.destination.partition.id": f"broker-a/{result.queue.queue_id}",
    }
    assert handled.attributes["messaging.consumer.group.name"] == "billing"


async def test_faults_are_on_the_spans_and_a_batch_is_linked_to_its_senders(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("orders", 1)
    traced = Traced()
    client = await rmq_broker.client(middleware=[traced.layer])

    async def handle(messages: list[Received]) -> list[Received]:
        return messages[:1]

    async with client.producer() as producer:
        await producer.send("orders", b"1")
        await producer.send("orders", b"2")
        consumer = client.push_consumer("orders", handle, group="g", max_batch=10, begin=ConsumeFromWhere.FIRST_OFFSET)
        async with consumer:
            await rmq_broker.settle()
        with pytest.raises(Exception, match="empty body"):
            await producer.send("orders", b"")
    (handled,) = traced.named("process orders")
    assert [link.context.span_id for link in handled.links] == [
        each.context.span_id for each in traced.named("send orders")[:2]
    ]
    assert handled.attributes["messaging.batch.message_count"] == 2
    assert handled.status.status_code is StatusCode.ERROR
    assert traced.named("send orders")[2].status.status_code is StatusCode.ERROR


async def test_metrics_count_sends_and_handlers_by_topic_group_and_outcome(rmq_broker: RmqBroker) -> None:
    await rmq_broker.create_topic("orders", 1)
    registry = CollectorRegistry()
    client = await rmq_broker.client(middleware=[Prometheus(registry, clock=rmq_broker.clock)])
    ends: dict[bytes, Exception] = {b"never": Reject(), b"later": RetryLater(3600), b"broken": ValueError("no")}
    in_work: list[float | None] = []

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    async def handle(msg: Received) -> None:
        in_work.append(value("pyromq_client_in_work", topic="orders", group="g"))
        if msg.body in ends:
            raise ends[msg.body]

    async with client.producer() as producer, client.push_consumer("orders", handle, group="g", concurrency=1):
        await rmq_broker.settle()
        await producer.send_many("orders", [b"good", *ends])
        await rmq_broker.settle()
        with pytest.raises(Exception, match="empty body"):
            await producer.send("orders", b"")
    assert value("pyromq_client_sent_total", topic="orders", outcome="sent") == 4
    assert value("pyromq_client_sent_total", topic="orders", outcome="failed") == 1
    assert value("pyromq_client_send_seconds_count", topic="orders") == 2
    for outcome in ("done", "rejected", "later", "failed"):
        assert value("pyromq_client_handled_total", topic="orders", group="g", outcome=outcome) == 1
    assert value("pyromq_client_handle_seconds_count", topic="orders", group="g") == 4
    assert in_work == [1, 1, 1, 1]
    assert value("pyromq_client_in_work", topic="orders", group="g") == 0


@pytest.mark.parametrize(
    ("layer", "package", "extra"),
    [(OpenTelemetry, "opentelemetry", "otel"), (Prometheus, "prometheus_client", "prometheus")],
)
def test_without_the_package_the_error_says_what_to_install(
    layer: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotSupported, match=re.escape(f"Type: {install_command(extra)}")):
        layer()
