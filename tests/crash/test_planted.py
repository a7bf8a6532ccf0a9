"""The harness can fail: every bug of `planted` is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.lives import Story, tell
from tests.crash.planted import BUGS, Bug

SEEDS = 2000

# Bugs that show under one kind of weather alone get that weather.
WEATHER: dict[str, dict[str, Any]] = {
    "failed_sync_is_ignored": {"syncs_fail": True},
    "failed_sync_is_tried_again": {"syncs_fail": True},
    "unsynced_records_are_not_written_again": {"syncs_fail": True, "fates": (Story.killed, Story.power_goes)},
    "names_of_a_killed_process_are_not_synced": {"fates": (Story.killed, Story.power_goes)},
    "record_without_its_end_is_kept": {"fates": (Story.power_goes, Story.power_goes)},
    "crc_is_not_checked": {"fates": (Story.power_goes, Story.power_goes)},
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    for seed in range(SEEDS):
        try:
            tell(seed, **WEATHER.get(bug.__name__, {}))
        except Exception:
            return
    pytest.fail(f"{SEEDS} stories were told, and {bug.__name__} was not noticed")


def test_without_a_bug_the_same_stories_end_well() -> None:
    for seed in range(50):
        tell(seed)
        tell(seed, fates=(Story.killed, Story.power_goes))
