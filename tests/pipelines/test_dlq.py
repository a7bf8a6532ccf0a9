"""Dead letters of a real group: told by topic and tag, and sent again to where they failed."""

from __future__ import annotations

from pathlib import Path
from threading import Semaphore

import pytest
from pyspark.sql import SparkSession

import pyromq
from pyromq.ambient import pause
from pyromq.client.core.retry import Reject
from pyromq.client.errors import TopicNotFound
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.model.message_trace import Consumed, Outcome
from pyromq.pipelines import sending
from pyromq.pipelines.dlq import redrive, report
from pyromq.protocol.trace import encode_trace
from pyromq.spark.cluster import Cluster
from pyromq.spark.options import Use, connection_options
from tests.pipelines.faults import Killed, after
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers


def reject_all(servers: Servers, topic: str, group: str, count: int) -> None:
    """A consumer that wants none of them."""
    seen = Semaphore(0)

    def handle(message: Received) -> None:
        seen.release()
        raise Reject

    with pyromq.sync.connect(servers.namesrv) as client:
        begin = ConsumeFromWhere.FIRST_OFFSET
        with client.push_consumer(topic, handle, group=group, begin=begin):
            for _ in range(count):
                assert seen.acquire(timeout=60)
            until_dead(servers, f"%DLQ%{group}", count)


def until_dead(servers: Servers, topic: str, count: int) -> None:
    with Cluster(connection_options({"nameServer": servers.namesrv}, Use.BATCH)) as cluster:
        for _ in range(1200):
            try:
                held = cluster.bounds(cluster.queues([topic]))
            except TopicNotFound:
                held = {}
            if sum(bounds.high for bounds in held.values()) >= count:
                return
            pause(0.05)
    raise AssertionError(f"{topic} did not fill")


def failures(ids: list[str], group: str) -> bytes:
    """What a consumer with tracing switched on tells when its listener has raised."""
    return encode_trace(
        [
            Consumed(message_id=each, request_id=f"r{each}", group=group, success=False, outcome=Outcome.EXCEPTION)
            for each in ids
        ]
    )


def test_dead_letters_are_told_and_a_selection_is_sent_again(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    servers.send(topic, 15, tag="open")
    servers.send(topic, 5, first=15, tag="paid")
    reject_all(servers, topic, group, 20)
    source, folder = {"nameServer": servers.namesrv}, str(tmp_path / "redrive")
    traces = f"{topic}-traces"
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        producer.send(traces, failures([row.msgId for row in rows(servers, topic) if row.tags == "paid"], group))
    told = report(spark, source, group, traces=traces)
    table = told.tables[0]
    assert [(row["origin"], row["tag"], row["messages"]) for row in table.rows] == [
        (topic, "open", 15),
        (topic, "paid", 5),
    ]
    assert [(row["last"], row["messages"]) for row in told.tables[2].rows] == [(None, 15), ("exception", 5)]
    assert sum(told.plots[0].series[group].values()) == 20
    with after(sending, "send"), pytest.raises(Exception, match=Killed):
        redrive(spark, source, source, group, folder, "tags = 'paid'")
    redrive(spark, source, source, group, folder, "tags = 'paid'")
    done = redrive(spark, source, source, group, folder, "tags = 'paid'")
    assert done.facts["messages"] == 0  # nothing has died since
    found = rows(servers, topic)
    again = [row for row in found if dict(row.properties).get("REDRIVE_GROUP") == group]
    assert (len(found), numbers(again)) == (25, list(range(15, 20)))
