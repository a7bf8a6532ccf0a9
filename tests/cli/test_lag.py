"""What would help a group that is behind. Pure."""

from __future__ import annotations

import pytest

from pyromq.admin.progress.advice import Load, advise


@pytest.mark.parametrize(
    ("load", "more", "said"),
    [
        (Load(queues=8, members=2, lag=0), 0, "nothing waits"),
        (Load(queues=8, members=0, lag=9), 1, "nobody consumes"),
        (Load(queues=8, members=3, lag=9), 5, "up to 5 more consumers would help (3 share 8 queues)"),
        (Load(queues=8, members=8, lag=9), 0, "More queues do: pyromq topic update --queues, or topic forward"),
        (Load(queues=8, members=1, lag=9, lock_wait="2 queues wait"), 0, "2 queues wait; more consumers would not"),
        (Load(queues=8, members=0, lag=9, lock_wait="2 queues wait"), 1, "nobody consumes"),
        (Load(queues=8, members=2, lag=9, is_broadcast=True), 0, "it broadcasts"),
        (Load(queues=8, members=2, lag=9, arriving=100, consuming=50), 6, "2 more would keep up, up to 6 more"),
        (
            Load(queues=4, members=2, lag=9, arriving=500, consuming=50),
            2,
            "18 more would keep up, the 4 queues",
        ),
        (Load(queues=8, members=2, lag=9, arriving=10, consuming=50), 6, "up to 6 more consumers would help"),
        (Load(queues=1, members=2, lag=9, is_popped=True), 1, "more consumers would help: it pops"),
        (Load(queues=1, members=0, lag=9, is_popped=True), 1, "nobody consumes: start it; it pops"),
        (Load(queues=1, members=2, lag=9, arriving=100, consuming=50, is_popped=True), 2, "2 more would keep up; it"),
    ],
)
def test_advice(load: Load, more: int, said: str) -> None:
    advice = advise(load)
    assert advice.more == more
    assert said in advice.text
