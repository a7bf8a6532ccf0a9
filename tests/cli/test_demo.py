"""`make demo` as a stranger meets it: it shows every kind of message, ends with 0 and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli import demo as demo_module
from pyromq.cli.demo.run import DemoRun, start
from pyromq.errors import PyroError


def run_demo(temporary: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "120", "HOME": str(temporary / "home")}
    return subprocess.run(
        [sys.executable, "-m", "pyromq", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def test_the_demo_shows_every_kind_and_cleans_up(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for kind in (
        "plain",
        "in order",
        "only some",
        "all or nothing",
        "again",
        "question and answer",
        "to everybody",
        "later",
    ):
        assert f"> {kind}: " in done.stdout
    assert "kill -9, and up again" in done.stdout
    assert "nothing that was sent before is lost" in done.stdout
    assert re.search(r"greetings +broker-a +0 +([23]) +\1 +0", done.stdout)  # the lag of a group, wherever it began
    assert re.search(r"group +sleepers: consumed", done.stdout)  # the life of a message
    assert re.search(r"consumed +readers", done.stdout)  # the trace of another
    assert re.search(r"greetings\W+broker-a\W+0\W+[23]", done.stdout)  # Spark's table
    assert "backlog: messages 30" in done.stdout
    assert list(tmp_path.iterdir()) == []
    processes = re.findall(r"process (\d+)", done.stdout)
    assert len(processes) == 2
    assert not any(is_running(int(one)) for one in processes)


def test_a_demo_that_is_terminated_cleans_up_too(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "pyromq", "demo"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        server = next(found for line in running.stdout if (found := re.search(r"process (\d+)", line)))
        running.send_signal(signal.SIGTERM)
        running.stdout.read()
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
    assert not is_running(int(server[1]))


def is_running(process_id: int) -> bool:
    command = Path(f"/proc/{process_id}/cmdline")
    return command.exists() and b"pyromq" in command.read_bytes()


async def test_a_step_that_fails_stops_the_name_server_and_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def fail(stage: DemoRun) -> None:
        started.append(stage.namesrv)
        raise PyroError("this step failed")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(PyroError, match="this step failed"):
        await demo_module.run_steps([start, fail])
    assert len(started) == 1
    assert os.listdir(tmp_path) == []
