"""For the whole suite: `require`, hypothesis profiles, its division among workers, and the minutes per folder."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import pyromq
from tests import workers
from tests.support import IN_CI, require

__all__ = ["require"]

# Deadlines would assert timings; a busy machine is not a failure. CI runs the same examples each time.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "default")


def pytest_configure() -> None:
    """Refuse to test a copy that `pip install .` has made, of whatever sources: it would not be this tree."""
    found, tree = Path(pyromq.__file__).parent, Path(__file__).parents[1] / "src" / "pyromq"
    if not found.samefile(tree):
        raise pytest.UsageError(f"pyromq is imported from {found}: to test {tree}, pip install --editable .")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> workers.Units:
    """Divide the suite among workers by `tests/workers.py`, in the order that it says and not by number of tests."""
    config.option.loadscopereorder = False
    return workers.Units(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest units first where workers share the suite."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: workers.order_of(item.nodeid))


def pytest_runtest_setup() -> None:
    """Let tables be as wide as they are: Spark's side of a process may have set a width for all that follows."""
    os.environ.pop("COLUMNS", None)


def pytest_collection_finish() -> None:
    """Keep what stays until the end (modules, 7,000 collected tests) out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the minutes per test folder: set-up, call and teardown of every test in it, whichever worker ran it."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = _folder(report.nodeid)
                seconds[folder] += report.duration
                counts[folder] += report.when == "call"
    if not seconds:
        return
    terminalreporter.section("minutes per test folder")
    for folder in sorted(seconds, key=lambda name: -seconds[name]):
        terminalreporter.write_line(f"{seconds[folder] / 60:8.2f} min  {counts[folder]:6d} tests  {folder}")
    terminalreporter.write_line(f"{sum(seconds.values()) / 60:8.2f} min  {sum(counts.values()):6d} tests  all")


def _folder(nodeid: str) -> str:
    """Return a test's folder by its id: the file of one that a library generates (state machines) is that library's."""
    parts = Path(nodeid.partition("::")[0]).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
