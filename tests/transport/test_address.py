"""`host:port` texts."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.transport.address import format_address, host_of, ip_of, parse_address, socket_address


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


@pytest.mark.parametrize(
    ("host", "ip"),
    [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("127.1", "127.0.0.1"), ("localhost", "127.0.0.1")],
)
async def test_a_host_has_a_number(host: str, ip: str) -> None:
    assert await ip_of(host, "brokerIP1") == ip


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".invalid"])
async def test_a_name_that_nobody_knows_is_named_with_its_setting(host: str) -> None:
    with pytest.raises(ConfigError, match=f"brokerIP1 = {host}: nobody knows a number of this name"):
        await ip_of(host, "brokerIP1")
