"""Hosts as records hold them, and the two kinds of message id, both ways.

offset id   | ip 4 or 16 | port 4 | physical offset 8 |                                   as upper-case hex
unique id   | ip 4 or 16 | process id 2 | salt 4 | ms since start of month 4 | counter 2 |    as upper-case hex
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

_PORT = struct.Struct(">i")
_POSITION = struct.Struct(">q")
_UNIQUE_TAIL = struct.Struct(">HIIH")

HOST_V4_BYTES = 8
HOST_V6_BYTES = 20


def pack_host(ip: str, port: int) -> bytes:
    """Return the address and port as they stand in a record: 8 bytes for IPv4, 20 for IPv6."""
    return ipaddress.ip_address(ip).packed + _PORT.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    if len(host) not in (HOST_V4_BYTES, HOST_V6_BYTES):
        raise ValueError(f"a host has {HOST_V4_BYTES} or {HOST_V6_BYTES} bytes, not {len(host)}")
    return str(ipaddress.ip_address(host[:-4])), _PORT.unpack_from(host, len(host) - 4)[0]


def host_text(host: bytes) -> str:
    """Return `ip:port`, IPv6 in brackets."""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


class OffsetId(NamedTuple):
    """What an offset id says: the broker that stored the record, and its place in the commit log."""

    host: bytes
    physical_offset: int


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    return (store_host + _POSITION.pack(physical_offset)).hex().upper()


def offset_message_ids(store_host: bytes, physical_offsets: Iterable[int]) -> list[str]:
    """Return the ids of several messages of one store."""
    host = store_host.hex().upper()
    return [f"{host}{offset:016X}" for offset in physical_offsets]


def parse_offset_message_id(text: str) -> OffsetId:
    raw = _from_hex(text, "an offset message id")
    return OffsetId(raw[:-8], _POSITION.unpack_from(raw, len(raw) - 8)[0])


class UniqueId(NamedTuple):
    """The parts of a client's unique id. The month is not in it, so a time is only known near a given now."""

    ip: str
    process_id: int
    salt: int
    month_ms: int
    counter: int

    def born_near(self, now_ms: int) -> int:
        """Return the latest time at or before now that fits (the client's clock is taken to be in our time zone)."""
        month = month_start_ms(now_ms)
        if month + self.month_ms > now_ms:
            month = month_start_ms(month - 1)
        return month + self.month_ms


def parse_unique_id(text: str) -> UniqueId:
    raw = _from_hex(text, "a unique message id")
    tail = _UNIQUE_TAIL.unpack_from(raw, len(raw) - _UNIQUE_TAIL.size)
    return UniqueId(str(ipaddress.ip_address(raw[: -_UNIQUE_TAIL.size])), *tail)


class UniqueIds:
    """Makes unique ids for one client process. The salt tells apart what shares address and process id."""

    def __init__(self, ip: str, process_id: int, salt: int, now_ms: Callable[[], int]) -> None:
        head = ipaddress.ip_address(ip).packed + struct.pack(">HI", process_id & 0xFFFF, salt & 0xFFFFFFFF)
        self.of_process = head.hex().upper()  # in all of them
        self._now_ms = now_ms
        self._counter = 0
        self._month = self._next_month = 0

    def next(self) -> str:
        now = self._now_ms()
        if not self._month <= now < self._next_month:
            self._month = month_start_ms(now)
            self._next_month = month_start_ms(self._month + 32 * 86_400_000)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self.of_process}{now - self._month:08X}{counter:04X}"


def month_start_ms(now_ms: int) -> int:
    """Return local midnight of the first of the month that holds the given time."""
    first = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp()) * 1000


def _from_hex(text: str, what: str) -> bytes:
    if len(text) not in (32, 56):
        raise ValueError(f"{what} has 32 or 56 hex digits, not {len(text)}: {text[:64]!r}")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{what} holds hex digits only: {text!r}") from None
