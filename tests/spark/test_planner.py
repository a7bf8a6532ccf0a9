"""Which offsets a read takes and how they are cut into tasks: numbers alone."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.spark.read.offsets import Bounds, OffsetRange, Queue, from_json, limited, ranges, split, to_json, waiting

A, B, C = Queue("T", "a", 0), Queue("T", "a", 1), Queue("U", "b", 0)
PARTS = st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 1000), st.integers(1, 5000)), max_size=5).map(
    lambda found: [OffsetRange(queue, begin, begin + size) for queue, begin, size in found]
)


def test_what_is_there_is_read_as_asked() -> None:
    found, lost = ranges({A: 3, B: 5}, {A: 10, B: 5}, {A: Bounds(0, 20), B: Bounds(0, 9)})
    assert (found, lost) == ([OffsetRange(A, 3, 10)], [])


def test_a_queue_that_is_new_is_read_from_its_first_message() -> None:
    assert ranges({A: 3}, {A: 3, B: 9}, {A: Bounds(0, 3), B: Bounds(4, 9)}) == ([OffsetRange(B, 4, 9)], [])


def test_retention_that_passed_the_start_is_a_loss_and_the_rest_is_read() -> None:
    found, [loss] = ranges({A: 3}, {A: 10}, {A: Bounds(7, 20)})
    assert found == [OffsetRange(A, 7, 10)]
    assert str(loss) == "T/a/0: offsets 3 to 7 were removed (retention) before they were read"


def test_retention_that_passed_the_whole_range() -> None:
    found, [loss] = ranges({A: 3}, {A: 10}, {A: Bounds(15, 20)})
    assert (found, loss[:3]) == ([], (A, 3, 10))


def test_an_end_behind_the_queues_end_is_a_loss() -> None:
    found, [loss] = ranges({A: 3}, {A: 10}, {A: Bounds(0, 6)})
    assert (found, loss[:3]) == ([OffsetRange(A, 3, 6)], (A, 6, 10))


def test_a_queue_that_was_made_anew_is_a_loss_and_read_from_its_first_message() -> None:
    found, [loss] = ranges({A: 30}, {A: 4}, {A: Bounds(0, 4)})
    assert (found, loss[:3]) == ([OffsetRange(A, 0, 4)], (A, 4, 30))


def test_a_broker_that_is_away_is_read_as_told_once_it_is_back() -> None:
    assert ranges({A: 3}, {A: 10}, {}) == ([OffsetRange(A, 3, 10)], [])


@given(PARTS, st.none() | st.integers(1, 20), st.none() | st.integers(1, 2000))
def test_pieces_cover_the_ranges_and_keep_the_limits(
    parts: list[OffsetRange], least: int | None, most_records: int | None
) -> None:
    pieces = split(parts, least, most_records)
    joined: list[OffsetRange] = []
    for piece in pieces:
        assert piece.size > 0
        assert most_records is None or piece.size <= most_records
        if joined and joined[-1].queue == piece.queue and joined[-1].end == piece.begin:
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert sum(piece.size for piece in pieces) == sum(part.size for part in parts)
    assert len(pieces) >= min(least or 0, sum(part.size for part in parts))


def test_without_limits_a_range_is_a_task() -> None:
    assert split([OffsetRange(A, 0, 9), OffsetRange(B, 2, 3)], None, None) == [
        OffsetRange(A, 0, 9),
        OffsetRange(B, 2, 3),
    ]


@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(0, 99), st.integers(0, 999)), min_size=1),
    st.integers(1, 500),
)
@example({A: (0, 1), B: (0, 1), C: (0, 4)}, 3)
def test_a_limit_is_shared_and_no_queue_starves(given_: dict[Queue, tuple[int, int]], most: int) -> None:
    start = {queue: begin for queue, (begin, _) in given_.items()}
    latest = {queue: begin + more for queue, (begin, more) in given_.items()}
    end = limited(start, latest, most)
    assert waiting(start, end) <= max(most, sum(latest[queue] > start[queue] for queue in start))
    assert all(start[queue] <= end[queue] <= latest[queue] for queue in start)
    assert all(end[queue] > start[queue] for queue in start if latest[queue] > start[queue])


def test_offsets_as_json_and_back() -> None:
    offsets = {C: 2, A: 1, B: 7}
    assert to_json(offsets) == {"T": {"a": {"0": 1, "1": 7}}, "U": {"b": {"0": 2}}}
    assert from_json(to_json(offsets)) == offsets
