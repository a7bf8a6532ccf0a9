"""Archive and replay: every message once in the archive wherever it is killed, and back into a topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq.errors import PyroError
from pyromq.pipelines import archive as module
from pyromq.pipelines.archive import archive, gaps, read_archive
from pyromq.pipelines.backlog import backlog
from pyromq.pipelines.files import write_text
from pyromq.pipelines.replay import replay
from tests.spark.servers import Servers
from tests.spark.test_batch_read import numbers, read


def source(servers: Servers, topic: str) -> dict[str, str]:
    return {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "40"}


def test_an_archive_holds_every_message_once_and_says_so(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 100, tag="t")
    folder = str(tmp_path / "archive")
    told = archive(spark, source(servers, topic), folder, dry_run=True)
    assert told.facts["messages"] == 100
    done = archive(spark, source(servers, topic), folder)
    assert (done.facts["messages"], done.facts["gaps"]) == (100, 0)
    assert sum(row["safe to delete up to"] for row in done.tables[0].rows) == 100
    servers.send(topic, 20, first=100)
    assert archive(spark, source(servers, topic), folder, dry_run=True).facts["messages"] == 20
    done = archive(spark, source(servers, topic), folder)
    assert json.loads(done.as_json())["messages"] == 120
    kept = read_archive(spark, folder)
    assert numbers(kept.collect()) == list(range(120))
    assert {row.topic for row in kept.select("topic").distinct().collect()} == {topic}
    replayed = replay(
        spark, {}, {"nameServer": servers.namesrv, "topic": f"{topic}-again"}, archive=folder, where="queueId < 2"
    )
    again = read(spark, servers, f"{topic}-again").collect()
    expected = kept.where("queueId < 2").collect()
    assert replayed.facts["messages"] == len(expected) > 0
    assert numbers(again) == numbers(expected)
    assert {(row.tags, row.properties["REPLAY_TOPIC"]) for row in again} <= {("t", topic), (None, topic)}


@pytest.mark.parametrize("stage", ["before the rows", "before the manifest", "before the commit"])
def test_an_archive_that_is_killed_at_any_stage_neither_loses_nor_doubles(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    servers.send(topic, 100)
    folder = str(tmp_path / "archive")
    keep, write = module._keep, write_text

    def die(*given: object) -> None:
        raise RuntimeError("killed")

    def die_after(*given: object) -> None:
        keep(*given)  # type: ignore[arg-type]
        raise RuntimeError("killed")

    if stage == "before the manifest":
        monkeypatch.setattr(module, "write_text", die)
    else:
        monkeypatch.setattr(module, "_keep", die if stage == "before the rows" else die_after)
    with pytest.raises(Exception, match="killed"):
        archive(spark, source(servers, topic), folder)
    monkeypatch.setattr(module, "_keep", keep)
    monkeypatch.setattr(module, "write_text", write)
    done = archive(spark, source(servers, topic), folder)
    assert (done.facts["messages"], done.facts["gaps"]) == (100, 0)
    assert numbers(read_archive(spark, folder).collect()) == list(range(100))


def test_gaps_are_told_and_what_is_before_them_is_safe() -> None:
    def manifest(number: int, begin: int, end: int) -> dict[str, object]:
        row = {"topic": "T", "brokerName": "a", "queueId": 0, "begin": begin, "end": end}
        return {"batch": number, "queues": [row]}

    missing, safe = gaps([manifest(0, 0, 10), manifest(1, 10, 20), manifest(2, 25, 30), manifest(3, 30, 40)])
    assert missing == [{"queue": "T/a/0", "begin": 20, "end": 25}]
    assert list(safe.values()) == [20]


def test_a_folder_without_archive_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PyroError, match="holds no archive"):
        read_archive(spark, str(tmp_path))


def test_backlog_by_queue_tag_and_group(spark: SparkSession, servers: Servers, topic: str) -> None:
    servers.send(topic, 30, tag="a")
    servers.send(topic, 10, first=30)
    told = backlog(spark, {"nameServer": servers.namesrv, "topic": topic}, ["nobody"])
    queues, tags, lag = told.tables
    assert told.facts["messages"] == sum(row["messages"] for row in queues.rows) == 40
    assert [(row["tag"], row["messages"]) for row in tags.rows] == [("", 10), ("a", 30)]
    assert {row["lag"] for row in lag.rows} == {None}
    assert "backlog: messages 40" in told.as_text(120)
