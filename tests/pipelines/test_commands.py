"""Every command from its words to its answer, in the session that is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import pyromq
from pyromq.cli.main import cli
from pyromq.cli.pipeline import job
from pyromq.cli.pipeline.pipeline import pipeline
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, connection_options
from tests.pipelines.test_report import FROM_ELSEWHERE
from tests.spark.servers import Servers


class Commands:
    """Runs commands against one cluster."""

    def __init__(self, namesrv: str, folder: Path) -> None:
        self.namesrv = namesrv
        self.report, self.metrics = folder / "report.html", folder / "metrics.json"

    def run(self, *words: str) -> dict[str, Any]:
        """The summary; also left are a page, which opens without a network, and the metrics."""
        where = [] if words[0] == "forensics" else ["-n", self.namesrv]
        common = ["--json", "--report", str(self.report), "--metrics", str(self.metrics)]
        done = CliRunner().invoke(pipeline, [*words, *where, *common])
        assert done.exit_code == 0, (words, done.output, done.exception)
        assert json.loads(self.metrics.read_text("utf-8"))["seconds"] > 0
        page = self.report.read_text("utf-8")
        assert page.endswith("</html>\n")
        assert not FROM_ELSEWHERE.search(page)
        told: dict[str, Any] = json.loads(done.stdout)
        check_plain(told)
        return told


def check_plain(told: dict[str, Any]) -> None:
    """Names are words that programs can write, times and lengths are numbers whose name has the unit."""
    tables = [row for value in told.values() if isinstance(value, list) for row in value]
    for each in (told, *tables):
        for name, value in each.items():
            assert re.fullmatch("[a-z][A-Za-z0-9]*", name), name
            assert not re.fullmatch(r"[\d.:-]+( ?[a-z]+| [\d.:]+|%)", str(value)), (name, value)
            assert value is None or not name.endswith(("Ms", "Seconds", "Bytes", "Percent")) or value == float(value)


@pytest.fixture
def commands(spark: SparkSession, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    @contextmanager
    def session(*given: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(job, "spark_for", session)
    return Commands(servers.namesrv, tmp_path)


def test_each_command_does_its_work(commands: Commands, servers: Servers, topic: str, tmp_path: Path) -> None:
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for number in range(12):
            producer.send(topic, f"m{number}".encode(), keys=[f"k{number}"], tag="t")
    kept, run = str(tmp_path / "archive"), commands.run
    assert run("archive", kept, "--topic", topic, "--dry-run")["messages"] == 12
    assert run("archive", kept, "--topic", topic)["messages"] == 12
    assert json.loads(commands.metrics.read_text("utf-8"))["rows"] == 12
    assert run("backlog", "--topic", topic, "--group", "nobody")["messages"] == 12
    assert run("backlog", "--archive", kept, "--dry-run")["messages"] == 12
    assert run("analytics", "--topic", topic, "--window", "1h", "--since", "yesterday")["messages"] == 12
    assert run("search", "--archive", kept, "--key", "k3", "--until", "now")["found"] == 1
    assert run("reconcile", "--topic", topic, "--with-archive", kept)["agree"]
    assert run("forensics", str(servers.store()), "--topic", topic)["readable"] == 12
    words = ("--archive", kept, "--to", f"{topic}-wide", "--queues", "6", "--checkpoint", str(tmp_path / "run"))
    assert run("replay", *words, "--since", "yesterday 00:00", "--rate", "40")["messages"] == 12
    with Cluster(connection_options({"nameServer": servers.namesrv}, Use.BATCH)) as cluster:
        assert len(cluster.queues([f"{topic}-wide"])) == 6
    assert run("dedup", str(tmp_path / "once"), "--topic", topic, "--by", "tags")["messages"] == 1
    assert run("trace", "--trace-topic", topic)["messages"] == 0  # there are no traces in it


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("search --topic nope --key a", 1, "topic 'nope' does not exist"),
        ("search --topic {topic} --where tgas=1", 64, "`tgas` cannot be resolved"),
        ("search --topic {topic} --where a==='b'", 64, "Syntax error"),
        ("search --topic {topic} --key a -o nonsense=1", 78, "nonsense = '1': there is no such option"),
        ("replay --topic {topic} --to x --where tgas=1 --checkpoint {folder}/run", 64, "`tgas` cannot be resolved"),
        ("forensics {folder}", 78, "is not a store"),
    ],
)
def test_a_mistake_is_one_line(
    commands: Commands, servers: Servers, topic: str, tmp_path: Path, words: str, code: int, line: str
) -> None:
    servers.send(topic, 3)
    where = [] if words.startswith("forensics") else ["-n", servers.namesrv]
    given = [each.format(topic=topic, folder=tmp_path) for each in words.split()]
    done = CliRunner().invoke(cli, ["pipeline", *given, *where, "--progress", "off"])
    told = [each for each in done.stderr.splitlines() if each.startswith("pyromq: ")]
    assert (done.exit_code, len(told)) == (code, 1), done.stderr
    assert line in told[0]
    assert done.stdout == ""
