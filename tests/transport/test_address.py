"""`host:port` texts."""

from __future__ import annotations

import pytest

from pyromq.transport.address import format_address, host_of, parse_address, socket_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("[::1]:10911", "::1", 10911),
        ("broker-a.example:1", "broker-a.example", 1),
    ],
)
def test_both_ways(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text


def test_what_sockets_say() -> None:
    assert socket_address(("10.0.0.1", 5)) == "10.0.0.1:5"
    assert socket_address(("::1", 5, 0, 0)) == "[::1]:5"
    assert socket_address("/run/socket") == "/run/socket"
    assert socket_address(None) == "unknown"
    assert host_of("[::1]:5") == host_of("[::1]:6") == "[::1]"
