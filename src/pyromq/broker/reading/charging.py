"""What an answer to a read costs. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ...kernel.state import Allowance
from ...model.codes import ResponseCode
from ...transport.dispatch import Reply

_SIZE = struct.Struct(">i")


def count_messages(body: bytes | memoryview) -> int:
    """Return the number of messages one behind another, each of which begins with its size."""
    data, at, count = memoryview(body), 0, 0
    while at + 4 <= len(data):
        size = _SIZE.unpack_from(data, at)[0]
        if size <= 0:
            break
        at += size
        count += 1
    return max(count, 1)


def read_of(reply: Reply) -> tuple[int, int] | None:
    """Return the bytes and messages that were read; None: there are none in this answer."""
    if reply.code != ResponseCode.SUCCESS or not isinstance(reply.body, bytes) or not reply.body:
        return None
    return len(reply.body), count_messages(reply.body)


def charge_read(allowance: Allowance, monotonic: Callable[[], float], reply: Reply) -> None:
    """Take what is read by a request that a kernel had held and Python answers."""
    found = read_of(reply)
    if found is not None:
        allowance.charge_read(*found, monotonic())
