"""Tracing by real Java clients on our broker: what they write is read back, and mqadmin finds it by message id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyromq import sync
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message_trace import MessageKind, MessageTrace, Traced, assemble, message_ids
from pyromq.protocol.requests import RequestCode
from pyromq.protocol.trace import answered_events, trace_query

from . import wire
from .conftest import OwnCluster, is_known
from .peers import java, ours
from .waiting import eventually

pytestmark = pytest.mark.interop

GetClient = Callable[..., java.Client]
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
GET_MAX_OFFSET = 30


@pytest.fixture(scope="module")
def traced(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with ExitStack() as stack:
        name_server = ours.NameServer(home("trace-namesrv"))
        stack.callback(name_server.kill)
        settings = {"traceTopicEnable": "true", "regionId": "Far"}
        settings |= {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
        broker = ours.Broker(home("trace-broker"), [name_server.address], settings, name="broker-t")
        stack.callback(lambda: broker.kill())
        cluster = OwnCluster(name_server, broker)
        eventually(lambda: is_known(cluster.servers, broker.name), "the broker has registered")
        yield cluster


@pytest.fixture(params=[("5.5.0", False), ("4.9.8", True)], ids=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, java_client: GetClient) -> java.Client:
    version, binary_headers = request.param
    return java_client(version, binary_headers=binary_headers)


def events(cluster: OwnCluster, topic: str, key: str) -> list[Traced]:
    """All events in trace messages that the broker's index knows under a message id or key."""
    answer = wire.ask(cluster.broker.address, RequestCode.QUERY_MESSAGE, trace_query(topic, key).to_fields())
    return answered_events(answer.body) if answer.code == 0 else []


@pytest.mark.parametrize("trace_topic", [TRACE_TOPIC, "CustomTraces"])
def test_a_message_is_traced_from_its_producer_to_its_consumer(
    trace_topic: str, client: java.Client, traced: OwnCluster
) -> None:
    topic = traced.new_topic(queues=1)
    if trace_topic != TRACE_TOPIC:
        wire.create_topic(traced.broker.address, trace_topic, 1)
    group = f"GID_{topic}"
    with client.consuming("push", traced.servers, topic, group, trace=trace_topic) as consumer:
        sent = client.send_by("sync", traced.servers, topic, [f"key-{topic}"], trace=trace_topic)[0]
        eventually(lambda: consumer.bodies() == [f"key-{topic}"], "it has arrived")

        def story() -> MessageTrace:
            return assemble(events(traced, trace_topic, sent["id"]), sent["id"])

        eventually(lambda: bool(story().sent) and any(one.after for one in story().deliveries), "both were traced")
        found = story()
    publication, delivery = found.sent[0], found.deliveries[0]
    assert (publication.topic, publication.tags, publication.keys) == (topic, "TagA", f"key-{topic}")
    assert (publication.region, publication.success, publication.body_length) == ("Far", True, len(f"key-{topic}"))
    assert publication.offset_id == sent["place"]
    assert publication.store_host == traced.broker.address
    assert delivery.group == group
    assert delivery.after is not None
    assert delivery.after.success
    assert message_ids(events(traced, trace_topic, f"key-{topic}"), f"key-{topic}") == [sent["id"]]


def test_both_steps_of_a_transaction_are_traced(client: java.Client, traced: OwnCluster) -> None:
    """A check-back is one more end; the broker asks after a second here."""
    topic = traced.new_topic(queues=1)
    producer = client.transacting(traced.servers, topic, f"PID_{topic}", trace=TRACE_TOPIC)
    try:
        bodies = ["commit 1", "rollback 2", "unknown commit 3"]
        sent = producer.send(*bodies)

        def ends(number: int) -> list[tuple[str, bool]]:
            found = assemble(events(traced, TRACE_TOPIC, sent[number]["id"]), sent[number]["id"]).ends
            return [(one.state, one.from_check) for one in found]

        eventually(lambda: ends(0) == [("COMMIT_MESSAGE", False)], "the commit was traced")
        eventually(lambda: ends(1) == [("ROLLBACK_MESSAGE", False)], "the rollback was traced")
        eventually(lambda: len(ends(2)) == 2, "the broker has asked, and the answer was traced")
        assert ends(2) == [("UNKNOW", False), ("COMMIT_MESSAGE", True)]
        half = assemble(events(traced, TRACE_TOPIC, sent[0]["id"]), sent[0]["id"])
    finally:
        producer.stop()
    assert [(one.kind, one.topic, one.success) for one in half.sent] == [(MessageKind.HALF, topic, True)]
    assert (half.ends[0].tags, half.ends[0].group) == ("TagT", f"PID_{topic}")
    assert half.ends[0].transaction_id == sent[0]["id"]


def test_mqadmin_shows_a_trace(client: java.Client, traced: OwnCluster, admin: java.Admin) -> None:
    topic = traced.new_topic(queues=1)
    sent = client.send_by("sync", traced.servers, topic, [f"shown-{topic}"], trace=TRACE_TOPIC)[0]
    eventually(lambda: bool(events(traced, TRACE_TOPIC, sent["id"])), "it was traced")
    printed = admin.run("QueryMsgTraceById", "-n", traced.servers, "-i", sent["id"])
    assert "Pub" in printed, printed
    assert "success" in printed, printed


def test_mqadmin_shows_what_our_own_client_traced(traced: OwnCluster, admin: java.Admin) -> None:
    topic = traced.new_topic(queues=1)
    taken: list[str] = []
    with sync.connect(traced.servers, trace=True) as mine, mine.producer(f"PID_{topic}") as producer:
        first = ConsumeFromWhere.FIRST_OFFSET
        with mine.push_consumer(topic, lambda msg: taken.append(msg.id), group=f"GID_{topic}", begin=first):
            sent = producer.send(topic, b"hello", keys=["k"])
            eventually(lambda: taken == [sent.message_id], "it has arrived")
    printed = admin.run("QueryMsgTraceById", "-n", traced.servers, "-i", sent.message_id)
    assert f"PID_{topic}" in printed, printed
    assert f"GID_{topic}" in printed, printed
    assert "Pub" in printed, printed
    assert "Sub" in printed, printed
    assert printed.count("success") == 2, printed


def test_the_switch_turns_tracing_off(client: java.Client, home: Callable[[str], Path]) -> None:
    """traceOn=false goes out with every answer, and clients then trace nothing."""
    with ExitStack() as stack:
        name_server = ours.NameServer(home("untraced-namesrv"))
        stack.callback(name_server.kill)
        settings = {"traceTopicEnable": "true", "traceOn": "false"}
        broker = ours.Broker(home("untraced-broker"), [name_server.address], settings, name="broker-u")
        stack.callback(broker.kill)
        cluster = OwnCluster(name_server, broker)
        eventually(lambda: is_known(cluster.servers, broker.name), "the broker has registered")
        topic = cluster.new_topic(queues=1)
        # A producer's end flushes what it has to trace.
        client.send_by("sync", cluster.servers, topic, ["a", "b"], trace=TRACE_TOPIC)
        ends = wire.ask(broker.address, GET_MAX_OFFSET, {"topic": TRACE_TOPIC, "queueId": "0"})
        assert ends.fields["offset"] == "0"
