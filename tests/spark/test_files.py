"""`store dump --to`: the same columns as the source, in one file, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from pyromq.cli.main import cli
from pyromq.errors import ConfigError, PyroError
from pyromq.spark.codec.files import store_to_file, topic_to_file
from pyromq.spark.schema import arrow_schema
from pyromq.spark.store.store_scan import Damage
from tests.spark.servers import Servers
from tests.store.golden_store import apply_variant, unpack


def no_damage(found: Damage) -> None:
    raise AssertionError(str(found))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_store_of_javas_becomes_one_file(tmp_path: Path, ending: str) -> None:
    store, target = unpack("clean", tmp_path), tmp_path / f"all.{ending}"
    reports: list[tuple[int, int]] = []
    count = store_to_file(store, target, no_damage, lambda done, whole: reports.append((done, whole)))
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert len(reports) > 1
    assert reports[-1][0] == reports[-1][1] > 0
    table = parquet.read_table(target) if ending == "parquet" else pa.ipc.open_file(str(target)).read_all()
    assert (table.num_rows, table.schema.equals(arrow_schema())) == (count, True)
    assert count > 100
    topic = table.column("topic")[0].as_py()
    some = store_to_file(store, tmp_path / f"some.{ending}", no_damage, topic=topic)
    assert some == sum(each == topic for each in table.column("topic").to_pylist())


def test_the_command_and_what_it_refuses(tmp_path: Path) -> None:
    store, target = unpack("clean", tmp_path), tmp_path / "all.parquet"
    done = CliRunner().invoke(cli, ["store", "dump", str(store), "--to", str(target)])
    assert (done.exit_code, done.output) == (0, f"{parquet.read_table(target).num_rows} messages in {target}\n")
    with pytest.raises(ConfigError, match="exists already"):
        store_to_file(store, target, no_damage)
    with pytest.raises(ConfigError, match=r"give \.parquet or \.arrow"):
        store_to_file(store, tmp_path / "all.csv", no_damage)
    refused = CliRunner().invoke(cli, ["store", "dump", str(store), "--to", "x.parquet", "--limit", "3"])
    assert "--to takes --topic, --since and --until, not --limit" in refused.output


def test_a_topic_becomes_one_file(servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.send(topic, 60, tag="a")
    servers.send(topic, 40, first=60, tag="b")
    given: Any = {"nameServer": servers.namesrv, "topic": topic}
    reports: list[tuple[int, int]] = []
    count = topic_to_file(tmp_path / "all.parquet", lambda done, whole: reports.append((done, whole)), **given)
    assert count == 100
    assert (reports[-1], sorted(reports)) == ((100, 100), reports)
    assert topic_to_file(tmp_path / "b.arrow", **given, tags="b") == 40
    table = parquet.read_table(tmp_path / "all.parquet")
    assert sorted(table.column("body").to_pylist()) == sorted(f"m{number}".encode() for number in range(100))


def test_damage_is_told_and_read_around(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "torn40")
    target = tmp_path / "all.parquet"
    done = CliRunner().invoke(cli, ["store", "dump", str(store), "--to", str(target), "--json"])
    assert done.exit_code == 2  # as `store verify` answers
    rows = parquet.read_table(target).num_rows
    assert json.loads(done.stdout) == {"file": str(target), "messages": rows, "damaged": 1}
    assert rows > 0
    assert "are no record" in done.stderr
    assert "failOnDataLoss" not in done.stderr


def test_what_cannot_be_opened_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(PyroError, match="is not a store"):
        store_to_file(tmp_path, tmp_path / "all.parquet", no_damage)
    assert not list(tmp_path.glob("*.parquet*"))


def test_it_needs_no_spark() -> None:
    code = "import sys, pyromq.spark.codec.files; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
