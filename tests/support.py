"""What every test folder may use: `from tests.support import require`."""

from __future__ import annotations

import os

import pytest

IN_CI = os.environ.get("PYROMQ_CI") == "1"


def require(condition: bool, reason: str) -> None:
    """Skip with a reason where this machine lacks something; under PYROMQ_CI=1 that is a failure instead."""
    if condition:
        return
    if IN_CI:
        pytest.fail(f"PYROMQ_CI=1 allows no skips: {reason}", pytrace=False)
    pytest.skip(reason)
