"""Dead letters of a real group: told by topic and tag, and sent again to where they failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyromq
from pyromq.ambient import pause
from pyromq.client.core.retry import Reject, Retry
from pyromq.client.errors import TopicNotFound
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere
from pyromq.pipelines.dlq import redrive, report
from pyromq.pipelines.run import sending
from pyromq.pipelines.trace import events
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, connection_options
from tests.pipelines.faults import Killed, after
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers


def reject_all(servers: Servers, topic: str, group: str, count: int, *, traces: str = "") -> None:
    """A consumer that wants none of them, until the group has so many dead letters. It fails with `paid` ones, and
    tells how it ended with each in the topic `traces`."""

    def handle(message: Received) -> None:
        raise ValueError("no such shop") if message.tag == "paid" else Reject

    if traces:
        servers.send(traces, 1)  # makes the topic
    with pyromq.sync.connect(servers.namesrv, trace=traces or False) as client:
        begin, once = ConsumeFromWhere.FIRST_OFFSET, Retry(times=0)
        with client.push_consumer(topic, handle, group=group, begin=begin, retry=once):
            until_dead(servers, f"%DLQ%{group}", count)
            if traces:  # a client that stops leaves out what takes too long
                until_told(servers, traces, count)


def until_told(servers: Servers, traces: str, count: int) -> None:
    """Until consumers have told of the end of so many messages."""
    for _ in range(1200):
        told = [event[0] for event in events(row.body for row in rows(servers, traces, ["body"]))]
        if told.count("ended") >= count:
            return
        pause(0.05)
    raise AssertionError(f"{traces} did not fill")


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


def test_dead_letters_are_told_and_a_selection_is_sent_again(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    group = f"g-{topic}"
    servers.send(topic, 15, tag="open")
    servers.send(topic, 5, first=15, tag="paid")
    servers.send(f"{topic}-quiet", 3)
    traces = f"{topic}-traces"
    reject_all(servers, topic, group, 20, traces=traces)
    reject_all(servers, f"{topic}-quiet", group, 23)  # of these nobody tells why
    source, folder = {"nameServer": servers.namesrv}, str(tmp_path / "redrive")
    told = report(spark, source, group, traces=traces)
    table = told.tables[0]
    assert [(row["origin"], row["tag"], row["messages"]) for row in table.rows] == [
        (topic, "open", 15),
        (topic, "paid", 5),
        (f"{topic}-quiet", "", 3),
    ]
    assert [tuple(row.values()) for row in told.tables[2].rows] == [
        (topic, "exception", 5, 5),
        (topic, "failed", 15, 15),
        (f"{topic}-quiet", None, 3, None),
    ]
    assert sum(told.plots[0].series[group].values()) == 23
    with after(sending, "send"), pytest.raises(Exception, match=Killed):
        redrive(spark, source, source, group, folder, "tags = 'paid'")
    plan = redrive(spark, source, source, group, folder, "tags = 'paid'", dry_run=True)
    assert plan.facts["messages"] == 5  # planned and not committed: still to be done
    redrive(spark, source, source, group, folder, "tags = 'paid'")
    plan = redrive(spark, source, source, group, folder, "tags = 'paid'", dry_run=True)
    assert (plan.facts["messages"], plan.tables[0].rows) == (0, [])
    done = redrive(spark, source, source, group, folder, "tags = 'paid'")
    assert done.facts["messages"] == 0  # nothing has died since
    found = rows(servers, topic)
    again = [row for row in found if dict(row.properties).get("REDRIVE_GROUP") == group]
    assert (len(found), numbers(again)) == (25, list(range(15, 20)))


def test_letters_that_were_popped_are_told_by_the_topic_that_they_were_sent_to(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    group = f"g-{topic}"
    servers.send(topic, 1)
    begin = ConsumeFromWhere.FIRST_OFFSET
    with (
        pyromq.sync.connect(servers.namesrv) as client,
        client.simple_consumer(topic, group=group, begin=begin, invisible_s=600) as consumer,
    ):
        (first,) = consumer.receive(wait=30)
        first.later(0)
        (again,) = consumer.receive(wait=30)  # out of the group's retry topic
        again.dead_letter("no good")
    told = report(spark, {"nameServer": servers.namesrv}, group)
    assert [(row["origin"], row["messages"]) for row in told.tables[0].rows] == [(topic, 1)]
