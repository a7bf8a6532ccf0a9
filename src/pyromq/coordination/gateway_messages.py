"""The messages of etcd's v3 JSON gateway that we use: keys and values in base64, numbers as text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ..errors import ConnectionLost

S = TypeVar("S", bound=msgspec.Struct)


class StoreHeader(msgspec.Struct):
    """Stands in every answer."""

    revision: int = 0


class KeyValue(msgspec.Struct):
    key: str
    mod_revision: int
    value: str = ""


class RangeAnswer(msgspec.Struct):
    header: StoreHeader
    kvs: list[KeyValue] = []


class TxnAnswer(msgspec.Struct):
    header: StoreHeader
    succeeded: bool = False


class GrantAnswer(msgspec.Struct):
    ID: int
    TTL: int


class KeptAlive(msgspec.Struct):
    ID: int
    TTL: int = 0  # left out where the lease is over


class KeepAliveAnswer(msgspec.Struct):
    result: KeptAlive


class WatchEvents(msgspec.Struct):
    header: StoreHeader
    events: list[Any] = []
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""


class WatchLine(msgspec.Struct):
    result: WatchEvents | None = None
    error: Any = None


class Nothing(msgspec.Struct):
    """An answer of which nothing is used."""


class TokenAnswer(msgspec.Struct):
    token: str


class VersionAnswer(msgspec.Struct):
    etcdserver: str


class ErrorAnswer(msgspec.Struct):
    """A refusal: gRPC's status code, and why."""

    code: int = 2
    message: str = ""


def decode(content: bytes, kind: type[S], address: str) -> S:
    """Return the message. Raises ConnectionLost for anything else: it is not etcd that answers there."""
    try:
        return msgspec.json.decode(content, type=kind, strict=False)
    except msgspec.DecodeError as fault:
        raise ConnectionLost(f"{address} does not answer as etcd does: {fault}") from None


def range_request(prefix: str) -> dict[str, object]:
    """Ask for all keys that begin so. Linearizable: `serializable` is never said, it would answer from one member."""
    return {"key": encode_key(prefix), "range_end": encode_bytes(end_of_prefix(prefix))}


def watch_request(prefix: str, first_revision: int) -> dict[str, object]:
    asked = {**range_request(prefix), "start_revision": str(first_revision), "progress_notify": True}
    return {"create_request": asked}


def txn_request(
    expect: Mapping[str, int], puts: Sequence[tuple[str, bytes, int]], deletes: Sequence[str]
) -> dict[str, object]:
    """Return a transaction. `puts`: key, value and the number of a lease, 0 for none."""
    compares = [
        {"key": encode_key(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}
        for key, version in expect.items()
    ]
    operations: list[dict[str, object]] = [
        {"request_put": {"key": encode_key(key), "value": encode_bytes(value), "lease": str(lease)}}
        for key, value, lease in puts
    ]
    operations += [{"request_delete_range": {"key": encode_key(key)}} for key in deletes]
    return {"compare": compares, "success": operations}


def encode_key(key: str) -> str:
    return encode_bytes(key.encode())


def encode_bytes(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def decode_bytes(text: str) -> bytes:
    return b64decode(text)


def end_of_prefix(prefix: str) -> bytes:
    """Return the first key behind all that begin so. `prefix` is not empty and no byte of it is 0xff, as in UTF-8."""
    content = prefix.encode()
    return content[:-1] + bytes([content[-1] + 1])
