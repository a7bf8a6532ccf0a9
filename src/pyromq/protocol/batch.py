"""Batch bodies: what request 320 carries, and the body of an inner batch.

Per message | total 4 | magic 4 (0) | crc 4 (0) | flag 4 | body length 4 | body | properties length 2 | properties |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from ..errors import ProtocolError
from .properties import MAX_PROPERTIES_BYTES

_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">i")
_PROPERTIES_LENGTH = struct.Struct(">h")
ENTRY_BYTES = _HEAD.size + _PROPERTIES_LENGTH.size  # of one message, besides its body and properties


class BatchEntry(NamedTuple):
    """One message of a batch; topic, queue and hosts are those of the batch."""

    body: bytes
    flag: int = 0
    properties: bytes = b""


# The messages of a batch: decoded, or as a body that holds them.
BatchEntries: TypeAlias = Sequence[BatchEntry] | bytes


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    parts: list[bytes] = []
    for body, flag, properties in entries:
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise ValueError(f"properties take {len(properties)} bytes, the limit is {MAX_PROPERTIES_BYTES}")
        total = ENTRY_BYTES + len(body) + len(properties)
        parts += (_HEAD.pack(total, 0, 0, flag, len(body)), body, _PROPERTIES_LENGTH.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(batch: bytes | memoryview) -> list[BatchEntry]:
    """Decode a batch. ProtocolError says which message of it is malformed and how."""
    raw = bytes(batch)
    entries: list[BatchEntry] = []
    at = 0
    while at < len(raw):
        entry, at = _decode_entry(raw, at, len(entries))
        entries.append(entry)
    return entries


def has_more_than(batch: bytes | memoryview, most: int) -> bool:
    """Return whether a batch has more than `most` messages, by their lengths alone. False also if it is malformed."""
    at, end = 0, len(batch)
    if end <= most * ENTRY_BYTES:
        return False
    for _ in range(most):
        if end - at < ENTRY_BYTES:
            return False
        (total,) = _LENGTH.unpack_from(batch, at)
        if total < ENTRY_BYTES:
            return False
        at += total
    return at < end


def _decode_entry(raw: bytes, at: int, number: int) -> tuple[BatchEntry, int]:
    if len(raw) - at < ENTRY_BYTES:
        raise ProtocolError(
            f"message {number} of the batch has {len(raw) - at} bytes, at least {ENTRY_BYTES} are needed"
        )
    total, _, _, flag, body_length = _HEAD.unpack_from(raw, at)
    end = at + total
    body_at = at + _HEAD.size
    properties_at = body_at + body_length + _PROPERTIES_LENGTH.size
    if body_length < 0 or not properties_at <= end <= len(raw):
        raise ProtocolError(
            f"message {number} of the batch says {total} bytes with a body of {body_length}, {len(raw) - at} are left"
        )
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(raw, properties_at - _PROPERTIES_LENGTH.size)
    if properties_length < 0 or properties_at + properties_length != end:
        raise ProtocolError(
            f"message {number} of the batch says {properties_length} bytes of properties, has {end - properties_at}"
        )
    return BatchEntry(raw[body_at : body_at + body_length], flag, raw[properties_at:end]), end
