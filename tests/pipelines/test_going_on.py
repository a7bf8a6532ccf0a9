"""`--every`: streams that take what comes until they are stopped, reports that are made again and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyromq.ambient import pause
from pyromq.cli.pipeline.pipeline import pipeline
from pyromq.pipelines.analytics import analytics_stream
from pyromq.pipelines.archive import archive, read_archive
from pyromq.pipelines.dedup import dedup
from pyromq.pipelines.replay import replay
from pyromq.pipelines.report.summary import Summary
from pyromq.pipelines.run.progress import ProgressListener
from pyromq.pipelines.run.streaming import Stop
from tests.pipelines.test_commands import Commands, commands
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers

__all__ = ["commands"]
EVERY = "100ms"


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2400):
        if is_so():
            return
        pause(0.05)
    raise AssertionError("it did not come to that")


def stop(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()


def going_on(spark: SparkSession, work: Callable[[], Summary], steps: Callable[[], None]) -> Summary:
    """`work` goes on in a thread while `steps` are done, and is then stopped."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            steps()
        finally:
            stop(spark)
        return running.result(120)


def test_an_archive_that_goes_on_takes_what_comes(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """Its metrics are told while it goes on, and the next start goes on from there."""
    servers.send(topic, 20)
    folder, source = str(tmp_path / "archive"), {"nameServer": servers.namesrv, "topic": topic}
    told: list[dict[str, Any]] = []
    watch = ProgressListener(spark, "archive", lambda line: None, each=told.append)

    def steps() -> None:
        until(lambda: any(each["rows"] == 20 for each in told))
        servers.send(topic, 10, first=20)
        until(lambda: told[-1]["rows"] == 30)

    with watch:
        done = going_on(spark, lambda: archive(spark, source, folder, every=EVERY), steps)
    assert (done.facts["messages"], done.facts["gaps"]) == (30, 0)
    assert told[-1]["lag"] == 0
    assert told[-1]["batches"] >= 2
    servers.send(topic, 5, first=30)
    assert archive(spark, source, folder).metrics.rows == 5
    assert numbers(read_archive(spark, folder).collect()) == list(range(35))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replay", "dedup", "analytics"])
def test_others_go_on_too(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, name: str) -> None:
    servers.send(topic, 20)
    folder, source = str(tmp_path / "run"), {"nameServer": servers.namesrv, "topic": topic}
    target = {"nameServer": servers.namesrv, "topic": f"{topic}-copy"}
    servers.send(f"{topic}-copy", 1, first=1000)  # so that it can be read from the beginning
    work: dict[str, Callable[[], Summary]] = {
        "replay": lambda: replay(spark, source, target, folder, every=EVERY),
        "dedup": lambda: dedup(spark, source, folder, target=target, by="cast(body AS string)", every=EVERY),
        "analytics": lambda: analytics_stream(spark, source, folder, window="1h", every=EVERY),
    }
    seen: list[int] = []

    def there(count: int) -> bool:
        return seen[-1:] == [count] if name == "analytics" else len(rows(servers, f"{topic}-copy")) == count + 1

    def steps() -> None:
        until(lambda: there(20))
        servers.send(topic, 10, first=20)
        servers.send(topic, 10)  # again what was there: only dedup leaves it out
        until(lambda: there(30 if name == "dedup" else 40))

    with ProgressListener(spark, name, lambda line: None, each=lambda told: seen.append(told["rows"])):
        done = going_on(spark, work[name], steps)
    if name == "analytics":
        assert done.facts["messages"] == 40
    else:
        again = [] if name == "dedup" else [*range(10)]
        assert numbers(rows(servers, f"{topic}-copy")) == sorted([*range(30), *again, 1000])


def test_a_report_is_made_again_until_it_is_stopped(
    commands: Commands, servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.send(topic, 3)
    waits: list[float] = []

    def wait(stop: Stop, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 2:
            stop.asked.set()  # as a signal does
            return True
        servers.send(topic, 4, first=3)
        return False

    monkeypatch.setattr(Stop, "wait", wait)
    words = ["backlog", "-n", servers.namesrv, "--topic", topic, "--every", "1m", "--json", "--progress", "lines"]
    done = CliRunner().invoke(pipeline, words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert [json.loads(line)["messages"] for line in done.stdout.splitlines()] == [3, 7]
    assert waits == [60, 60]
    assert "backlog: stopped" in done.stderr
    assert "backlog: 7 rows" in done.stderr
