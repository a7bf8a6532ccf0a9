"""A small cluster on virtual time: whatever happens to it, name servers and brokers calm down by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.client.connect import heartbeats, session
from tests.scale.cluster import Size
from tests.scale.scenarios import SCENARIOS, run

ROUTE = "GET_ROUTEINFO_BY_TOPIC"
SMALL = Size(brokers=30, topics=500, clients=200)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_calms_down_by_itself(tmp_path: Path, scenario: str) -> None:
    outcome = run(scenario, SMALL, tmp_path)
    assert outcome.is_calm, outcome
    assert outcome.failed_at_the_end == 0
    assert outcome.brokers_known == (28 if scenario == "a rack lost" else 30)
    assert outcome.longest_send_s < 3, "no send waited as long as it may"
    assert "GET_ALL_TOPIC_LIST_FROM_NAMESERVER" not in outcome.kinds, "megabytes in a large cluster"


def test_the_same_seed_takes_the_same_steps(tmp_path: Path) -> None:
    size = Size(brokers=9, topics=30, clients=20)
    first, second = (run("a rack lost", size, tmp_path) for _ in range(2))
    assert first == second


def test_clients_that_do_not_tire_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would ask for routes every second for as long as a lost broker is in them: two minutes."""
    tiring = run("a rack lost", SMALL, tmp_path).kinds[ROUTE]
    for module in (session, heartbeats):
        monkeypatch.setattr(module, "growing_pause_s", lambda first_s, *_: first_s)
    tireless = run("a rack lost", SMALL, tmp_path).kinds[ROUTE]
    usual = SMALL.clients * 190 / 27  # of each client one in 27 to 30 s
    assert tiring < 1.25 * usual
    assert tireless > 1.25 * tiring
