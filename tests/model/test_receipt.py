"""Receipts of popped messages, and the names that popping gives to topics."""

from __future__ import annotations

import pytest

from pyromq.model import pop_names
from pyromq.model.receipt import BadReceipt, Receipt, decode_receipt

TEXT = "12 1794852082953 2000 5 1 broker-a 3 14"


def test_a_receipt_is_what_java_writes() -> None:
    receipt = Receipt(12, 1794852082953, 2000, 5, "1", "broker-a", 3, 14)
    assert receipt.encode() == TEXT
    assert decode_receipt(TEXT) == receipt


def test_a_grpc_receipt_has_the_place_in_the_log_behind_it() -> None:
    receipt = decode_receipt(f"{TEXT} 4711")
    assert receipt.position == 4711
    assert receipt.encode_with_position() == f"{TEXT} 4711"
    assert receipt.encode() == TEXT


def test_seven_fields_leave_the_offset_to_who_asks() -> None:
    assert decode_receipt("12 1 2000 999 0 b 3", 7).offset == 7
    assert decode_receipt("12 1 2000 999 0 b 3").is_ordered


@pytest.mark.parametrize(
    "text", ["", "bad", "1 2 3 4 5 b", "a 1 2 3 0 b 0 0", "1 1 2 99999999999 0 b 0 0", "1 ² 2 3 0 b 0 0"]
)
def test_what_is_no_receipt_says_why(text: str) -> None:
    with pytest.raises(BadReceipt, match="receipt"):
        decode_receipt(text)


@pytest.mark.parametrize(("v2", "name", "mark"), [(False, "%RETRY%g_t_1", "1"), (True, "%RETRY%g+t_1", "2")])
def test_retry_topics_have_two_forms(v2: bool, name: str, mark: str) -> None:
    assert pop_names.retry_topic("t_1", "g", v2) == name
    assert pop_names.retry_mark(name, "g") == mark
    assert pop_names.normal_topic(name, "g") == "t_1"
    assert pop_names.popped_topic("t_1", "g", mark) == name
    assert pop_names.is_pop_retry(name, "g")


@pytest.mark.parametrize("topic", ["t", "%RETRY%g", "%RETRY%other_t"])
def test_other_topics_are_no_retry_topics_of_popped_messages(topic: str) -> None:
    assert pop_names.retry_mark(topic, "g") == "0"
    assert pop_names.normal_topic(topic, "g") == topic
    assert not pop_names.is_pop_retry(topic, "g")
    assert pop_names.popped_topic("t", "g", "0") == "t"
