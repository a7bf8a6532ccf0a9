"""Tables on a simulated disk, and clients that are nothing but an address."""

from __future__ import annotations

import pytest

from pyromq.broker.pull.verdicts import PullVerdicts
from pyromq.testing.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def python_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that make memory cold for Python's reads: a native kernel would look into the page cache itself."""
    monkeypatch.setattr(PullVerdicts, "judge", lambda verdicts, question: None)
