"""The duplicate window's table: what is a repeat, what is new, what must be neither, and what it forgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.duplicates.duplicate_window import DuplicateTable, SendId, read_send_id
from pyromq.errors import RequestRefused
from pyromq.kernel.records import Placed
from pyromq.model.codes import ResponseCode


def place(position: int = 0, topic: str = "T", time_ms: int = 0) -> Placed:
    return Placed(position, 100, topic, 0, position // 100, 0, time_ms, 0, b"left\x01out\x02", 1)


def table(most: int = 100, window_ms: int = 1000) -> DuplicateTable:
    return DuplicateTable(most, window_ms)


def store(window: DuplicateTable, identity: SendId, *places: Placed, now_ms: int = 0) -> None:
    assert window.find(identity, "T", now_ms) is None
    window.stored(window.begin(identity, "T", now_ms), places or (place(),))


def test_a_repeat_is_known_by_where_the_first_one_is() -> None:
    window = table()
    store(window, SendId(b"p", 1, 7), place(100), place(200))
    known = window.find(SendId(b"p", 1, 7), "T", 5)
    assert known is not None
    assert [(one.position, one.properties) for one in known.places] == [(100, b""), (200, b"")]
    assert window.find(SendId(b"q", 1, 7), "T", 5) is None


def test_gaps_and_any_order_are_fine() -> None:
    window = table()
    for sequence in (9, 3, 100, 4):
        store(window, SendId(b"p", 0, sequence))
    assert len(window) == 4


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_anew() -> None:
    window = table()
    store(window, SendId(b"p", 1, 7))
    store(window, SendId(b"p", 2, 7))
    with pytest.raises(RequestRefused, match=r"producer p is fenced: it sends with epoch 1, .* epoch 2") as refused:
        window.find(SendId(b"p", 1, 7), "T", 0)
    assert refused.value.code == ResponseCode.ILLEGAL_OPERATION


def test_a_sequence_belongs_to_one_topic() -> None:
    window = table()
    store(window, SendId(b"p", 1, 7))
    with pytest.raises(RequestRefused, match="was sent to topic T before, now to Other"):
        window.find(SendId(b"p", 1, 7), "Other", 0)


def test_what_cannot_be_told_any_more_is_refused_and_not_stored_twice() -> None:
    window = table(most=3)
    for sequence in range(5):
        store(window, SendId(b"p", 1, sequence))
    assert (len(window), window.messages) == (3, 3)
    for sequence in (0, 1):
        with pytest.raises(RequestRefused, match="raise duplicateWindowMessages"):
            window.find(SendId(b"p", 1, sequence), "T", 0)
    assert window.find(SendId(b"p", 1, 2), "T", 0) is not None


def test_a_producer_is_forgotten_with_its_last_send() -> None:
    window = table(window_ms=1000)
    store(window, SendId(b"p", 5, 1), now_ms=0)
    store(window, SendId(b"q", 5, 1), now_ms=600)
    assert window.find(SendId(b"p", 5, 1), "T", 999) is not None
    assert window.find(SendId(b"p", 4, 1), "T", 1000) is None
    assert window.producers == 1


def test_what_failed_was_never_there() -> None:
    window = table()
    identity = SendId(b"p", 1, 1)
    window.failed(identity, window.begin(identity, "T", 0))
    assert (len(window), window.producers) == (0, 0)
    store(window, identity)


def test_what_is_under_way_is_not_forgotten() -> None:
    window = table(most=1, window_ms=10)
    under_way = window.begin(SendId(b"p", 1, 1), "T", 0)
    store(window, SendId(b"p", 1, 2), now_ms=0)
    assert window.find(SendId(b"p", 1, 1), "T", 10_000) is under_way


@pytest.mark.parametrize("value", ["p", "p/1", "p/1/x", "p/-1/2", "/1/2", "p q/1/2", "p/1/2/3/4", "p/1/" + "9" * 19])
def test_a_malformed_identity_is_told(value: str) -> None:
    with pytest.raises(ValueError, match=value[:5]):
        read_send_id(f"__SEND_ID\x01{value}\x02".encode())


def test_an_identity_is_read_as_it_is_written() -> None:
    identity = SendId(b"host@12:app", 3, 4)
    assert read_send_id(b"A\x01b\x02__SEND_ID\x01" + identity.text() + b"\x02") == (identity, None)
    assert read_send_id(b"__SEND_ID\x01" + identity.text(17) + b"\x02") == (identity, 17)
    assert read_send_id(b"A\x01b\x02") is None


SENDS = st.lists(
    st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)), max_size=60
)


@given(SENDS, st.integers(1, 20))
def test_the_log_gives_the_same_table_again(sends: list[tuple[bytes, int, int, int]], most: int) -> None:
    window, again = table(most, 1000), table(most, 1000)  # none is too old
    log: list[tuple[SendId, int, Placed]] = []
    for now, (producer, epoch, sequence, messages) in enumerate(sends):
        identity = SendId(producer, epoch, sequence)
        try:
            if window.find(identity, "T", now) is not None:
                continue
        except RequestRefused:
            continue
        places = [place(100 * (len(log) + number), time_ms=now) for number in range(messages)]
        log += [(identity, number, placed) for number, placed in enumerate(places)]
        window.stored(window.begin(identity, "T", now), tuple(places))
    for identity, number, placed in log:
        again.rebuild(identity, number, placed, 0)
    assert again.messages == window.messages <= max(most, 3)
    assert {key: known.places for key, known in again._sends.items()} == {
        key: known.places for key, known in window._sends.items()
    }
    assert again._producers == window._producers
