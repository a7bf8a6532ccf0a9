"""What a message may not be is refused before anything is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pyromq.client.errors import BadMessage
from pyromq.client.outgoing import message_properties


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"delay": -5}, "delay -5 lies in the past"),
        ({"delay": timedelta(seconds=-1)}, "lies in the past"),
        ({"delay": 1, "deliver_at_ms": 1}, "two ways to say when"),
        ({"tag": "a||b"}, "no filter can name the tag 'a||b'"),
        ({"props": {"KEYS": "x"}}, "'KEYS' is RocketMQ's own"),
        ({"keys": ["two words"]}, "has a blank in it"),
    ],
)
def test_refused(how: dict[str, Any], said: str) -> None:
    with pytest.raises(BadMessage) as refusal:
        message_properties("ID", **how)
    assert said in str(refusal.value)


def test_a_delay_of_nothing_is_none() -> None:
    assert message_properties("ID", delay=0, tag="a|b")["TAGS"] == "a|b"
