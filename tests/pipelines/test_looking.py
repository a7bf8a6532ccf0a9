"""What only looks: backlog, search, forensics, analytics, trace, reconcile, each on messages of a real broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyromq
from pyromq.errors import ConfigError
from pyromq.model.message_trace import Consumed, ConsumeOutcome, ConsumeStarted, Sent, Traced
from pyromq.pipelines import analytics as analytics_module
from pyromq.pipelines.analytics import analytics, analytics_stream
from pyromq.pipelines.backlog import backlog
from pyromq.pipelines.forensics import forensics
from pyromq.pipelines.reconcile import reconcile
from pyromq.pipelines.run.brokers import ages, names, soon
from pyromq.pipelines.run.plan import plan_of
from pyromq.pipelines.search import search
from pyromq.pipelines.trace import events, trace
from pyromq.protocol.trace import encode_trace
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import NetOptions, Use, connection_options
from tests.pipelines.faults import Killed, after
from tests.spark.reading import rows
from tests.spark.servers import Servers


def test_backlog_by_queue_tag_and_group(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 30, tag="a")
    servers.send(topic, 10, first=30)
    source = {"nameServer": servers.namesrv, "topic": topic}
    assert plan_of(spark, source, "backlog").facts["messages"] == 40
    with Cluster(connection_options({"nameServer": servers.namesrv}, Use.BATCH)) as cluster:
        bounds = cluster.bounds(cluster.queues([topic]))
        cluster.commit("slow", {queue: found.low for queue, found in bounds.items()})
    told = backlog(spark, source, ["nobody", "slow"])
    topics, queues, tags, lag, waiting = told.tables
    [whole] = topics.rows
    assert (whole["topic"], whole["messages"], whole["bytes"]) == (topic, 40, told.facts["bytes"])
    counts = [row["messages"] for row in queues.rows]
    assert (whole["queues"], whole["skew"]) == (len(counts), round(max(counts) * len(counts) / 40, 2))
    assert [(row["group"], row["tag"], row["messages"]) for row in waiting.rows] == [
        ("slow", "", 10),
        ("slow", "a", 30),
    ]
    assert told.facts["messages"] == sum(row["messages"] for row in queues.rows) == told.metrics.rows == 40
    assert [(row["tag"], row["messages"]) for row in tags.rows] == [("", 10), ("a", 30)]
    assert {row["lag"] for row in lag.rows if row["group"] == "nobody"} == {None}
    assert sum(row["lag"] for row in lag.rows if row["group"] == "slow") == 40
    assert "backlog: messages 40" in told.as_text(120)
    assert sum(told.plots[0].series["messages"].values()) == 40


def test_search_by_key_property_and_body_in_a_topic_and_a_store(
    spark: SparkSession, servers: Servers, topic: str
) -> None:
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        producer.send(topic, b"the first \xff", keys=["k1", "k2"], props={"shop": "7"})
        producer.send(topic, b"the second", keys=["k2"], tag="t")
        producer.send(topic, b"the third", props={"shop": "8"})
    source = {"nameServer": servers.namesrv, "topic": topic}
    told = search(spark, source, key="k2")
    assert (told.facts["found"], told.facts["searched"], told.facts["more"]) == (2, 3, False)
    assert search(spark, source, body="the", most=2).facts["more"]
    offline = {"store": str(servers.store()), "topic": topic}
    [row] = search(spark, offline, properties={"shop": "7"}, body="first", body_pattern="^the f").tables[0].rows
    assert (row["topic"], row["keys"], row["body"]) == (topic, "k1 k2", "the first �")
    with pytest.raises(ConfigError, match="what is looked for"):
        search(spark, source)


def damage_at(store: Path, body: bytes) -> int:
    """Spoils this body in the log; its position."""
    for log in (store / "commitlog").iterdir():
        raw = bytearray(log.read_bytes())
        at = raw.find(body)
        if at >= 0:
            raw[at : at + 3] = b"???"
            log.write_bytes(raw)
            return int(log.name) + at
    raise AssertionError(f"{body!r} is not in {store}")


def test_forensics_of_a_damaged_store(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        producer.send_many(topic, [f"{topic}:{number:02}.".ljust(100).encode() for number in range(40)])
    store = tmp_path / "copy"
    shutil.copytree(servers.store(), store)
    whole = forensics(spark, [str(store)], topic=topic)
    assert (whole.facts["readable"], whole.facts["damagedRanges"]) == (40, 0)
    at = damage_at(store, f"{topic}:17.".encode())
    told = forensics(spark, [str(store)], topic=topic)
    by_topic, _, damage = told.tables
    assert (told.facts["readable"], told.facts["damagedRanges"], told.facts["missingOffsets"]) == (39, 1, 1)
    [row] = by_topic.rows
    assert (row["topic"], row["messages"], row["missing"]) == (topic, 39, 1)
    [place] = damage.rows
    assert place["position"] <= at < place["position"] + place["size"]


def test_windows_of_a_batch_and_of_a_stream_that_is_killed_agree(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 30, tag="a")
    servers.send(topic, 20, first=30, tag="b")
    source = {"nameServer": servers.namesrv, "topic": topic}
    once = analytics(spark, source, window="1h")
    assert once.facts["messages"] == 50
    limited = source | {"maxOffsetsPerTrigger": "30"}
    with after(analytics_module, "write_text"), pytest.raises(Exception, match=Killed):
        analytics_stream(spark, limited, str(tmp_path / "windows"), window="1h")
    live = analytics_stream(spark, limited, str(tmp_path / "windows"), window="1h")
    assert live.tables[0].rows == once.tables[0].rows
    assert {row["tag"]: row["messages"] for row in live.tables[0].rows}.keys() == {"a", "b"}
    assert sum(once.plots[0].series[topic].values()) == 50


def test_reconcile_finds_lost_doubled_differing_and_added(spark: SparkSession, servers: Servers, topic: str) -> None:
    """By a property, since ids of two sends differ."""
    left = [("1", b"one"), ("2", b"two"), ("3", b"three"), ("4", b"four")]
    right = [("1", b"one"), ("2", b"two"), ("2", b"two"), ("3", b"THREE"), ("5", b"five")]
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for name, rows in ((topic, left), (f"{topic}-b", right)):
            for number, body in rows:
                producer.send(name, body, props={"number": number})
    told = reconcile(
        spark,
        {"nameServer": servers.namesrv, "topic": topic},
        {"nameServer": servers.namesrv, "topic": f"{topic}-b"},
        by="properties['number']",
    )
    counts = {name: told.facts[name] for name in ("equal", "lost", "doubled", "differing", "added")}
    assert counts == {"equal": 1, "lost": 1, "doubled": 1, "differing": 1, "added": 1}
    assert not told.facts["agree"]
    assert {row["verdict"]: row["id"] for row in told.tables[1].rows} == {
        "lost": "4", "doubled": "2", "differing": "3", "added": "5"
    }  # fmt: skip
    assert told.metrics.rows == 9


def test_latency_by_topic_and_group_with_the_slowest(spark: SparkSession, servers: Servers, topic: str) -> None:
    """Traces as clients write them: ten messages, one of them slow, one delivered twice."""
    told: list[Traced] = []
    servers.send(f"{topic}-sent", 10)
    stored = sorted(rows(servers, f"{topic}-sent"), key=lambda row: int(row.body[1:]))
    for number, name in enumerate(row.msgId for row in stored):
        begun = ConsumeStarted(message_id=name, time_ms=1020 + number, group="g", request_id=f"r{name}")
        ended = Consumed(message_id=name, request_id=f"r{name}", cost_ms=500 if number == 7 else 5, group="g")
        told += [Sent(message_id=name, time_ms=1000, topic="orders", group="p", cost_ms=number), begun, ended]
    third = stored[3].msgId
    told.append(ConsumeStarted(message_id=third, request_id="again", time_ms=2000, group="g", retries=1))
    told.append(
        Consumed(message_id=third, request_id="again", cost_ms=1, success=False, outcome=ConsumeOutcome.EXCEPTION)
    )
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        producer.send(topic, encode_trace(told[:15]))
        producer.send(topic, encode_trace(told[15:]))
        producer.send(topic, b"Pub\x01no number\x02")  # anybody may send there
    source = {"nameServer": servers.namesrv, "topic": topic}
    found = trace(spark, source, topics=[f"{topic}-sent"], slowest=2)
    [sent], [had], worst = (table.rows for table in found.tables)
    assert (found.facts["messages"], found.facts["events"]) == (10, 32)
    assert (sent["topic"], sent["messages"], sent["sendMaxMs"], sent["sendP50Ms"]) == ("orders", 10, 9, 4)
    longest = max(row.storeTimestamp.timestamp() for row in stored) * 1000 - 1000
    assert (found.facts["store"], sent["storeMaxMs"]) == ("measured", pytest.approx(longest, abs=1))
    assert (had["group"], had["messages"], had["deliveries"], had["failed"]) == ("g", 10, 11, 1)
    assert (had["firstDeliveryMaxMs"], had["consumptionMaxMs"], had["consumptionP50Ms"]) == (29, 500, 5)
    assert worst[0]["id"] == stored[7].msgId
    assert len(worst) == 2
    assert {plot.title for plot in found.plots} >= {"Latency of send", "Latency of consumption"}


def test_what_is_no_trace_is_left_out() -> None:
    good = encode_trace([Sent(message_id="m", time_ms=5, topic="T", cost_ms=3)])
    assert [row[:4] for row in events([b"\xff", b"Pub\x01x\x02", good])] == [("sent", "m", "", 5)]


def test_topics_with_the_time_that_is_left(servers: Servers, topic: str) -> None:
    servers.send(topic, 1)
    found = {each.topic: each for each in ages(NetOptions(name_server=(servers.namesrv,)), 0)}
    stored = found[topic].oldest_ms
    assert stored > 0
    assert found[topic].left_ms == stored + 72 * 3_600_000  # of a broker that keeps three days
    assert topic in names(soon(found.values(), found[topic].left_ms, dead_letters=False))
