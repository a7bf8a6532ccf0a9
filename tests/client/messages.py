"""Messages as a broker hands them back."""

from __future__ import annotations

from typing import Any

from pyromq.model.ids import pack_host
from pyromq.model.message import StoredMessage

HOST = pack_host("127.0.0.1", 10911)


def stored(offset: int, body: bytes = b"x", **other: Any) -> StoredMessage:
    facts: dict[str, Any] = {
        "topic": "T",
        "body": body,
        "queue_id": 0,
        "queue_offset": offset,
        "physical_offset": offset * 100,
        "store_size": 100,
        "sys_flag": 0,
        "body_crc": 0,
        "born_timestamp": 0,
        "born_host": HOST,
        "store_timestamp": 0,
        "store_host": HOST,
    }
    return StoredMessage(**(facts | other))
