"""The commands on a real Spark cluster of two workers: an archive of a topic, and a replay of that archive. By hand.

pytest -m slow tests/pipelines/test_standalone.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers
from tests.spark.test_standalone import _ALONE, master

__all__ = ["master"]
pytestmark = pytest.mark.slow


def run(master: str, servers: Servers, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "pyromq", "pipeline", *words, "-n", servers.namesrv, "--json", "--master", master]
    settings = ["--conf", "spark.executor.memory=500m", "--conf", "spark.cores.max=2", "--memory", "600m"]
    done = subprocess.run([*command, *settings], env=_ALONE, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_an_archive_is_made_and_replayed_on_two_workers(
    master: str, servers: Servers, topic: str, tmp_path: Path, form: str
) -> None:
    servers.send(topic, 200)
    kept, checkpoint = str(tmp_path / "archive"), str(tmp_path / "run")
    done = run(master, servers, "archive", kept, "--topic", topic, "--most", "120", "--format", form)
    assert (done["messages"], done["gaps"], done["batches"]) == (200, 0, 2)
    words = ("replay", "--archive", kept, "--to", f"{topic}-copy", "--checkpoint", checkpoint)
    assert run(master, servers, *words)["messages"] == 200
    assert numbers(rows(servers, f"{topic}-copy")) == list(range(200))
