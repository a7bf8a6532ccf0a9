"""kill -9 and power loss on real file systems: CI's share of the cycles. `tests.crash.campaign` runs the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.real import why_no_power_cuts
from tests.support import require

ROOT = Path(__file__).parents[2]


def crash(*arguments: str) -> dict[str, Any]:
    """In a process of its own, since it forks."""
    command = [sys.executable, "-m", "tests.crash.real", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


def test_killed_processes_lose_nothing_that_was_acked() -> None:
    totals = crash("kill", "--cycles", "30")
    assert totals["cycles"] == 30
    assert totals["acks"] > 300
    assert totals["lost"] == 0


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_power_loss_keeps_the_promise_of_the_flush_mode(kind: str) -> None:
    reason = why_no_power_cuts(kind)
    require(reason is None, str(reason))
    totals = crash("power", "--fs", kind, "--cycles", "30")
    assert totals["cycles"] == 30
    assert totals["acks"] > 300
    assert totals["lost"] > 0  # of ASYNC_FLUSH: else the power was not really cut
