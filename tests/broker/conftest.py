"""Tables on a simulated disk, and clients that are nothing but an address."""

from __future__ import annotations

import pytest

from pyromq.testing.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()
