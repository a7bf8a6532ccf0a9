"""`pyromq demo cdc`: everything is killed in turn, the comparison at the end is empty, and nothing is left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli.demo import databases
from pyromq.errors import PyroError
from tests.cdc.mariadb import require_mariadb
from tests.cdc.postgres import require_postgres
from tests.cli.test_demo import is_running
from tests.support import require


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: sockets of databases stand in it."""
    return tmp_path_factory.mktemp("d")


def run_demo(temporary: Path, *words: str) -> str:
    environment = {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "200", "HOME": str(temporary / "home")}
    command = [sys.executable, "-m", "pyromq", "demo", "cdc", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(printed: str, temporary: Path, kills: int, sinks: int) -> None:
    assert printed.count("kill -9") == kills
    assert printed.count("cdc-verify: tables 1, ") == printed.count("agree yes") == sinks
    assert list(temporary.iterdir()) == []
    processes = re.findall(r"process\s+(\d+)", printed)
    assert len(processes) >= 4 + sinks + kills
    assert not any(is_running(int(one)) for one in processes)


def test_a_database_reaches_its_sink_though_capture_and_redis_are_killed(temporary: Path) -> None:
    require_mariadb()
    require(shutil.which("redis-server") is not None, "Redis is not installed: apt-get install redis-server")
    words = ("--database", "mariadb", "--sink", "redis", "--kill", "capture", "--kill", "redis")
    check(run_demo(temporary, *words), temporary, 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_everything_is_killed_in_turn(temporary: Path, kind: str) -> None:
    (require_mariadb if kind == "mariadb" else require_postgres)()
    check(run_demo(temporary, "--database", kind), temporary, 5, 2)


def test_what_is_missing_is_one_line_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "find_program", lambda *names: "")
    for kind, package in (
        ("", "mariadb-server (or postgresql)"),
        ("mariadb", "mariadb-server"),
        ("postgresql", "postg"),
    ):
        with pytest.raises(PyroError, match=re.escape(f"apt-get install {package}")) as refused:
            databases.choose_database(kind, tmp_path)
        assert "\n" not in str(refused.value)


def test_a_folder_whose_path_is_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    require_mariadb()
    place = tmp_path / ("long" * 20)
    place.mkdir()
    with pytest.raises(PyroError, match="set TMPDIR to a short one"):
        databases.choose_database("mariadb", place)
    assert list(place.iterdir()) == []
