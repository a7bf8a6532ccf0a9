"""What a policy's entry is about: resources, as 5.5.0 writes and matches them, and addresses that requests come from.

    Topic:orders    Topic:orders-*    Group:*    Cluster:DefaultCluster    *

Of several patterns that match a name the narrower one decides: `rank` orders them as 5.5.0 does.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum

from ..protocol.access import Resource

ANY = "*"
_KINDS = {kind.value.lower(): kind for kind in Resource}
_ANY_KIND = "any"


class Shape(IntEnum):
    """How a name is meant, the narrowest first."""

    LITERAL = 0
    PREFIX = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """`kind` None: resources of every kind."""

    kind: Resource | None
    name: str
    shape: Shape

    @classmethod
    def parse(cls, text: str | None) -> Pattern | None:
        """Return what a policy names; None for what 5.5.0 knows no resource for."""
        if text is None or not text.strip():
            return None
        if text == ANY:
            return cls(None, "", Shape.ANY)
        kind, _, name = text.partition(":")
        if kind.lower() != _ANY_KIND and kind.lower() not in _KINDS:
            return None
        found = _KINDS.get(kind.lower())
        if name == ANY:
            return cls(found, "", Shape.ANY)
        if name.endswith(ANY):
            return cls(found, name[: name.index(ANY)], Shape.PREFIX)
        return cls(found, name, Shape.LITERAL)

    def __str__(self) -> str:
        if self.kind is None:
            return ANY
        name = {Shape.ANY: ANY, Shape.PREFIX: self.name + ANY, Shape.LITERAL: self.name}[self.shape]
        return f"{self.kind.value}:{name}"

    def matches(self, kind: Resource, name: str) -> bool:
        if self.kind is None:
            return True
        if self.kind is not kind:
            return False
        if self.shape is Shape.LITERAL:
            return name == self.name
        return self.shape is Shape.ANY or name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Return the place among patterns that match the same name: the smallest decides."""
        return self.kind is None, self.shape, -len(self.name) if self.shape is Shape.PREFIX else 0


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def network_of(text: str) -> Network | None:
    """Return the addresses that a policy names, one or a CIDR block; None for anything else."""
    _, slash, bits = text.partition("/")
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return None if slash and bits != str(network.prefixlen) else network  # a mask in dots is none of 5.5.0's


def is_within(source: str, networks: tuple[Network, ...]) -> bool:
    """Tell whether an address is in one of the networks. An IPv4 address in IPv6 clothes is the IPv4 address."""
    try:
        address = ipaddress.ip_address(source.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network or address in network for network in networks)
