"""What brokers and name servers answer, decoded by the request's row. What cannot be read is an error of the SDK.

Loops of the client catch `Error` and go on: an answer that makes no sense must end none of them. So every answer of a
peer is decoded through here, and by nothing else in this room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...errors import Malformed
from ...model.codes import ResponseCode
from ...model.foreign_text import shell_word
from ...model.topic import ORDER_TOPIC_CONFIG
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ...protocol.json import DEFAULT_LIMITS, JsonLimits
from ...protocol.row import Row
from ..core.routing import Route
from ..errors import BadAnswer

A = TypeVar("A", bound=Header | None)
R = TypeVar("R")


def header_of(row: Row[Any, Any, A, Any], command: Command, address: str) -> A:
    """Return the typed header of an answer. BadAnswer names the peer and what is wrong."""
    try:
        return row.gives.read_header(command.fields)
    except Malformed as fault:
        raise bad_answer(address, str(fault)) from None


@dataclass(slots=True, eq=False, repr=False)
class Answer(Generic[A, R]):
    """An answer to the request of a row. Header and body are read when they are asked for: refusals have neither."""

    row: Row[Any, Any, A, R]
    command: Command
    address: str  # who answered
    limits: JsonLimits = DEFAULT_LIMITS
    empty: bytes = b""  # what a body without bytes counts as

    @property
    def code(self) -> int:
        return self.command.code

    @property
    def remark(self) -> str:
        return self.command.remark or ""

    @property
    def header(self) -> A:
        """Return the typed header, read anew each time. BadAnswer names the peer and what is wrong."""
        return header_of(self.row, self.command, self.address)

    @property
    def body(self) -> R:
        """Return the typed body, read anew each time. BadAnswer names the peer and what is wrong."""
        try:
            return self.row.gives.read_body(self.command.body or self.empty, self.limits)
        except Malformed as fault:
            raise bad_answer(self.address, str(fault)) from None

    @property
    def body_or_none(self) -> R | None:
        """Return the typed body; None if the code is another than success, or if there is none."""
        return self.body if self.code == ResponseCode.SUCCESS and self.command.body else None


def bad_order(route: Route) -> BadAnswer:
    """Return the error of a send to an order topic whose queues nobody can tell."""
    cure = f"pyromq kv set {ORDER_TOPIC_CONFIG} {shell_word(route.topic)} BROKER:QUEUES"
    return BadAnswer(route.write_fault, hint=f"Set it right: {cure} (several with ; between)")


def bad_answer(whose: str, why: str, *, may_be_stored: bool = True) -> BadAnswer:
    return BadAnswer(
        f"the answer of {whose} cannot be read: {why}",
        hint="Is it a name server or broker of RocketMQ, and of a version that is known?",
        address=whose,
        may_be_stored=may_be_stored,
    )
