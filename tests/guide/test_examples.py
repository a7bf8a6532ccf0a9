"""The programs of examples/ do what they say, as processes of their own against a `pyromq up`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.guide.conftest import Up

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTS = {
    "close_unpaid_orders": [
        "orders 1 and 2: placed",
        "order 1: paid, its timer is taken back",
        "order 2: nobody paid, closed",
    ],
    "order_with_points": [
        "bob's card was refused",
        "ann has paid",
        "orders of ann; points {'ann': 25, 'bob': 0}; carts {'ann': [], 'bob': ['lamp']}",
    ],
    "flash_sale": [
        "5000 wishes are safe with the broker",
        "sold 100, left 0, 4900 came too late",
        "the last who got one was number 118",
    ],
    "replay_from_yesterday": ["3 sales since yesterday 00:00, 42 in all"],
    "ask_and_reply": ["squares: 0 1 4 9 16"],
    "ordered_by_key": ["ann: created, paid, packed, sent", "bob: created, paid, packed, sent"],
    "share_slow_work": ["rendered city, sea, wood; each once: True"],
    "forget_changed_rows": [
        "items pen and ink are in the cache",
        "forgotten: 1 (update), 2 (delete); items are now pencil and None",
    ],
    "replay_blocking": ["sent 100 readings", "sum of all values: 4950"],
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_did(name: str, up: Up) -> None:
    assert up.run(sys.executable, str(EXAMPLES / f"{name}.py")).splitlines() == PRINTS[name]


def test_orders_are_sent_and_billed(up: Up) -> None:
    printed = up.run(sys.executable, str(EXAMPLES / "send_and_consume.py"))
    assert printed.count("sent order") == 3
    assert "billed order 2, attempt 1" in printed


def test_every_example_is_run_here() -> None:
    plain = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("spark")}
    assert plain == {*PRINTS, "send_and_consume"}
