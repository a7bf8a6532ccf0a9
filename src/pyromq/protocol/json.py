"""JSON as fastjson reads and writes it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ProtocolError


def parse_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise ProtocolError(f"not JSON: {fault}") from None
