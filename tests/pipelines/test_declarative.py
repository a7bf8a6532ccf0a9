"""The example of Spark's Declarative Pipelines, run as its users do: by `spark-pipelines`, over a broker of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.dataset as ds

import pyromq
from tests.house.source import ROOT
from tests.spark.servers import Servers
from tests.support import require

EXAMPLE = ROOT / "examples" / "declarative_pipeline"


def run(folder: Path, namesrv: str) -> None:
    """Run the pipeline by Spark's own command, in a process and a JVM of its own."""
    environment = {
        **os.environ,
        "PYROMQ_NAMESRV": namesrv,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))),
    }
    command = Path(sys.executable).parent / "spark-pipelines"
    words = [str(command), "--remote", "local[2]", "--conf", "spark.sql.shuffle.partitions=1", "run"]
    done = subprocess.run(
        [*words, "--spec", str(folder / "spark-pipeline.yml")],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def table(folder: Path, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = (
        ds.dataset(folder / "spark-warehouse" / name, format="parquet").to_table().to_pylist()
    )
    return rows


def test_a_declared_pipeline_reads_a_topic(own: Servers, tmp_path: Path) -> None:
    require(shutil.which("java") is not None, "Spark needs Java: apt-get install openjdk-17-jre-headless")
    require(find_spec("grpc_status") is not None, "spark-pipelines needs grpcio-status: make setup")
    own.start()
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text("utf-8")
    assert "file:///tmp/pyromq-declarative-pipeline" in text
    spec.write_text(text.replace("file:///tmp/pyromq-declarative-pipeline", (tmp_path / "storage").as_uri()))
    with pyromq.sync.connect(own.namesrv) as client, client.producer() as producer:
        for number in range(9):
            producer.send("orders", f"order {number}", tag="paid" if number % 3 else "new")
        run(folder, own.namesrv)
        assert {row["body"] for row in table(folder, "received")} == {f"order {number}" for number in range(9)}
        assert {row["tags"]: row["count"] for row in table(folder, "orders_by_tag")} == {"paid": 6, "new": 3}
