"""`--dry-run` of every pipeline: it tells what there is to do, and nothing is written, in no topic and no folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from pyromq.cli.pipeline.pipeline import pipeline
from pyromq.pipelines.archive import archive
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, connection_options
from tests.pipelines.test_commands import Commands, commands
from tests.pipelines.test_dlq import reject_all
from tests.spark.servers import Servers

__all__ = ["commands"]
TOPIC, GROUP = "dry", "dry-readers"


class Stock(NamedTuple):
    """What the runs are about: a topic of twelve, an archive of eight of them, three dead letters."""

    servers: Servers
    kept: Path

    def state(self) -> dict[str, object]:
        """Everything that a run could have changed."""
        with Cluster(connection_options({"nameServer": self.servers.namesrv}, Use.BATCH)) as cluster:
            queues = cluster.queues(cluster.topics(rf"%DLQ%{GROUP}|{TOPIC}.*"))
            held = {str(queue): bounds.high for queue, bounds in cluster.bounds(queues).items()}
            stands = {str(queue): offset for queue, offset in cluster.committed(GROUP, queues).items()}
        return {"held": held, "stands": stands, "files": sorted(map(str, self.kept.rglob("*")))}


@pytest.fixture(scope="module")
def stock(shared: SparkSession, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Stock:
    kept = tmp_path_factory.mktemp("dry") / "archive"
    servers.send(TOPIC, 8)
    archive(shared, {"nameServer": servers.namesrv, "topic": TOPIC}, str(kept))
    servers.send(TOPIC, 4, first=8)
    servers.send(f"{TOPIC}-bad", 3)
    reject_all(servers, f"{TOPIC}-bad", GROUP, 3)
    return Stock(servers, kept)


RUNS: dict[str, tuple[str, dict[str, object]]] = {
    "archive": (f"archive {{new}} --topic {TOPIC} --group {GROUP}", {"messages": 12}),
    "archive, gone on with": (f"archive {{kept}} --topic {TOPIC}", {"messages": 4}),
    "replay": (f"replay --archive {{kept}} --to {TOPIC}-new --queues 9 --checkpoint {{new}}", {"messages": 8}),
    "replay of a topic": (f"replay --topic {TOPIC} --to {TOPIC}-new --until yesterday", {"messages": 0}),
    "dlq": (f"dlq --group {GROUP}", {"messages": 3}),
    "dlq --redrive": (f"dlq --group {GROUP} --redrive --checkpoint {{new}}", {"messages": 3}),
    "dedup": (f"dedup {{new}} --topic {TOPIC} --to {TOPIC}-new", {"messages": 12}),
    "trace": (f"trace --trace-topic {TOPIC} --since yesterday", {"messages": 12}),
    "backlog": (f"backlog --topic {TOPIC} --group {GROUP}", {"messages": 12}),
    "analytics": (f"analytics --topic {TOPIC} --checkpoint {{new}}", {"messages": 12}),
    "reconcile": (f"reconcile --topic {TOPIC} --with-archive {{kept}} --since yesterday", {"left": 12, "right": 8}),
    "search": (f"search --topic {TOPIC} --key k --since yesterday --until now", {"messages": 12}),
    "forensics": ("forensics {store}", {}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_dry_run_tells_and_writes_nothing(commands: Commands, stock: Stock, tmp_path: Path, name: str) -> None:
    words, expected = RUNS[name]
    new = tmp_path / "new"
    before = stock.state()
    given = words.format(new=new, kept=stock.kept, store=stock.servers.store())
    told = commands.run(*given.split(), "--dry-run")
    assert told["pipeline"].endswith("(dry run)")
    assert {fact: told[fact] for fact in expected} == expected
    assert name != "forensics" or told["bytes"] > 0
    assert stock.state() == before
    assert not new.exists()


def test_every_pipeline_has_one() -> None:
    assert {words.split()[0] for words, _ in RUNS.values()} == set(pipeline.commands)
