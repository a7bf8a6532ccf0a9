"""The harness can fail: every bug of `planted` is noticed."""

from __future__ import annotations

import pytest

from tests.crash.lives import tell
from tests.crash.planted import BUGS, Bug

SEEDS = 2000
NEEDS_FAILING_SYNCS = ("failed_sync_is_ignored", "failed_sync_is_tried_again", "unsynced_records_are_not_written_again")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    syncs_fail = True if bug.__name__ in NEEDS_FAILING_SYNCS else None
    for seed in range(SEEDS):
        try:
            tell(seed, syncs_fail=syncs_fail)
        except Exception:
            return
    pytest.fail(f"{SEEDS} stories were told, and {bug.__name__} was not noticed")


def test_without_a_bug_the_same_stories_end_well() -> None:
    for seed in range(50):
        tell(seed)
        tell(seed, syncs_fail=True)
