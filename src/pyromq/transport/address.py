"""`host:port` texts, both ways; IPv6 hosts stand in brackets."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import Any

from ..errors import ConfigError
from ..logs import EventLog
from ..model.wire_text import whole_number

MAX_ADDRESS = 300  # characters: the longest name of a host, brackets and a port
_HOST = re.compile(r"[A-Za-z0-9._:%-]+")  # names, IPv4, IPv6 with a zone


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port. ConfigError says what an address looks like."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = whole_number(port, 0, 65535) if port[:1] not in ("+", "-") else None
    if not host or number is None or len(text) > MAX_ADDRESS or not text.isprintable() or {" ", "/"} & set(text):
        shown = text if len(text) <= MAX_ADDRESS else text[:64] + "..."
        raise ConfigError(
            f"{shown!r} is no address: write host:port, such as 127.0.0.1:9876 or [::1]:9876, with a port up to 65535"
        )
    return host, number


def address_fault(text: str) -> str | None:
    """Return what is wrong with an address that a stranger wants others to use, None if nothing. Only ASCII names and
    numbers are right; `parse_address` takes what people may write too."""
    try:
        host, _ = parse_address(text)
    except ConfigError as fault:
        return str(fault)
    return None if _HOST.fullmatch(host) else f"{text!r} is no address: its host has characters that no host has"


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach the host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_strangers(bind_address: str, cure: str = "") -> None:
    """Raise ConfigError where other machines reach a listener at this address: nobody is asked who they are.

    `cure`: what may be done about it besides."""
    if not is_loopback(bind_address):
        raise ConfigError(
            f"bindAddress = {bind_address}: other machines might reach it, and nobody is asked who he is; {cure}"
            "listen on 127.0.0.1, or, in a trusted network, start it with --insecure, or set allowUnauthenticated=true"
        )


ASK_EVERYBODY = "set authenticationEnabled=true, or use `pyromq up --secure`, or listen on 127.0.0.1 (docs/security.md)"


def warn_of_strangers(log: EventLog, host: str, port: int, danger: str, cure: str = ASK_EVERYBODY) -> None:
    """Say at a start, in one line, that other machines reach a listener which --insecure has opened to them."""
    if not is_loopback(host):
        address = format_address(host.strip("[]"), port) if port else f"{host}, any free port"
        log.warning("open to strangers", address=address, danger=danger, cure=cure)


async def ip_of(host: str, setting: str) -> str:
    """Return the number of a host; a name is looked up, for IPv4 first. ConfigError if nobody knows the name.

    `setting`: where the host was named."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as fault:
        raise ConfigError(
            f"{setting} = {host}: nobody knows a number of this name ({fault}). Set it to an address, or to a name "
            "that this machine can look up"
        ) from None
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])


def host_of(address: str) -> str:
    """Return the part that the connections of one machine share."""
    return address.rpartition(":")[0]


def socket_address(name: Any) -> str:
    """Format what `getpeername` and `getsockname` give: a pair (IPv4), four values (IPv6), a path or nothing."""
    if isinstance(name, tuple) and len(name) >= 2:
        return format_address(str(name[0]), name[1])
    return str(name) if name else "unknown"
