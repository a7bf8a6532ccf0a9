"""What is told of progress: lines, a bar, lag. The parts that need no Spark."""

from __future__ import annotations

import json

from pyromq.pipelines.watching import batch_line, lag, task_line


def test_lag_is_what_waits_behind_the_batch() -> None:
    end = json.dumps({"T": {"a": {"0": 10, "1": 5}}})
    latest = json.dumps({"T": {"a": {"0": 12, "1": 5, "2": 3}}})
    assert lag(end, latest) == 5
    assert lag(end, None) is None


def test_lines() -> None:
    assert batch_line("archive", 3, 40_000, 1234.5, 60) == "archive: batch 3, 40,000 rows, 1,234 rows/s, lag 60"
    assert task_line("search", 5, 10, bar=False) == "search: 5 of 10 tasks"
    assert task_line("search", 5, 10, bar=True).count("#") == 15
