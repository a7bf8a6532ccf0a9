"""Attributes: the change syntax, and what each key may hold."""

from __future__ import annotations

import pytest

from pyromq.broker.metadata.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_changes
from pyromq.errors import RequestRefused


def test_changes_are_read_with_their_signs() -> None:
    assert parse_changes("+message.type=FIFO, -reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse_changes(None) == parse_changes("") == {}


@pytest.mark.parametrize("text", ["message.type=FIFO", "+message.type", "-a=1", "+a=1,+a=2"])
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(RequestRefused, match=r"write \+key=value|changed twice"):
        parse_changes(text)


def test_creation_sets_and_later_changes_alter_and_delete() -> None:
    made = alter(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO", "+queue.type": "BatchCQ"})
    assert made == {"message.type": "FIFO", "queue.type": "BatchCQ"}
    assert alter(TOPIC_ATTRIBUTES, made, {"+message.type": "NORMAL"})["message.type"] == "NORMAL"
    assert alter(TOPIC_ATTRIBUTES, made, {"-message.type": ""}) == {"queue.type": "BatchCQ"}
    assert alter(TOPIC_ATTRIBUTES, made, {"+queue.type": "BatchCQ"}) == made


@pytest.mark.parametrize(
    ("current", "changes", "why"),
    [
        (None, {"+nonsense": "1"}, "unsupported key: nonsense"),
        (None, {"+message.type": "LOUD"}, "one of UNSPECIFIED, NORMAL"),
        (None, {"+cleanup.policy": "COMPACTION"}, "is refused: nothing is compacted yet"),
        (None, {"-message.type": ""}, "does not exist yet"),
        (None, {"message.type": "FIFO"}, "has no sign"),
        ({}, {"-message.type": ""}, "is not set"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "BatchCQ"}, "cannot be changed after creation"),
        ({}, {"+queue.type": "BatchCQ"}, "cannot be changed after creation"),
        ({}, {"+reserve.time": "soon"}, "whole number"),
        ({}, {"+reserve.time": "-2"}, "from -1 to"),
        ({}, {"+message.type": "FIFO", "-message.type": ""}, "changed twice"),
    ],
)
def test_what_may_not_be_is_refused_with_the_reason(
    current: dict[str, str] | None, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(RequestRefused, match=why):
        alter(TOPIC_ATTRIBUTES, current, changes)


def test_groups_have_keys_of_their_own() -> None:
    assert alter(GROUP_ATTRIBUTES, None, {"+priority.factor": "50"}) == {"priority.factor": "50"}
    with pytest.raises(RequestRefused, match="from 0 to 100"):
        alter(GROUP_ATTRIBUTES, None, {"+priority.factor": "101"})
