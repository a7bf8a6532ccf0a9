"""Spark's Kafka connector on the rows of bench/spark.py, which calls this: rows a second and CPU, as lines of JSON.

Needs Maven and PyPI once: a Kafka broker with its jars, the connector's, and PySpark 4.0 (the newest whose connector
is published whole) go to build/kafka. Half of this file runs in that Python, which knows nothing of pyromq.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "kafka"
PYTHON = HOME / "python" / "bin" / "python"
SPARK, KAFKA = "4.0.0", "3.9.0"
CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{kafka}</version></dependency>
<dependency><groupId>ch.qos.reload4j</groupId><artifactId>reload4j</artifactId><version>1.2.25</version></dependency>
<dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>
<version>{spark}</version></dependency></dependencies></project>
"""
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/logs
num.partitions=4
offsets.topic.replication.factor=1
"""


def prepare() -> None:
    """What is not there yet."""
    jars = HOME / "jars"
    if not any(jars.glob("reload4j*.jar")):
        if shutil.which("mvn") is None:
            raise SystemExit("Kafka's connector comes by Maven: apt-get install maven, or leave --kafka out")
        jars.mkdir(parents=True, exist_ok=True)
        (HOME / "pom.xml").write_text(_POM.format(kafka=KAFKA, spark=SPARK), "utf-8")
        command = ["mvn", "-q", "-B", "-f", str(HOME / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={jars}"], check=True, stdout=sys.stderr)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "python")], check=True, stdout=sys.stderr)
        command = [str(PYTHON), "-m", "pip", "install", "-q", f"pyspark=={SPARK}"]
        subprocess.run(command, check=True, stdout=sys.stderr)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """Kafka in one process, as broker and controller."""

    def __init__(self, folder: Path) -> None:
        port, control = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        config = folder / "server.properties"
        config.write_text(_SETTINGS.format(port=port, control=control, folder=folder), "utf-8")
        java = ["java", "-Xmx1g", "-cp", f"{HOME / 'jars'}/*"]
        form = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config)]
        subprocess.run([*java, *form], check=True, capture_output=True)
        log = (folder / "kafka.log").open("wb")
        self._process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    return
            time.sleep(0.1)
        raise SystemExit(f"Kafka did not come up: {(folder / 'kafka.log').read_text()[-2000:]}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def runs(spark: Any, to: dict[str, str], folder: str, topic: str, rows: int, size: int) -> dict[str, Any]:
    made = spark.range(0, rows, 1, 4).selectExpr(
        f"rpad(string(id), {size}, '.') AS value",
        "concat('k', id) AS key",
        "array(struct('tags' AS key, cast(concat('t', id % 16) AS binary) AS value), "
        "struct('region' AS key, cast(concat('r', id % 4) AS binary) AS value)) AS headers",
    )

    def save(name: str) -> None:
        made.write.format("kafka").options(**to, topic=name).option("kafka.enable.idempotence", "false").save()

    def load(*columns: str) -> Callable[[], object]:
        source = spark.read.format("kafka").options(**to, subscribe=topic, includeHeaders="true").load()
        frame = source.select(*columns) if columns else source
        return lambda: frame.write.format("noop").mode("overwrite").save()

    def stream(*columns: str) -> None:
        source = spark.readStream.format("kafka").options(**to, subscribe=topic, includeHeaders="true")
        frame = source.option("startingOffsets", "earliest").load()
        sink = (frame.select(*columns) if columns else frame).writeStream.format("noop")
        with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
            sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    save(topic)
    return {
        "pull": load(),
        "pull-pruned": load("partition", "offset"),
        "stream": stream,
        "stream-pruned": lambda: stream("partition", "offset"),
        "write": lambda: save(f"{topic}-written"),
    }


def inner(sizes: list[tuple[int, int]], only: list[str]) -> None:
    """In PySpark 4.0's Python. A line of JSON for each row, when it is done."""
    from bench.measure.timing import measured
    from pyspark.sql import SparkSession

    jars = ",".join(str(jar) for jar in (HOME / "jars").iterdir() if jar.name.startswith(CONNECTOR))
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
        settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}
        settings |= {"spark.ui.showConsoleProgress": "false"}
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            for size, rows in sizes:
                each = runs(spark, {"kafka.bootstrap.servers": broker.address}, folder, f"bench-{size}", rows, size)
                for name in (name for name in only if name in each):
                    try:
                        figure: Any = measured(each[name], rows)
                    except Exception as fault:  # the next row may work
                        figure = f"failed: {type(fault).__name__}: {str(fault).strip().splitlines()[0]}"
                    print(json.dumps([size, name, figure]), flush=True)
        finally:
            spark.stop()
            broker.stop()


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--sizes", default="100:400000,1000:160000", help="bytes of a body:rows")
    words.add_argument("--only", default="pull,pull-pruned,stream,stream-pruned,write")
    words.add_argument("--inner", action="store_true")
    words.add_argument("--prepare", action="store_true", help="fetch what is needed, and no more")
    asked = words.parse_args()
    if asked.inner:
        sizes = [(int(size), int(rows)) for size, _, rows in (pair.partition(":") for pair in asked.sizes.split(","))]
        inner(sizes, asked.only.split(","))
        return
    prepare()
    if asked.prepare:
        return
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    own = inherited | {"PYSPARK_PYTHON": str(PYTHON), "PYTHONPATH": str(ROOT)}
    sys.exit(subprocess.run([str(PYTHON), "-m", "bench.measure.kafka", *sys.argv[1:], "--inner"], env=own).returncode)


if __name__ == "__main__":
    main()
