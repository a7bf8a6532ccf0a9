"""The same code on a real Spark cluster: a master and two workers on this machine, started and stopped here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from pyromq.ambient import pause
from tests.spark.dying_writer import ROWS
from tests.spark.reading import numbers, rows
from tests.spark.servers import Servers

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ALONE = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}


def start(folder: Path, *arguments: str, until: str) -> tuple[subprocess.Popen[bytes], str]:
    """A daemon of Spark's, and what its log says when it is up. The log is a file: a pipe that nobody reads would hold
    the daemon up once it is full, in the middle of somebody's job."""
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(_CLASS), *arguments], env={**_ALONE, "SPARK_WORKER_DIR": str(folder)}, stderr=log
        )
    while (found := re.search(until, (folder / "log").read_text("utf-8"))) is None:
        assert process.poll() is None, f"{arguments[0]} did not come up"
        pause(0.1)
    return process, found[0]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tmp_path = tmp_path_factory.mktemp("cluster")
    running: list[subprocess.Popen[bytes]] = []
    try:
        process, address = start(
            tmp_path,
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            until=r"spark://127\.0\.0\.1:\d+(?=\s)",
        )
        running.append(process)
        for number in range(2):
            worker, _ = start(
                tmp_path / str(number),
                "org.apache.spark.deploy.worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m", address),
                until="Successfully registered with master",
            )
            running.append(worker)
        yield address
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_pipeline_runs_on_two_workers(master: str, servers: Servers, topic: str) -> None:
    servers.send(topic, 200)
    command = [sys.executable, "-m", "pyromq", "pipeline", "backlog", "-n", servers.namesrv, "--topic", topic]
    settings = ["--conf", "spark.executor.memory=500m", "--conf", "spark.cores.max=2", "--memory", "600m"]
    done = subprocess.run(
        [*command, "--json", "--master", master, *settings],
        env=_ALONE,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["messages"] == 200


def test_a_query_runs_on_two_workers(master: str, servers: Servers, topic: str) -> None:
    servers.send(topic, 60, tag="a")
    command = [sys.executable, "-m", "pyromq", "sql", f'SELECT tag, count(*) AS n FROM "{topic}" GROUP BY tag']
    settings = ["--conf", "spark.executor.memory=500m", "--conf", "spark.cores.max=2", "--memory", "600m"]
    done = subprocess.run(
        [*command, "-n", servers.namesrv, "--json", "--spark", "--master", master, *settings],
        env=_ALONE,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert (done.returncode, done.stdout) == (0, '{"tag": "a", "n": 60}\n'), done.stderr[-3000:]


@pytest.mark.slow  # executors are lost and replaced: half a minute
def test_a_task_that_dies_between_send_and_commit_is_stored_once(
    master: str, servers: Servers, topic: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.spark.dying_writer", master, servers.namesrv, topic, str(tmp_path)]
    done = subprocess.run(command, env=_ALONE, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["died-0", "died-1"]
    assert numbers(rows(servers, topic, ["body"])) == list(range(ROWS))
