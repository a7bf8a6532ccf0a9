"""Whole clusters under faults of every kind, by seeds: every promise to clients and between replicas is kept.

More seeds by hand: `python -m tests.cluster.campaign --seeds 1000`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.cluster.planted import BUGS
from tests.cluster.storm import run_storm
from tests.support import ROOT

SEEDS, CHUNK = 60, 20
QUICK_SEEDS = 20


def campaign(first: int, seeds: int, *more: str) -> str:
    """Return what a campaign prints; its exit code is 0."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.cluster.campaign", "--from", str(first), "--seeds", str(seeds), *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_promise_is_broken(first: int) -> None:
    said = campaign(first, CHUNK)
    acks, elections = (int(number) for number in re.findall(r"(\d+) (?:acknowledged|elections)", said))
    assert acks > 10 * CHUNK  # it was not the silence of a set that does nothing
    assert elections > 1.5 * CHUNK


def test_the_same_seed_takes_the_same_steps() -> None:
    once, again = campaign(0, 3, "--traces"), campaign(0, 3, "--traces")
    assert once == again
    assert len(set(once.splitlines())) == 4


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str) -> None:
    assert any(run_storm(seed, BUGS[bug]).violation is not None for seed in range(QUICK_SEEDS))
