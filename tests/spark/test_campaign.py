"""A few kills of each kind under a stream; tests/spark/campaign.py does fifty by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.campaign import run

pytestmark = pytest.mark.slow  # two drivers are started: half a minute


def test_every_offset_comes_once_whatever_is_killed(tmp_path: Path) -> None:
    found = run(tmp_path, kills=4, seed=3)
    assert found["rows"] > 0
