"""A block of messages in order: who is kept out and until when, what acks and changes do to it, and its texts."""

from __future__ import annotations

import pytest

from pyromq.broker.pop.order import block as blocks
from pyromq.broker.pop.order.block import Block, next_block

NOW = 1_794_852_078_196


def block(*offsets: int, attempt: str | None = "a-1", invisible_ms: int = 20_000) -> Block:
    return next_block(None, attempt, offsets, NOW, invisible_ms, NOW)


def count_text(held: Block, queue_id: int) -> str:
    return blocks.count_text(held.counts or {}, len(held.offsets), queue_id)


def test_a_block_keeps_others_out_until_its_time_is_over() -> None:
    held = block(0, 1, 2)
    assert held.is_blocking("a-2", NOW)
    assert held.is_blocking("a-2", NOW + 19_999)
    assert not held.is_blocking("a-2", NOW + 20_000)


def test_the_attempt_that_has_the_block_is_not_kept_out_and_no_attempt_is_none() -> None:
    assert not block(0).is_blocking("a-1", NOW)
    assert block(0, attempt=None).is_blocking(None, NOW)


def test_it_ends_with_the_last_ack_and_not_before() -> None:
    held = block(0, 1, 2)
    for offset, is_blocking, first_open in ((0, True, 1), (2, True, 1), (1, False, 3)):
        assert held.ack(offset)
        assert (held.is_blocking("b", NOW), held.first_open) == (is_blocking, first_open)


def test_an_ack_of_what_it_does_not_have_is_told_apart() -> None:
    held = block(5, 7)
    assert not held.ack(6)
    assert held.ack(7)
    assert held.ack(7)
    assert held.open_offsets() == [5]


def test_a_changed_time_counts_for_that_message_alone() -> None:
    held = block(0, 1)
    held.change(0, NOW + 50_000)
    assert held.is_blocking("b", NOW + 49_999)
    held.ack(0)
    assert not held.is_blocking("b", NOW + 20_000)
    held.change(9, NOW + 90_000)  # not one of its own
    assert not held.is_blocking("b", NOW + 20_000)


def test_all_must_be_visible_again_also_if_the_first_was_shortened() -> None:
    held = block(0, 1)
    held.change(0, NOW + 1_000)
    assert held.is_blocking("b", NOW + 1_000)
    held.change(1, NOW + 1_000)
    assert not held.is_blocking("b", NOW + 1_000)


@pytest.mark.parametrize("invisible_ms", [0, -5])
def test_no_time_blocks_nobody(invisible_ms: int) -> None:
    assert not block(0, invisible_ms=invisible_ms).is_blocking("b", NOW)


def test_an_endless_time_is_endless_and_no_overflow() -> None:
    assert block(0, invisible_ms=(1 << 63) - 1).ends_at == (1 << 63) - 1


# --- how often a message was given ------------------------------------------------------------------------------------


def test_the_texts_are_those_that_were_recorded() -> None:
    first = block(0, 1, 2)
    assert count_text(first, 0) == "0 0 0"
    second = next_block(first, "a-3", (1, 2, 3), NOW + 1, 2_000, NOW + 1)
    assert count_text(second, 0) == "0 qo0%1 1;0 qo0%2 1;0 0 0"
    third = next_block(second, None, (1, 2, 3, 4), NOW + 2, 2_000, NOW + 2)
    assert count_text(third, 0) == "0 qo0%1 2;0 qo0%2 2;0 qo0%3 1;0 0 0"


def test_the_least_count_is_told_where_every_message_was_given_before() -> None:
    again = next_block(block(4, 5), "b", (4, 5), NOW, 1, NOW)
    assert count_text(next_block(again, "c", (4,), NOW, 1, NOW), 3) == "0 qo3%4 2;0 3 2"


def test_the_same_attempt_counts_nothing() -> None:
    again = next_block(block(4, 5), "a-1", (4, 5), NOW + 5, 1, NOW + 5)
    assert count_text(again, 0) == "0 0 0"
    later = next_block(again, "a-2", (4, 5), NOW + 5, 1, NOW + 5)
    repeated = next_block(later, "a-2", (4, 5), NOW + 6, 1, NOW + 6)
    assert count_text(repeated, 0) == count_text(later, 0) == "0 qo0%4 1;0 qo0%5 1;0 0 1"


def test_acks_of_the_block_before_are_forgotten_as_by_java() -> None:
    held = block(0, 1, 2)
    held.ack(0)
    held.ack(2)
    assert next_block(held, "b", (1, 2, 3), NOW, 1, NOW).open_offsets() == [1, 2, 3]
