"""`host:port` texts, both ways; IPv6 hosts stand in brackets."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """ConfigError says what an address looks like."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"{text!r} is no address: write host:port, such as 127.0.0.1:9876 or [::1]:9876, with a port up to 65535"
        )
    return host, int(port)


def host_of(address: str) -> str:
    """The part that the connections of one machine share."""
    return address.rpartition(":")[0]


def socket_address(name: Any) -> str:
    """What `getpeername` and `getsockname` give, as text: a pair (IPv4), four values (IPv6), a path or nothing."""
    if isinstance(name, tuple) and len(name) >= 2:
        return format_address(str(name[0]), int(name[1]))
    return str(name) if name else "unknown"
