"""Reading what brokers and name servers answer. What cannot be read is an error of the SDK like any other.

Loops of the client catch `Error` and go on: an answer that makes no sense must end none of them. So every answer of a
peer is decoded through here, and by nothing else in this room.
"""

from __future__ import annotations

from typing import TypeVar

from ...errors import Malformed
from ...protocol.bodies.body import decode_body
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ..errors import BadAnswer

T = TypeVar("T")
H = TypeVar("H", bound=Header)


def body_of(answer: Command, kind: type[T], whose: str) -> T:
    """The answer's body. BadAnswer names the peer (`whose`) and what is wrong."""
    try:
        return decode_body(kind, answer.body)
    except Malformed as fault:
        raise bad_answer(whose, str(fault)) from None


def header_of(answer: Command, kind: type[H], whose: str) -> H:
    """The answer's header. BadAnswer, as above."""
    try:
        return kind.from_fields(answer.fields)
    except Malformed as fault:
        raise bad_answer(whose, str(fault)) from None


def bad_answer(whose: str, why: str) -> BadAnswer:
    return BadAnswer(
        f"the answer of {whose} cannot be read: {why}",
        hint="Is it a name server or broker of RocketMQ, and of a version that is known?",
        address=whose,
    )
