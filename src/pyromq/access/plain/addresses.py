"""White lists of addresses, in the syntax of ACL 1.0.

    10.1.2.3    10.1.2.*    10.1.2.1-10    10.1.2.{1,2}    10.1.2.3,10.1.2.4    10.1.0.0/16    fe80::1:*    *

Each part may be a number, a range or `*`. A network with a slash is ours: RocketMQ takes none.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ..patterns import Network, network_of

_EVERYWHERE = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_NUMBER = {10: re.compile(r"0|[1-9][0-9]{0,2}"), 16: re.compile(r"[0-9A-Fa-f]{1,4}")}  # a leading 0 may mean octal
_COMMA = re.compile(r",(?![^{]*\})")  # none that stands in braces
_LAST_PARTS = 2  # of an IPv6 pattern, which may be ranges
_PARTS_OF_6 = 8

Parts = tuple[int, ...]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """The numbers that each part of an address may have: four of IPv4, eight of IPv6. No ranges: every address."""

    text: str
    ranges: tuple[Range, ...] = ()

    def covers(self, parts: Parts) -> bool:
        if not self.ranges:
            return True
        is_same_kind = len(parts) == len(self.ranges)
        return is_same_kind and all(low <= part <= high for part, (low, high) in zip(parts, self.ranges, strict=True))


@dataclass(frozen=True, slots=True)
class AddressList:
    patterns: tuple[AddressPattern, ...] = ()

    @classmethod
    def parse(cls, texts: str | Iterable[str]) -> AddressList:
        """Return the list that texts stand for, each with one pattern or several. ValueError names one that is none."""
        given = [texts] if isinstance(texts, str) else texts
        items = (item.strip() for text in given for item in _COMMA.split(text))
        return cls(tuple(pattern for item in items if item for pattern in _patterns(item)))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(pattern.text for pattern in self.patterns)

    def covers(self, source: str) -> bool:
        """Tell whether an address is on the list. An IPv4 address in IPv6 clothes is the IPv4 address."""
        if not self.patterns:
            return False
        parts = _parts_of(source)
        return bool(parts) and any(pattern.covers(parts) for pattern in self.patterns)

    def __str__(self) -> str:
        return ", ".join(pattern.text for pattern in self.patterns)

    def __add__(self, other: AddressList) -> AddressList:
        return AddressList(self.patterns + other.patterns)


NO_ADDRESSES = AddressList()


@dataclass(frozen=True, slots=True)
class WhiteLists:
    """From where requests are let in without a signature. `of_users`: from there who says such a name is believed, and
    may do everything."""

    unsigned: AddressList = NO_ADDRESSES
    unjudged: AddressList = NO_ADDRESSES  # may do everything, whoever it is
    of_users: Mapping[str, AddressList] = field(default_factory=dict)

    def __add__(self, other: WhiteLists) -> WhiteLists:
        return WhiteLists(
            self.unsigned + other.unsigned, self.unjudged + other.unjudged, {**self.of_users, **other.of_users}
        )

    def is_believed(self, name: str, source: str) -> bool:
        return name in self.of_users and self.of_users[name].covers(source)


@lru_cache(4096)
def _parts_of(source: str) -> Parts:
    """Return the numbers of an address; none for what is no address."""
    try:
        address = ipaddress.ip_address(source.strip("[]").partition("%")[0])
    except ValueError:
        return ()
    return _numbers(getattr(address, "ipv4_mapped", None) or address)


def _numbers(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Parts:
    if isinstance(address, ipaddress.IPv4Address):
        return tuple(address.packed)
    return struct.unpack(">8H", address.packed)


# --- reading patterns -------------------------------------------------------------------------------------------------


def _patterns(text: str) -> Iterable[AddressPattern]:
    """Return what one pattern stands for: several only where it has braces."""
    if text in _EVERYWHERE:
        return [AddressPattern(text)]
    head, brace, rest = text.partition("{")
    if not brace:
        return [_pattern(text)]
    if not rest.endswith("}") or not head.endswith((".", ":")):
        raise _no_address(text)
    return [_pattern(head + one.strip()) for one in rest[:-1].split(",")]


def _pattern(text: str) -> AddressPattern:
    network = network_of(text)
    if network is not None:
        return AddressPattern(text, _of_network(network))
    is_6 = ":" in text
    try:
        ranges = _ranges_of_6(text) if is_6 else [_range(part, 10, 255) for part in text.split(".")]
    except ValueError:
        raise _no_address(text) from None
    if len(ranges) != (_PARTS_OF_6 if is_6 else 4):
        raise _no_address(text)
    return AddressPattern(text, tuple(ranges))


def _of_network(network: Network) -> tuple[Range, ...]:
    first, last = _numbers(network.network_address), _numbers(network.broadcast_address)
    return tuple(zip(first, last, strict=True))


def _ranges_of_6(text: str) -> list[Range]:
    """Return the ranges of IPv6: only the last two parts may be ranges, so that `::` before them means one thing."""
    parts = text.split(":")
    ranged = next((at for at, part in enumerate(parts) if part == "*" or "-" in part), len(parts))
    behind = parts[ranged:]
    if len(behind) > _LAST_PARTS:
        raise ValueError(text)
    head = ":".join([*parts[:ranged], *("0" for _ in behind)])
    known = _numbers(ipaddress.IPv6Address(head))[: _PARTS_OF_6 - len(behind)]
    return [*((number, number) for number in known), *(_range(part, 16, 0xFFFF) for part in behind)]


def _range(text: str, base: int, most: int) -> Range:
    if text == "*":
        return 0, most
    low, minus, high = text.partition("-")
    first, last = (_number(part, base) for part in (low, high if minus else low))
    if not first <= last <= most:
        raise ValueError(text)
    return first, last


def _number(text: str, base: int) -> int:
    if not _NUMBER[base].fullmatch(text):
        raise ValueError(text)
    return int(text, base)


def _no_address(text: str) -> ValueError:
    return ValueError(
        f"{text!r} is no address, and no pattern like 10.1.2.*, 10.1.2.1-10, 10.1.2.{{1,2}} or 10.0.0.0/8"
    )
