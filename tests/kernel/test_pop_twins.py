"""The native table of check points and its twin in Python: the same answers, states and journals, byte for byte."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.kernel.pops import POINT_BYTES, DamagedJournal
from pyromq.kernel.python.pop_table import PopTable
from tests.kernel.pop_steps import Step, state_of, steps
from tests.kernel.twins import native_module


def pair(most_bytes: int) -> tuple[PopTable, PopTable]:
    return native_module().PopTable(most_bytes), PopTable(most_bytes)


def called(native: PopTable, python: PopTable, name: str, *arguments: Any) -> Any:
    return same(native, python, lambda table: getattr(table, name)(*arguments))


def same(native: PopTable, python: PopTable, step: Step) -> Any:
    """Take a step on both; what they say is the same, errors too."""
    said: list[tuple[Any, Any]] = []
    for table in (native, python):
        try:
            said.append((step(table), None))
        except (ValueError, OverflowError) as fault:
            said.append((None, type(fault)))
    assert said[0] == said[1]
    return said[0]


@settings(max_examples=300)
@given(st.lists(st.one_of(steps(), st.booleans()), max_size=60))
def test_both_tables_say_and_write_the_same(drawn: list[Step | bool]) -> None:
    native, python = pair(12 * POINT_BYTES)
    for number, step in enumerate(drawn):
        if isinstance(step, bool):
            called(native, python, "note_base", number, number if step else 0)
        else:
            same(native, python, step)
        assert native.entry_bytes == python.entry_bytes
        if number % 3 == 0:
            assert native.take_entries() == python.take_entries()
        assert state_of(native) == state_of(python)
    assert native.take_entries() == python.take_entries()


@settings(max_examples=500)
@given(st.lists(steps(), min_size=1, max_size=20), st.integers(0, 1 << 32))
def test_both_replay_damaged_journals_alike(drawn: list[Step], seed: int) -> None:
    table = PopTable(1 << 20)
    for step in drawn:
        step(table)
    table.note_base(5, 5)
    raw, chance = bytearray(table.take_entries()), random.Random(seed)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(raw) + 1)
        raw[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    native, python = pair(1 << 20)
    refused = []
    for one in (native, python):
        with suppress(DamagedJournal):
            one.replay(bytes(raw))
            refused.append("")
            continue
        refused.append("refused")
    assert refused[0] == refused[1]
    assert state_of(native) == state_of(python)


@settings(max_examples=200)
@given(st.lists(steps(), max_size=30), st.lists(st.tuples(steps(), st.booleans()), max_size=30))
def test_tables_that_were_replayed_go_on_alike(told: list[Step], later: list[tuple[Step, bool]]) -> None:
    """Orders of due time and age are made once they are asked for: what changes before that must be in them."""
    teller = PopTable(1 << 20)
    for step in told:
        step(teller)
    journal = teller.take_entries()
    native, python = pair(1 << 20)
    for table in (native, python):
        table.replay(journal)
    for step, is_asked in later:
        same(native, python, step)
        if is_asked:
            assert state_of(native) == state_of(python)
    assert native.take_entries() == python.take_entries()
    assert state_of(native) == state_of(python)


@pytest.mark.parametrize("seed", range(3))
def test_many_check_points(seed: int) -> None:
    """Thousands on one lane, settled in any order: rings and orders that grow, shift and shrink."""
    native, python = pair(1 << 30)
    chance = random.Random(seed)
    called(native, python, "lane", "g", "T", 0)
    opened: list[tuple[int, int, int]] = []
    for number in range(6_000):
        time, invisible, start = 1_000 + number // 7, chance.randrange(100_000), 3 * number
        called(native, python, "hand_out", 0, start, [start, start + 2], start + 3, time, invisible, 1)
        opened += [(start, time, start), (start, time, start + 2)]
        while opened and chance.random() < (0.3 if number < 3_000 else 0.7):
            key = opened.pop(chance.choice((0, -1, chance.randrange(len(opened)))))
            if chance.random() < 0.2:
                called(native, python, "change", 0, *key, time + 1, invisible, False)
                opened.append((key[2], time + 1, key[2]))
            else:
                called(native, python, "ack", 0, *key)
    chance.shuffle(opened)
    for at, key in enumerate(opened):
        called(native, python, "ack", 0, *key)
        if at % 500 == 0:
            assert native.take_entries() == python.take_entries()
            assert state_of(native) == state_of(python)
    assert native.in_flight() == []
    assert native.used_bytes == 0
    assert native.take_entries() == python.take_entries()


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1 << 70])
def test_numbers_beyond_64_bits(value: int) -> None:
    native, python = pair(1 << 20)
    called(native, python, "lane", "g", "T", 0)
    called(native, python, "hand_out", 0, 0, [0], 1, 5, 5, 0)
    for call in (
        ("set_next", 0, value),
        ("hand_out", 0, 5, [5], 6, value, 5, 0),
        ("hand_out", 0, 5, [5], 6, 5, value, 0),
        ("hand_out", 0, 5, [5], 6, 5, 5, value),
        ("change", 0, 0, 5, 0, value, 5, False),
        ("lane", "g", "T", value),
    ):
        assert called(native, python, *call)[1] is not None
    assert native.take_entries() == python.take_entries()
