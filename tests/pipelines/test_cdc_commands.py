"""cdc-lake, cdc-mongo and cdc-redis as commands on real stores: broken off and gone on with; a store away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyromq.ambient import pause
from pyromq.cli.main import cli
from pyromq.pipelines.cdc import delivery
from pyromq.pipelines.cdc.delivery import deliver
from pyromq.pipelines.cdc.rows import RowWrite
from pyromq.pipelines.cdc.sinks import Applied, OpenSink, Sink, SinkAway
from tests.pipelines.changes import workload
from tests.pipelines.faults import instead
from tests.pipelines.test_cdc_delivery import sent
from tests.pipelines.test_cdc_sinks import Store, documents, hashes, iceberg, lake, store, tables
from tests.pipelines.test_commands import Commands, commands
from tests.spark.servers import Servers

__all__ = ["commands", "documents", "hashes", "iceberg", "lake", "store", "tables"]

HOW = {"RedisSink": ("cdc-redis", "--prefix", "c:", "--redis"), "MongoSink": ("cdc-mongo", "--mongo")}
HOW |= {"JdbcSink": ("cdc-jdbc", "--postgres"), "DeltaSink": ("cdc-lake", "--delta")}
HOW |= {"IcebergSink": ("cdc-lake", "--iceberg")}
PATIENCE = 4800  # of 50 ms: a slow machine is no fault


def words(store: Store, topic: str) -> tuple[str, ...]:
    """Return the command that delivers the topic to the store, but for its folder."""
    sink: Any = store.sink
    how = HOW[type(sink).__name__]
    return (*how, getattr(sink, "url", "") or sink.folder, "--topic", topic)


@pytest.mark.parametrize("store", ["lake", "iceberg", "documents"], indirect=True)
def test_a_command_goes_on_where_a_run_was_broken_off(
    store: Store, spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, commands: Commands
) -> None:
    """When the store had the rows of a batch, and nobody had noted that."""
    events, rows = workload(41, 120, topic)
    sent(servers, events)
    source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "80"}
    name, *more = words(store, topic)
    with instead(delivery, "write_text"), pytest.raises(Exception, match="killed by the test"):
        deliver(spark, source, store.sink, str(tmp_path / "run"), name, tasks=1)
    told = commands.run(name, *more, str(tmp_path / "run"))
    assert (told["events"], told["notDelivered"]) == (120, 0)
    assert told["repeats"] > 0
    assert store.rows() == rows


def until(is_so: Callable[[], bool], work: Future[Any]) -> None:
    for _ in range(PATIENCE):
        if is_so():
            return
        assert not work.done(), work.result()
        pause(0.05)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize(
    "store",
    ["hashes", *[pytest.param(each, marks=pytest.mark.slow) for each in ("tables", "documents")]],
    indirect=True,
)
def test_a_store_that_goes_away_under_a_stream_holds_it_up_until_it_is_back(
    store: Store, spark: SparkSession, servers: Servers, topic: str, tmp_path: Path, commands: Commands
) -> None:
    """The stream plans one batch and no further. When --wait is over it ends with one line; a new start goes on."""
    assert store.process is not None
    events, rows = workload(42, 200, topic)
    sent(servers, events)
    folder = tmp_path / "run"
    name, *more = words(store, topic)
    call = ["pipeline", name, *more, str(folder), "-n", servers.namesrv, "--most", "20", "--progress", "off"]

    def noted() -> int:
        return len(list((folder / "delivered").glob("[0-9]*.json")))

    def planned() -> int:
        return len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))

    with ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(_when_noted, noted, store)
        done = CliRunner().invoke(cli, [*call, "--wait", "1s"])
        stopped.result()
        (line,) = re.findall("^pyromq: .*$", done.stderr, re.MULTILINE)
        assert done.exit_code not in (0, 1), done.stderr
        assert "the sink was away for 1 s" in line
        assert "it goes on where it was" in line
        assert planned() == noted() + 1
        assert spark.range(1).count() == 1  # the session is as good as before

        store.process.start()
        source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "20"}
        before, sink = noted(), watched(store.sink, tmp_path / "waits")
        store.process.stop()
        work = beside.submit(deliver, spark, source, sink, str(folder), name, tasks=1)
        until(lambda: (tmp_path / "waits").exists(), work)
        assert (planned(), noted()) == (before + 1, before)  # it reads no further
        store.process.start()
        summary = work.result()
    assert summary.facts["notDelivered"] == 0
    assert sum(json.loads(each.read_text("utf-8"))["events"] for each in (folder / "delivered").glob("*.json")) == 200
    assert store.rows() == rows


def watched(sink: Sink, sign: Path) -> Sink:
    """Return the sink, which leaves a sign where it is away in a task, and begins in whichever state it is."""

    class Watched:  # here, so that Spark sends it to its workers as a whole
        place = sink.place

        def check(self, *, dry_run: bool = False) -> None: ...

        @contextmanager
        def opened(self) -> Iterator[OpenSink]:
            with sink.opened() as opened:
                self._opened = opened
                yield self

        def apply(self, writes: Sequence[RowWrite]) -> Applied:
            try:
                return self._opened.apply(writes)
            except SinkAway:
                sign.touch()
                raise

        def sweep(self, table: str, below: int) -> int:
            return self._opened.sweep(table, below)

    return Watched()


def _when_noted(noted: Callable[[], int], store: Store) -> None:
    for _ in range(PATIENCE):
        if noted():
            break
        pause(0.05)
    assert store.process is not None
    store.process.stop()
