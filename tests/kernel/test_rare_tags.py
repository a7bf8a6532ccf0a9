"""The search for tags' bytes picks what a look at every entry picks."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.python import pull
from pyromq.kernel.python.pull import ENTRY, FILLER_SIZE, Picked, pick_entries

CODES = (0, 1, -1, 65, 2112, 1 << 31, -(1 << 31), 0x0000004100000041)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([0, 65, 1_000, 65 << 32]), st.sampled_from([91, 65, 200, FILLER_SIZE]), st.sampled_from(CODES)
    ),
    min_size=pull._MANY_ENTRIES,
    max_size=pull._MANY_ENTRIES + 40,
)


def one_by_one(entries: bytes, codes: Collection[int], count: int, size: int, low: int) -> Picked:
    """In pieces too short for a search, joined as a reader would."""
    ranges: list[pull.Range] = []
    total = 0
    for number, (position, length, code) in enumerate(ENTRY.iter_unpack(entries)):
        if len(ranges) >= count:
            return Picked(ranges, 500 + number, True)
        if length != FILLER_SIZE and position >= low and code in codes:
            if ranges and total + length > size:
                return Picked(ranges, 500 + number, True)
            ranges.append(pull.Range(position, length, 500 + number))
            total += length
    return Picked(ranges, 500 + len(entries) // ENTRY.size, False)


@given(
    ENTRIES,
    st.sets(st.sampled_from(CODES), min_size=1, max_size=4),
    st.sampled_from([1, 3, 32, 1_000]),
    st.sampled_from([100, 500, 1 << 20]),
    st.sampled_from([0, 65, 1_000]),
)
def test_both_ways_pick_the_same(
    entries: list[tuple[int, int, int]], codes: set[int], count: int, size: int, low: int
) -> None:
    raw = b"".join(ENTRY.pack(*entry) for entry in entries)
    assert pick_entries(raw, 500, codes, count, size, low) == one_by_one(raw, codes, count, size, low)


def test_an_entry_never_written_ends_a_search_too() -> None:
    raw = ENTRY.pack(100, 91, 65) * 250 + bytes(ENTRY.size) + ENTRY.pack(100, 91, 65)
    assert pick_entries(raw, 0, {65}, 1_000, 1 << 20, 0).next_offset == 250
