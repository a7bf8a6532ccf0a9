"""Archives as Delta and Iceberg tables: every message once wherever a run is killed, read back by the packages' own
readers and by Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from pyromq.errors import ConfigError, PyroError
from pyromq.pipelines import archive as archive_module
from pyromq.pipelines.archive import archive, read_archive
from pyromq.pipelines.lake import lake
from pyromq.pipelines.lake.delta_table import DeltaLog
from pyromq.pipelines.lake.iceberg_table import IcebergTable
from tests.pipelines.faults import Killed, after, instead
from tests.spark.reading import numbers
from tests.spark.servers import Servers


def delta_rows(folder: Path) -> pa.Table:
    return DeltaTable(folder / "delta").to_pyarrow_table()


def iceberg_rows(folder: Path) -> pa.Table:
    place = folder / "iceberg"
    where = {"uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}
    with load_catalog("pyromq", type="sql", **where) as catalog:
        return catalog.load_table("archive.messages").scan().to_arrow()


STAGES: dict[str, Callable[[], Any]] = {
    "before the files": lambda: instead(lake, "write_files"),
    "before the table": lambda: instead(lake, "new_files"),
    "before the manifest": lambda: instead(archive_module, "write_manifest"),
    "before the commit": lambda: after(archive_module, "keep_batch"),
}


@pytest.mark.parametrize(
    "stage", [pytest.param(each, marks=() if each == "before the manifest" else pytest.mark.slow) for each in STAGES]
)
@pytest.mark.parametrize(("form", "table_rows"), [("delta", delta_rows), ("iceberg", iceberg_rows)])
def test_a_table_that_is_killed_at_any_stage_has_every_message_once(
    spark: SparkSession,
    servers: Servers,
    topic: str,
    tmp_path: Path,
    form: str,
    table_rows: Callable[[Path], pa.Table],
    stage: str,
) -> None:
    servers.send(topic, 50, tag="t")
    folder = tmp_path / "kept here"
    source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "30"}
    with STAGES[stage](), pytest.raises(Exception, match=Killed):
        archive(spark, source, str(folder), form=form)
    done = archive(spark, source, str(folder), form=form)
    assert (done.facts["messages"], done.facts["gaps"], done.facts["batches"]) == (50, 0, 2)
    found = table_rows(folder)
    assert sorted(int(body[1:]) for body in found["body"].to_pylist()) == list(range(50))
    assert {row["tags"] for row in found.to_pylist()} == {"t"}
    assert dict(found["properties"].to_pylist()[0])["TAGS"] == "t"
    kept = read_archive(spark, str(folder)).collect()
    assert numbers(kept) == list(range(50))
    times = {row["queueOffset"]: row["storeTimestamp"] for row in found.to_pylist() if row["queueId"] == 0}
    assert {row.queueOffset: row.storeTimestamp.timestamp() for row in kept if row.queueId == 0} == {
        offset: time.timestamp() for offset, time in times.items()
    }
    with pytest.raises(ConfigError, match="format = 'parquet': the run of checkpoint"):
        archive(spark, source, str(folder))


def test_a_format_whose_package_is_not_there_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "find_spec", lambda name: None)
    for form, package in (("delta", "deltalake"), ("iceberg", "pyiceberg")):
        with pytest.raises(PyroError, match=rf"format = '{form}': the package {package} .* pip install .*\[lake\]'"):
            lake.check(form)
    lake.check("parquet")


def test_a_delta_table_whose_path_the_package_misreads_is_refused() -> None:
    with pytest.raises(PyroError, match="/data/50%/delta: a Delta table's path may have no %"):
        DeltaLog("/data/50%/delta", "run")


def test_tables_with_rows_deleted_aside_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files alone would bring the rows back."""
    table = SimpleNamespace(protocol=lambda: SimpleNamespace(reader_features=["deletionVectors"]))
    monkeypatch.setattr(DeltaLog, "_open", lambda self: table)
    with pytest.raises(PyroError, match=r"/data/delta: .* deletion vectors"):
        DeltaLog("/data/delta", "run").files()
    scan = SimpleNamespace(plan_files=lambda: [SimpleNamespace(delete_files={"d"})])
    catalog = SimpleNamespace(load_table=lambda name: SimpleNamespace(scan=lambda: scan))
    monkeypatch.setattr(IcebergTable, "_connect", lambda self: nullcontext(catalog))
    with pytest.raises(PyroError, match=r"archive.messages: .* delete files"):
        IcebergTable("/data/iceberg", "run", "", "").files()


def test_an_iceberg_table_that_is_on_no_disk_needs_a_catalog() -> None:
    with pytest.raises(PyroError, match=r"s3a://b/kept/iceberg: an Iceberg table there needs a catalog.*--catalog"):
        IcebergTable("s3a://b/kept/iceberg", "run", "", "").has(0)


def test_a_catalog_is_of_iceberg_alone(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="catalog, table: they are of Iceberg, and the format is 'delta'"):
        archive(spark, {"nameServer": "127.0.0.1:1", "topic": "T"}, str(tmp_path), form="delta", catalog="prod")
