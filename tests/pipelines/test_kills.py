"""The commands themselves, killed with SIGKILL (driver, JVM and workers) again and again, then left to finish. By hand.

    pytest -m slow tests/pipelines/test_kills.py

A kill comes when a file of the run appears: the offsets of a batch (planned), its rows, its manifest or mark, Spark's
commit. Wherever it falls, in the end each message is there once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyromq.ambient import pause
from tests.pipelines.test_dlq import reject_all
from tests.spark.conftest import QUICK
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers

pytestmark = pytest.mark.slow
COUNT, MOST = 200, "50"


def start(servers: Servers, *arguments: str, out: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pyromq", "pipeline", *arguments, "-n", servers.namesrv]
    quick = [word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.Popen(
        [*command, *quick, "--memory", "1g", "--progress", "off"], stdout=out, start_new_session=True
    )


def kill_when(process: subprocess.Popen[bytes], is_time: Callable[[], bool]) -> bool:
    """Whether it was killed; it may have been faster, and then the run shows less than it says."""
    try:
        while process.poll() is None and not is_time():
            pause(0.002)
        return process.poll() is None
    finally:
        kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """With its JVM and Spark's Python: they may be in sessions of their own, and would take a moment to notice."""
    if process.poll() is None:
        for pid in with_children(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait(60)


def with_children(root: int) -> list[int]:
    found = [root]
    for pid in found:  # grows as it goes
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                found += [int(word) for word in (thread / "children").read_text().split()]
    return found


@pytest.mark.parametrize("whom", [os.kill, os.killpg])
def test_a_stream_that_is_told_to_end_tells_what_it_did(
    servers: Servers, topic: str, tmp_path: Path, whom: Callable[[int, int], None]
) -> None:
    """SIGTERM, to the command or to its whole process group, as systemd and `timeout` send it: Spark's processes do not
    end before the command. The metrics are there while it goes on."""
    servers.send(topic, COUNT)
    folder, metrics = tmp_path / "archive", tmp_path / "metrics.json"
    words = ("archive", str(folder), "--topic", topic, "--every", "1s", "--json", "--metrics", str(metrics))
    process = start(servers, *words, out=subprocess.PIPE)
    try:
        while not metrics.exists() or json.loads(metrics.read_text("utf-8"))["rows"] < COUNT:
            assert process.poll() is None
            pause(0.05)
        whom(process.pid, signal.SIGTERM)
        told, _ = process.communicate(timeout=120)
    finally:
        kill_all(process)
    assert process.returncode == 0
    assert json.loads(told)["messages"] == COUNT
    assert archived(folder) == list(range(COUNT))


def test_a_run_that_is_told_to_end_before_its_end_says_so_and_is_gone_on_with(
    servers: Servers, topic: str, tmp_path: Path
) -> None:
    """The whole process group again, in the first of four batches. Exit code 1: the answer is no, it is not done."""
    servers.send(topic, COUNT)
    folder = tmp_path / "archive"
    words = ("archive", str(folder), "--topic", topic, "--most", MOST)
    process = start(servers, *words)
    try:
        while not (folder / "checkpoint" / "offsets" / "0").exists():
            assert process.poll() is None
            pause(0.002)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(120) == 1
    finally:
        kill_all(process)
    end(start(servers, *words))
    assert archived(folder) == list(range(COUNT))


def archived(folder: Path) -> list[int]:
    """The messages of all batches with a manifest, read without Spark."""
    found: list[int] = []
    for manifest in (folder / "manifest").glob("*.json"):
        if json.loads(manifest.read_text("utf-8"))["queues"]:
            table = pq.read_table(folder / "data" / f"batch={manifest.stem}", columns=["body"])
            found += [int(body[1:]) for body in table["body"].to_pylist()]
    return sorted(found)


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(240) == 0


@pytest.mark.parametrize(
    "places",
    [
        ["checkpoint/offsets/0", "data/batch=1", "manifest/2.json"],
        ["data/batch=0/_temporary", "manifest/1.json", "checkpoint/commits/2"],
    ],
)
def test_an_archive_of_killed_runs_has_every_message_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, COUNT)
    folder = tmp_path / "archive"
    words = ("archive", str(folder), "--topic", topic, "--most", MOST)
    kills = [kill_when(start(servers, *words), (folder / place).exists) for place in places]
    end(start(servers, *words))
    assert all(kills)
    assert archived(folder) == list(range(COUNT))


@pytest.mark.parametrize(
    "places",
    [
        ["checkpoint/offsets/0", "checkpoint/offsets/1", "checkpoint/commits/2"],
        ["begun/0", "begun/1", "checkpoint/commits/1"],
    ],
)
def test_a_replay_of_killed_runs_sends_every_message_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, COUNT)
    folder = tmp_path / "run"
    words = ("replay", "--topic", topic, "--to", f"{topic}-copy", "--most", MOST, "--checkpoint", str(folder))
    kills = [kill_when(start(servers, *words), (folder / place).exists) for place in places]
    end(start(servers, *words))
    assert all(kills)
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(COUNT))


@pytest.mark.parametrize("places", [["begun/0", "done/0", "begun/2"]])
def test_a_replay_of_an_archive_of_killed_runs_sends_every_message_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, COUNT)
    kept, folder = str(tmp_path / "archive"), tmp_path / "run"
    end(start(servers, "archive", kept, "--topic", topic, "--most", MOST))
    words = ("replay", "--archive", kept, "--to", f"{topic}-copy", "--checkpoint", str(folder))
    kills = [kill_when(start(servers, *words), (folder / place).exists) for place in places]
    end(start(servers, *words))
    assert all(kills)
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(COUNT))


@pytest.mark.parametrize("places", [["checkpoint/offsets/0", "data/batch=1", "manifest/2.json"]])
def test_windows_of_killed_runs_count_every_message_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, COUNT)
    folder = tmp_path / "windows"
    given = ("--topic", topic, "--window", "1h", "--checkpoint", str(folder), "-o", f"maxOffsetsPerTrigger={MOST}")
    kills = [kill_when(start(servers, "analytics", *given), (folder / place).exists) for place in places]
    process = start(servers, "analytics", *given, "--json", out=subprocess.PIPE)
    try:
        told, _ = process.communicate(timeout=240)
    finally:
        kill_all(process)
    assert all(kills)
    assert process.returncode == 0
    assert json.loads(told)["messages"] == COUNT


@pytest.mark.parametrize(
    "places",
    [
        ["manifest/0.json", "checkpoint/offsets/1", "manifest/2.json"],
        ["data/batch=0", "begun/1", "checkpoint/commits/2"],
    ],
)
def test_dedup_of_killed_runs_keeps_and_sends_every_message_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, COUNT)
    servers.send(topic, COUNT)
    folder = tmp_path / "once"
    words = (
        "dedup",
        str(folder),
        "--topic",
        topic,
        "--to",
        f"{topic}-once",
        "--by",
        "cast(body AS string)",
        "--most",
        "100",
    )
    kills = [kill_when(start(servers, *words), (folder / place).exists) for place in places]
    end(start(servers, *words))
    assert all(kills)
    assert archived(folder) == list(range(COUNT))
    assert numbers(rows(servers, f"{topic}-once")) == list(range(COUNT))


@pytest.mark.parametrize("places", [["checkpoint/offsets/0", "begun/1", "checkpoint/commits/1"]])
def test_a_redrive_of_killed_runs_sends_every_dead_letter_once(
    servers: Servers, topic: str, tmp_path: Path, places: list[str]
) -> None:
    servers.send(topic, 60)
    group, folder = f"g-{topic}", tmp_path / "run"
    reject_all(servers, topic, group, 60)
    words = ("dlq", "--group", group, "--redrive", "--checkpoint", str(folder), "-o", "maxOffsetsPerTrigger=20")
    kills = [kill_when(start(servers, *words), (folder / place).exists) for place in places]
    end(start(servers, *words))
    assert all(kills)
    found = rows(servers, topic)
    assert len(found) == 120
    assert numbers([row for row in found if "REDRIVE_ID" in dict(row.properties)]) == list(range(60))
