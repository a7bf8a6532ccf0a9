"""Archive and replay: every message once in the archive wherever it is killed, and back into a topic."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq.errors import ConfigError, PyroError
from pyromq.pipelines import archive as module
from pyromq.pipelines.archive import archive, read_archive
from pyromq.pipelines.lake.manifest import manifests
from pyromq.pipelines.reconcile import reconcile
from pyromq.pipelines.replay import replay
from pyromq.pipelines.run.progress import ProgressListener
from tests.pipelines.faults import Killed, after, instead
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers


def source(servers: Servers, topic: str, most: int = 60) -> dict[str, str]:
    return {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": str(most)}


def test_an_archive_holds_every_message_once_and_is_replayed(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 100, tag="t")
    folder, target = str(tmp_path / "archive"), {"nameServer": servers.namesrv, "topic": f"{topic}-again"}
    assert archive(spark, source(servers, topic), folder, dry_run=True).facts["messages"] == 100
    lines: list[str] = []
    with ProgressListener(spark, "archive", lines.append) as watch:
        done = archive(spark, source(servers, topic), folder)
    assert (done.facts["messages"], done.facts["gaps"], done.metrics.rows) == (100, 0, 100)
    told = watch.metrics(done)
    assert (told["rows"], told["batches"], told["lag"]) == (100, 2, 0)
    first = sum(
        row["messages"] for row in manifests(spark, folder)[0]["queues"]
    )  # each queue has its share of the limit
    assert 50 <= first <= 60
    assert [re.sub(r"[\d,]+ rows/s", "", line) for line in lines if "batch" in line] == [
        f"archive: batch 0, {first} rows, , lag {100 - first}\n",
        f"archive: batch 1, {100 - first} rows, , lag 0\n",
    ]
    assert sum(row["safeToDeleteUpTo"] for row in done.tables[0].rows) == 100
    servers.send(topic, 20, first=100)
    assert archive(spark, source(servers, topic), folder, dry_run=True).facts["messages"] == 20
    done = archive(spark, source(servers, topic), folder)
    assert (json.loads(done.as_json())["messages"], done.metrics.rows) == (120, 20)
    last = manifests(spark, folder)[-1]
    assert sum(last["safe"][topic]["broker-a"].values()) == 120
    kept = read_archive(spark, folder)
    assert numbers(kept.collect()) == list(range(120))
    replayed = replay(spark, {"archive": folder}, target, str(tmp_path / "run"), where="queueId < 2", tasks=2)
    again = rows(servers, f"{topic}-again")
    expected = kept.where("queueId < 2").collect()
    assert replayed.facts["messages"] == len(expected) > 0
    assert numbers(again) == numbers(expected)
    assert {(row.tags, dict(row.properties)["REPLAY_TOPIC"]) for row in again} <= {("t", topic), (None, topic)}
    judged = reconcile(spark, {"archive": folder, "topic": topic}, target)
    assert (judged.facts["equal"], judged.facts["lost"], judged.facts["doubled"]) == (len(again), 120 - len(again), 0)
    repeated = replay(spark, {"archive": folder}, target, str(tmp_path / "run"), where="queueId < 2", tasks=2)
    assert repeated.facts["messages"] == 0  # a finished run has nothing left to send
    with pytest.raises(ConfigError, match="where = 'queueId < 3': the run of checkpoint"):
        replay(spark, {"archive": folder}, target, str(tmp_path / "run"), where="queueId < 3", tasks=2)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("before the rows", marks=pytest.mark.slow),
        "before the manifest",
        pytest.param("before the commit", marks=pytest.mark.slow),
    ],
)
def test_an_archive_that_is_killed_at_any_stage_neither_loses_nor_doubles(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, stage: str
) -> None:
    servers.send(topic, 60)
    folder = str(tmp_path / "archive")
    places = {
        "before the rows": instead(module, "keep_batch"),
        "before the manifest": instead(module, "write_manifest"),
        "before the commit": after(module, "keep_batch"),
    }
    with places[stage], pytest.raises(Exception, match=Killed):
        archive(spark, source(servers, topic), folder)
    done = archive(spark, source(servers, topic), folder)
    assert (done.facts["messages"], done.facts["gaps"]) == (60, 0)
    assert numbers(read_archive(spark, folder).collect()) == list(range(60))
    shutil.rmtree(tmp_path / "archive" / "checkpoint")
    with pytest.raises(PyroError, match=r"it ends with batch -1, and .* has rows of batch 0: it was removed"):
        archive(spark, source(servers, topic), folder)


def test_topics_that_go_soon_are_kept_first(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> None:
    """Also by a second run that is not told of them: the batch in which the first one was killed is theirs."""
    servers.send(topic, 5)
    servers.send(f"{topic}-soon", 3)
    folder = str(tmp_path / "archive")
    with instead(module, "write_manifest"), pytest.raises(Exception, match=Killed):
        archive(spark, source(servers, topic), folder, first=[f"{topic}-soon"])
    done = archive(spark, source(servers, topic), folder)
    assert (done.facts["messages"], done.facts["gaps"]) == (8, 0)
    first = manifests(spark, folder)[0]["queues"]
    assert {row["topic"] for row in first} == {f"{topic}-soon"}


def test_a_folder_without_archive_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PyroError, match="holds no archive"):
        read_archive(spark, str(tmp_path))
