"""`pyromq spark shell` and `pyromq pipeline`: what is said without Spark's help, and a session for people."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.support import require

TRIED = """\
from pyspark.errors import PySparkException
try:
    spark.read.format("rocketmq").load().count()
except PySparkException as fault:
    print("told", "nameServer: it is needed" in str(fault))

"""


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyromq", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=280)


def test_the_shell_has_a_session_with_the_source() -> None:
    require(shutil.which("java") is not None, "Spark needs Java: apt-get install openjdk-17-jre-headless")
    done = run("spark", "shell", "--master", "local[1]", "--memory", "512m", given=TRIED)
    assert done.returncode == 0, done.stderr
    assert "told True" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pipeline", "replay", "--to", "x"], "says what to read"),
        (["pipeline", "dlq", "--group", "g", "--to", "x"], "--to says where --redrive sends to"),
        (["pipeline", "backlog", "--topic", "x", "--conf", "a"], "--conf a: write KEY=VALUE"),
        (["pipeline", "backlog"], "--store says what to read; give one of them"),
    ],
)
def test_wrong_use_is_told_before_spark_starts(arguments: list[str], told: str) -> None:
    done = run(*arguments)
    assert done.returncode != 0
    assert told in done.stderr
