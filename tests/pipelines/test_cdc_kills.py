"""cdc-redis, cdc-jdbc, cdc-mongo and cdc-lake killed with SIGKILL (driver, JVM and workers) again and again. By hand.

    pytest -m slow tests/pipelines/test_cdc_kills.py

A kill comes when a file of the run appears: the offsets of a batch (planned), what became of it, Spark's commit.
Wherever it falls, in the end the store has the rows of the source, and each event was counted once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.changes import workload
from tests.pipelines.test_cdc_commands import words
from tests.pipelines.test_cdc_delivery import sent
from tests.pipelines.test_cdc_sinks import Store, documents, hashes, iceberg, lake, store, tables
from tests.pipelines.test_kills import end, kill_when, start
from tests.spark.servers import Servers

__all__ = ["documents", "hashes", "iceberg", "lake", "store", "tables"]

pytestmark = pytest.mark.slow
COUNT = 200


@pytest.mark.parametrize("store", ["hashes", "tables", "documents", "lake", "iceberg"], indirect=True)
@pytest.mark.parametrize(
    "places",
    [
        ["checkpoint/offsets/0", "delivered/1.json", "checkpoint/commits/2"],
        ["delivered/0.json.new", "checkpoint/offsets/1", "checkpoint/offsets/3"],
    ],
)
def test_a_store_has_the_rows_of_the_source_after_killed_runs(
    store: Store, servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    events, rows = workload(51, COUNT, topic)
    sent(servers, events)
    folder = tmp_path / "run"
    name, *more = words(store, topic)
    call = (name, *more, str(folder), "--most", "40")
    kills = [kill_when(start(servers, *call), (folder / place).exists) for place in places]
    end(start(servers, *call))
    assert any(kills)
    counted = [json.loads(each.read_text("utf-8"))["events"] for each in (folder / "delivered").glob("*.json")]
    assert sum(counted) == COUNT
    assert store.rows() == rows
