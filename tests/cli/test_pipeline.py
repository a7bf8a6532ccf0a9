"""`pyromq pipeline`: what is refused before Spark is started, and what every command writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyromq.cli.pipeline import analyse, job
from pyromq.cli.pipeline.pipeline import pipeline
from pyromq.pipelines.report.summary import Metrics, Plot, Summary, Table
from pyromq.pipelines.run.brokers import ExpiringTopic
from pyromq.pipelines.run.streaming import Stop


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("backlog", "--topic, --topic-pattern, --archive or --store says what to read"),
        ("backlog --store x --archive y", "each says what to read"),
        ("backlog --store x --group g", "lag is known to brokers alone"),
        ("backlog --topic T --conf x", "--conf x: write KEY=VALUE"),
        ("backlog --topic T --memory abc", "--memory abc: write a number and k, m, g or t"),
        ("backlog --topic T --master nowhere", "--master nowhere: write spark://HOST:PORT"),
        ("search --topic T", "says what to look for"),
        ("search --topic T --property x", "--property x: write KEY=VALUE"),
        ("replay --topic T", "Missing option '--to'"),
        ("replay --store x --to T", "replay reads topics and archives"),
        ("replay --topic T --to U --backlog-of g --since today", "leave out the other"),
        ("reconcile --topic T", "says what to compare with"),
        ("archive x", "says what to keep"),
        ("archive x --topic T --format orc", "Invalid value for '--format'"),
        ("dlq --group g --to T", "--to says where --redrive sends to"),
        ("dlq --group g --checkpoint x", "--checkpoint is for --redrive"),
        ("dlq --group g --redrive --traces", "--traces is for the report"),
        ("dedup x --store y", "leave them out"),
        ("analytics --topic T --every 1s", "a stream needs --checkpoint"),
        ("analytics --topic T --checkpoint x --since today", "leave out the others"),
        ("forensics", "Missing argument"),
        ("forensics /nowhere-at-all", "does not exist"),
    ],
)
def test_wrong_use_is_told_before_spark_is_started(arguments: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any, **named: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(job, "new_session", never)
    done = CliRunner().invoke(pipeline, arguments.split())
    assert text in done.output
    assert done.exit_code != 0


SUMMARY = Summary(
    "backlog",
    {"messages": 10},
    [Table("by queue", [{"queue": 0, "messages": 10}])],
    [Plot("Messages by queue", "bars", "messages", "queue", {"messages": {"0": 10}})],
    Metrics(10, 1000),
)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are run without a session: what is around them is looked at here."""

    @contextmanager
    def session(*given: Any) -> Iterator[None]:
        yield None

    class Quiet:
        def __init__(self, spark: Any, name: str, tell: Any, *, bar: bool, each: Any) -> None:
            tell(f"{name}: batch 0\n")
            each({"batches": 1})
            self.seconds = 2.0

        def __enter__(self) -> Quiet:
            return self

        def __exit__(self, *fault: object) -> None: ...

        def metrics(self, summary: Summary) -> dict[str, Any]:
            return {"pipeline": summary.pipeline, "rows": 10, "bytes": 1000, "seconds": 2.0, "rowsPerSecond": 5.0}

    monkeypatch.setattr(job, "spark_for", session)
    monkeypatch.setattr(job, "check_target", lambda goal, is_made: None)
    monkeypatch.setattr(job, "check_source", lambda source, use: None)
    monkeypatch.setattr("pyromq.pipelines.run.progress.ProgressListener", Quiet)
    monkeypatch.setattr("pyromq.pipelines.backlog.backlog", lambda spark, source, groups: SUMMARY)


@pytest.mark.usefixtures("no_spark")
def test_a_run_writes_summary_metrics_and_report(tmp_path: Path) -> None:
    metrics, report = tmp_path / "metrics.json", tmp_path / "report.html"
    arguments = ["backlog", "--topic", "T", "--json", "--metrics", str(metrics), "--report", str(report)]
    done = CliRunner().invoke(pipeline, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "pipeline": "backlog",
        "messages": 10,
        "by queue": [{"queue": 0, "messages": 10}],
    }
    assert done.stderr.splitlines() == ["backlog: batch 0", "backlog: 10 rows, 1,000 bytes in 2.0 s, 5.0 rows/s"]
    assert json.loads(metrics.read_text("utf-8"))["rowsPerSecond"] == 5.0
    assert "<svg" in report.read_text("utf-8")


@pytest.mark.usefixtures("no_spark")
def test_progress_can_be_switched_off_and_a_table_is_shown() -> None:
    done = CliRunner().invoke(pipeline, ["backlog", "--topic", "T", "--progress", "off"])
    assert "batch 0" not in done.stderr
    assert "backlog: by queue" in done.stdout


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(("agree", "code"), [(True, 0), (False, 1)])
def test_reconcile_answers_by_its_exit_code(agree: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}

    def run(spark: Any, left: dict[str, str], right: dict[str, str], **named: Any) -> Summary:
        found.update(left=left, right=right)
        return Summary("reconcile", {"agree": agree})

    monkeypatch.setattr("pyromq.pipelines.reconcile.reconcile", run)
    words = ["reconcile", "--topic", "T", "-n", "h:1", "-o", "tls=true", "--with-archive", "/data"]
    assert CliRunner().invoke(pipeline, words).exit_code == code
    assert found == {
        "left": {"nameServer": "h:1", "topic": "T", "tls": "true"},
        "right": {"archive": "/data", "topic": "T"},
    }
    assert analyse.reconcile.name == "reconcile"


@pytest.mark.usefixtures("no_spark")
def test_what_expires_and_dead_letters_are_archived_first(monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 3_600_000
    found = [
        ExpiringTopic("old", "a", 1, hour),
        ExpiringTopic("%DLQ%g", "a", 1, 90 * hour),
        ExpiringTopic("young", "a", 1, 90 * hour),
    ]
    asked: list[Any] = []

    def run(spark: Any, source: dict[str, str], folder: str, **named: Any) -> Summary:
        asked.append((source, folder, named["first"]))
        return Summary("archive", {})

    monkeypatch.setattr("pyromq.pipelines.run.brokers.ages", lambda namesrv, now_ms: found)
    monkeypatch.setattr("pyromq.pipelines.archive.archive", run)
    words = ["archive", "/data", "-n", "h:1", "--expiring", "12h"]
    done = CliRunner().invoke(pipeline, [*words, "--dead-letters"])
    assert "first old of a, 1.0 h left" in done.stderr
    assert CliRunner().invoke(pipeline, words).exit_code == 0
    source = {"nameServer": "h:1", "maxOffsetsPerTrigger": "500000"}
    assert asked == [(source, "/data", ["old", "%DLQ%g"]), (source, "/data", ["old"])]
    found.clear()
    assert "nothing goes within that time" in CliRunner().invoke(pipeline, words).stderr
    assert len(asked) == 2


@pytest.mark.usefixtures("no_spark")
def test_what_expires_is_asked_for_again_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [ExpiringTopic("old", "a", 1, 0)]
    asked: list[Any] = []

    def run(spark: Any, source: dict[str, str], folder: str, **named: Any) -> Summary:
        asked.append((named["first"], named["every"]))
        return Summary("archive", {})

    def wait(stop: Stop, seconds: float) -> bool:
        found.append(ExpiringTopic("older", "a", 1, -seconds_ms(seconds)))
        if len(asked) == 2:
            stop.asked.set()
        return stop.asked.is_set()

    monkeypatch.setattr("pyromq.pipelines.run.brokers.ages", lambda namesrv, now_ms: found)
    monkeypatch.setattr("pyromq.pipelines.archive.archive", run)
    monkeypatch.setattr(Stop, "wait", wait)
    done = CliRunner().invoke(pipeline, ["archive", "/data", "-n", "h:1", "--expiring", "12h", "--every", "10m"])
    assert done.exit_code == 0, done.output
    assert asked == [(["old"], ""), (["older", "old"], "")]
    assert "archive: stopped" in done.stderr


def seconds_ms(seconds: float) -> int:
    return round(seconds * 1000)


@pytest.mark.usefixtures("no_spark")
def test_a_replay_is_told_its_time_its_goal_and_its_queues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def run(spark: Any, source: dict[str, str], target: dict[str, str], folder: str, **named: Any) -> Summary:
        asked.update(source=source, target=target, folder=folder, **named)
        return Summary("replay", {})

    monkeypatch.setattr("pyromq.pipelines.replay.replay", run)
    monkeypatch.setattr("pyromq.pipelines.run.brokers.widen", lambda *given: asked.update(widened=given))
    words = [
        "replay",
        "--topic",
        "T",
        "-n",
        "h:1",
        "-o",
        "tls=true",
        "--to",
        "U",
        "--to-namesrv",
        "h:2",
        "--queues",
        "8",
    ]
    more = ["--since", "2026-11-15", "--rate", "5", "--checkpoint", str(tmp_path), "--every", "5s"]
    assert CliRunner().invoke(pipeline, words + more).exit_code == 0
    assert asked["source"] == {"nameServer": "h:1", "topic": "T", "tls": "true", "maxOffsetsPerTrigger": "500000"}
    assert asked["target"] == {"nameServer": "h:2", "topic": "U", "tls": "true"}
    net, *widened = asked["widened"]
    assert (net.name_server, net.tls, widened) == (("h:2",), True, ["U", 8])
    assert (asked["since_ms"], asked["rate"], asked["every"]) == (1_794_700_800_000, 5, "5s")
    assert asked["folder"] == str(tmp_path)
