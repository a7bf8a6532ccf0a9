"""Images of the slot table: as it was when they were taken, whatever is put while they are written."""

from __future__ import annotations

import random
import threading
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel import state
from pyromq.kernel.python import keys as python_keys
from pyromq.kernel.records import PAGE_SLOTS
from pyromq.store.index import slot_table
from pyromq.store.index.slot_table import SLOT_BYTES, SlotImage, SlotTable
from tests.kernel.twins import native_module

SLOTS = 200 * PAGE_SLOTS + 5  # three stretches and a bit, the last page is not whole


@pytest.fixture(params=["python", "native"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    module = python_keys if request.param == "python" else native_module()
    monkeypatch.setattr(slot_table, "big_endian", module.big_endian)
    for name in ("IndexTail", "SlotState"):
        monkeypatch.setattr(state, name, getattr(state.PYTHON if request.param == "python" else native_module(), name))


def packed(table: SlotTable) -> bytes:
    return python_keys.big_endian(table.slots, 0, SLOTS)


def put(table: SlotTable, slots: list[int], number: int) -> None:
    if slots:
        tail = state.IndexTail(1 << 30, 0, lambda: None)
        tail.slots, tail.next_entry = table.state, number
        tail.add(b"".join(python_keys.KEY.pack(slot, 0) for slot in slots), 0, len(slots), 0)


def written(file: bytearray, image: SlotImage) -> None:
    for slot, data in image.stretches():
        file[slot * SLOT_BYTES : slot * SLOT_BYTES + len(data)] = data


@given(st.lists(st.lists(st.integers(0, SLOTS - 1), max_size=30), min_size=1, max_size=8), st.booleans())
def test_puts_between_the_pieces_are_not_in_the_image(bursts: list[list[int]], one_by_one: bool) -> None:
    table, file = SlotTable.empty(SLOTS), bytearray(SLOTS * SLOT_BYTES)
    for number, burst in enumerate(bursts):
        put(table, burst, 1000 * number + 1)
        expected, image = packed(table), table.take_image()
        for slot, data in image.stretches():
            file[slot * SLOT_BYTES : slot * SLOT_BYTES + len(data)] = data
            if one_by_one:
                for slot in burst:
                    table[slot] = 7
            else:
                put(table, burst, 1000 * number + 500)
        assert bytes(file) == expected


def test_an_image_that_is_not_written_yet_keeps_what_it_had() -> None:
    table, file = SlotTable.empty(SLOTS), bytearray(SLOTS * SLOT_BYTES)
    put(table, [3, 5 * PAGE_SLOTS], 1)
    first_content, first = packed(table), table.take_image()
    put(table, [3], 10)
    second_content, second = packed(table), table.take_image()
    assert table.is_being_written
    written(file, first)
    assert bytes(file) == first_content
    written(file, second)
    assert bytes(file) == second_content
    assert not table.is_being_written


def test_a_thread_writes_images_while_another_puts() -> None:
    rng = random.Random(9)
    table, file = SlotTable.empty(SLOTS), bytearray(SLOTS * SLOT_BYTES)
    for number in range(30):
        put(table, [rng.randrange(SLOTS) for _ in range(200)], 1 + 1000 * number)
        expected, image = packed(table), table.take_image()
        thread = threading.Thread(target=written, args=(file, image))
        thread.start()
        put(table, [rng.randrange(SLOTS) for _ in range(500)], 500 + 1000 * number)
        thread.join()
        assert bytes(file) == expected


def test_slots_behind_a_number_and_those_in_use() -> None:
    table = SlotTable.empty(SLOTS)
    put(table, [5, SLOTS - 1, 0, 5], 7)
    assert table.state.used == 3
    assert table.state.beyond(8) == [0, 5, SLOTS - 1]
    assert table.state.beyond(9) == [0, 5]
    assert table.state.beyond(11) == []
    assert len(table.state.beyond(0)) == SLOTS


def test_slots_that_no_page_covers_are_refused() -> None:
    short = state.SlotState(array("I", bytes(4 * (PAGE_SLOTS + 1))), bytearray(1), bytearray(1), {})
    with pytest.raises(ValueError, match="cover"):
        short.beyond(1)
    with pytest.raises(ValueError, match="cover"):
        assert short.used == 0
