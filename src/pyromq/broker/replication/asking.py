"""One broker asks another: a request by its row, the answer typed. CallFailed, CallRefused or Malformed if it fails."""

from __future__ import annotations

from typing import TypeVar

from ...errors import CallRefused
from ...model.codes import ResponseCode
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ...protocol.json import ANSWER_LIMITS
from ...protocol.row import Row
from ...transport.client import RemotingClient

H = TypeVar("H", bound=Header | None)
A = TypeVar("A", bound=Header | None)
B = TypeVar("B")
R = TypeVar("R")

TIMEOUT_S = 10.0


async def ask(
    client: RemotingClient, address: str, row: Row[H, B, A, R], header: H | None = None, timeout_s: float = TIMEOUT_S
) -> tuple[A, R]:
    """Return header and body of a successful answer."""
    fields = {} if header is None else header.to_fields()
    answer = await client.call(address, Command(code=row.code, fields=fields), timeout_s)
    if answer.code != ResponseCode.SUCCESS:
        raise CallRefused(answer.code, answer.remark, address)
    return row.gives.read_header(answer.fields), row.gives.read_body(answer.body, ANSWER_LIMITS)
