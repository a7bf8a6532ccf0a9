"""What sends: replay of a topic, redrive, dedup. Killed between send and commit, each sends nothing twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyromq.ambient import SystemClock, pause
from pyromq.errors import ConfigError
from pyromq.pipelines import dedup as dedup_module
from pyromq.pipelines.archive import archive, read_archive
from pyromq.pipelines.dedup import dedup
from pyromq.pipelines.replay import limited, replay
from pyromq.pipelines.run import checkpoint, sending
from pyromq.pipelines.run.brokers import widen
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import NetOptions, Use, connection_options, write_options
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter
from tests.pipelines.faults import Killed, after, instead
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers


def write_to(servers: Servers, topic: str) -> dict[str, str]:
    return {"nameServer": servers.namesrv, "topic": topic}


@pytest.mark.parametrize(
    ("window", "promise"),
    [
        pytest.param("auto", "once, also if repeated", marks=pytest.mark.slow),
        ("off", "at least once (no duplicate window: broker-a)"),
    ],
)
def test_a_replay_killed_after_its_send_sends_nothing_twice(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, window: str, promise: str
) -> None:
    """Also without a duplicate window: what the first try stored is found in the target."""
    servers.send(topic, 60)
    source = write_to(servers, topic) | {"maxOffsetsPerTrigger": "40"}
    target = write_to(servers, f"{topic}-copy") | {"sendOnce": window}
    with after(sending, "send"), pytest.raises(Exception, match=Killed):
        replay(spark, source, target, str(tmp_path))
    done = replay(spark, source, target, str(tmp_path))
    assert done.facts["delivery"] == promise
    assert 0 < done.facts["messages"] < 60  # of this start
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["before", "sent", "marked"])
def test_a_replay_of_an_archive_killed_at_any_stage_sends_everything_once(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, stage: str
) -> None:
    servers.send(topic, 60)
    kept = str(tmp_path / "archive")
    archive(spark, write_to(servers, topic) | {"maxOffsetsPerTrigger": "40"}, kept)
    target, run = write_to(servers, f"{topic}-copy"), str(tmp_path / "run")
    places = {
        "before": instead(sending, "send"),
        "sent": after(sending, "send"),
        "marked": after(checkpoint, "mark_done"),
    }
    with places[stage], pytest.raises(RuntimeError, match=Killed):
        replay(spark, {"archive": kept}, target, run)
    replay(spark, {"archive": kept}, target, run)
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(60))


def test_a_backlog_is_spread_over_more_queues(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 40)
    with Cluster(connection_options({"nameServer": servers.namesrv}, Use.BATCH)) as cluster:
        bounds = cluster.bounds(cluster.queues([topic]))
        cluster.commit("slow", {queue: found.high - 5 for queue, found in bounds.items() if found.high >= 5})
        waiting = sum(min(5, found.high) for found in bounds.values())
        assert widen(NetOptions(name_server=(servers.namesrv,)), f"{topic}-wide", 9) == {"broker-a": 9}
        assert widen(NetOptions(name_server=(servers.namesrv,)), f"{topic}-wide", 4) == {"broker-a": 9}
        options = {"maxBatchBytes": "200"}
        target = write_to(servers, f"{topic}-wide") | options
        done = replay(spark, write_to(servers, topic), target, str(tmp_path), backlog_of="slow")
        assert done.facts["messages"] == waiting
        wide = cluster.bounds(cluster.queues([f"{topic}-wide"]))
    assert len(wide) == 9
    assert sum(found.high for found in wide.values()) == waiting
    assert len([found for found in wide.values() if found.high]) > 4


def test_a_topic_is_replayed_from_one_time_to_another(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """The end is not included. A restart keeps the times of the first start; a dry run tells the same number."""
    since, until, _ = [send_some(servers, topic, first) for first in (0, 20, 40)]
    source, target = write_to(servers, topic), write_to(servers, f"{topic}-part")
    told = replay(spark, source, target, "", since_ms=since, until_ms=until, dry_run=True)
    assert told.facts["messages"] == 20
    assert sum(row["to"] - row["from"] for row in told.tables[1].rows) == 20
    assert replay(spark, source, target, str(tmp_path), since_ms=since, until_ms=until).facts["messages"] == 20
    assert replay(spark, source, target, str(tmp_path), since_ms=0).facts["messages"] == 0
    assert numbers(rows(servers, f"{topic}-part")) == list(range(20, 40))


def send_some(servers: Servers, topic: str, first: int) -> int:
    """Twenty, and a time later than that of their store and earlier than that of what is sent next."""
    servers.send(topic, 20, first=first)
    found = rows(servers, topic, ["storeTimestamp"])
    later: int = max(round(row.storeTimestamp.timestamp() * 1000) for row in found) + 1
    while SystemClock().now_ms() <= later:
        pause(0.001)
    return later


def test_the_rate_of_a_replay_is_kept(servers: Servers, topic: str) -> None:
    """On a clock that moves by the waits alone: 100 messages at 50 a second take two seconds, less the last request."""
    passed = [0.0]
    clock = SystemClock()
    options = write_options(limited(write_to(servers, topic), 50))
    sender = BatchSender(options, clock=clock, pause=lambda seconds: passed.append(passed[-1] + seconds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "monotonic", lambda self: passed[-1])
        batch = pa.RecordBatch.from_pydict({"body": [f"m{number}".encode() for number in range(100)]})
        RowWriter(options, "run/0", 0, sender).write([batch])
    assert 2 - 12 / 50 <= passed[-1] <= 2
    assert numbers(rows(servers, topic)) == list(range(100))
    assert limited({"topic": "T"}, 0) == {"topic": "T"}


def test_a_replay_needs_a_goal_and_an_end(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs one to write to"):
        replay(spark, {"archive": "x"}, {}, str(tmp_path))
    with pytest.raises(ConfigError, match="an archive has an end"):
        replay(spark, {"archive": "x"}, {"topic": "T"}, str(tmp_path), every="1s")


def test_repeats_are_dropped_and_the_rest_is_sent_once(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """Killed between send and commit, with repeats in one batch and across batches."""
    servers.send(topic, 30)
    servers.send(topic, 30)
    servers.send(topic, 10, first=25)
    folder, source = str(tmp_path / "once"), write_to(servers, topic) | {"maxOffsetsPerTrigger": "45"}
    target, by = write_to(servers, f"{topic}-once"), "cast(body AS string)"
    with after(sending, "send"), pytest.raises(Exception, match=Killed):
        dedup(spark, source, folder, target=target, by=by)
    done = dedup(spark, source, folder, target=target, by=by)
    assert done.facts["messages"] == 35
    assert numbers(read_archive(spark, folder).collect()) == list(range(35))
    assert numbers(rows(servers, f"{topic}-once")) == list(range(35))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["before the rows", "before the manifest", "before the send"])
def test_dedup_killed_at_other_stages(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, stage: str
) -> None:
    servers.send(topic, 30)
    servers.send(topic, 30)
    folder, source = str(tmp_path / "once"), write_to(servers, topic) | {"maxOffsetsPerTrigger": "45"}
    target, by = write_to(servers, f"{topic}-once"), "cast(body AS string)"
    places = {
        "before the rows": instead(dedup_module, "keep_batch"),
        "before the manifest": after(dedup_module, "keep_batch"),
        "before the send": instead(sending, "send"),
    }
    with places[stage], pytest.raises(Exception, match=Killed):
        dedup(spark, source, folder, target=target, by=by)
    dedup(spark, source, folder, target=target, by=by)
    assert numbers(read_archive(spark, folder).collect()) == list(range(30))
    assert numbers(rows(servers, f"{topic}-once")) == list(range(30))
