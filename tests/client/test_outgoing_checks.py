"""What a message may not be is refused before anything is sent."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from pyromq.client.errors import BadMessage
from pyromq.client.produce.outgoing import message_properties


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"delay": -5}, "delay -5 lies in the past"),
        ({"delay": timedelta(seconds=-1)}, "lies in the past"),
        ({"delay": 1, "deliver_at_ms": 1}, "2 ways to say when"),
        ({"delay_level": 1, "delay": 1}, "delay and delay_level are 2 ways to say when"),
        ({"delay_level": 0}, "delay_level=0 is no whole number of 1 or more"),
        ({"delay_level": True}, "delay_level=True is no whole number"),
        ({"delay_level": 1.5}, "delay_level=1.5 is no whole number"),
        ({"tag": "a||b"}, "no filter can name the tag 'a||b'"),
        ({"props": {"KEYS": "x"}}, "'KEYS' is RocketMQ's own"),
        ({"keys": ["two words"]}, "has a blank in it"),
        ({"delay": math.nan}, "delay: nan is no number of seconds"),
        ({"delay": math.inf}, "delay inf has no end"),
        ({"delay": 1e308}, "has no end"),
        ({"delay": "soon"}, "delay: 'soon' is no number of seconds"),
        ({"delay": []}, "delay: [] is no number of seconds"),
        ({"deliver_at_ms": 1.5}, "deliver_at_ms is 1.5, and not a whole number"),
        ({"tag": 5}, "the tag is 5, and not a string"),
        ({"keys": 5}, "keys is 5, and not strings"),
        ({"keys": [5]}, "a key is 5, and not a string"),
        ({"order_key": 5}, "order_key is 5, and not a string"),
        ({"props": "a=b"}, "props is 'a=b', and not a mapping"),
        ({"props": {"": "b"}}, "a property of the value 'b' has no name ('')"),
        ({"props": {" ": "b"}}, "has no name (' ')"),
        ({"props": {None: "b"}}, "has no name (None)"),
        ({"props": {"a": ""}}, "property 'a' has no value ('')"),
        ({"props": {"a": "\t\n "}}, "property 'a' has no value"),
        ({"props": {"a": None}}, "property 'a' has no value (None)"),
    ],
)
def test_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(BadMessage) as refusal:
        message_properties("ID", **how)
    assert said in str(refusal.value)


def test_a_delay_of_nothing_is_none() -> None:
    assert message_properties("ID", delay=0, tag="a|b")["TAGS"] == "a|b"


def test_a_property_that_java_takes_is_taken() -> None:
    found = message_properties("ID", props={"n": 0, "ideographic": "\u3000"})  # type: ignore[dict-item]
    assert (found["n"], found["ideographic"]) == ("0", "\u3000")
