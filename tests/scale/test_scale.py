"""A small cluster on virtual time: whatever happens to it, name servers and brokers calm down by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scale.cluster import Size
from tests.scale.scenarios import SCENARIOS, run

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


def test_only_clients_of_lost_brokers_ask_more(tmp_path: Path) -> None:
    """Each of them a few times, and not for as long as the name server believes that the brokers are there."""
    quiet = run("steady load", SMALL, tmp_path)
    lost = run("a rack lost", SMALL, tmp_path)
    before, worst = quiet.before["name servers"].requests, lost.worst["name servers"].requests
    assert worst < before + SMALL.clients * 2 / 20 * 4  # brokers in twenty that are lost, of each topic four
