"""Settings of a daemon: none is read and then ignored."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError
from pyromq.transport.settings import TransportSettings
from pyromq.transport.tls import ClientCertificates, TlsMode

DEFAULTS = TransportSettings()
NUMBERS = [
    spec.name
    for spec in fields(TransportSettings)
    if not spec.name.startswith("tls_") and spec.name != "reserved_descriptors"  # of the process: tests/machine
]
FILES: dict[str, Any] = {
    "tls_server_cert_path": Path("a.crt"),
    "tls_server_key_path": Path("a.key"),
    "tls_server_trust_cert_path": Path("ca.crt"),
}
CHANGES: dict[str, Any] = {
    "tls_server_mode": TlsMode.ENFORCING,
    "tls_server_cert_path": Path("b.crt"),
    "tls_server_key_path": Path("b.key"),
    "tls_server_key_password": "secret",
    "tls_server_trust_cert_path": Path("other.crt"),
    "tls_server_need_client_auth": ClientCertificates.REQUIRE,
    "tls_enable": True,
    "tls_client_auth_server": True,
    "tls_client_trust_cert_path": Path("ca.crt"),
    "tls_client_key_password": "secret",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_each_number_is_a_limit(name: str) -> None:
    changed = TransportSettings(**{name: getattr(DEFAULTS, name) + 1})
    assert changed.limits() != DEFAULTS.limits()


@pytest.mark.parametrize("name", CHANGES)
def test_each_tls_setting_has_an_effect(name: str) -> None:
    base = FILES | ({} if name == "tls_enable" else {"tls_enable": True})
    before, after = TransportSettings(**base), TransportSettings(**base | {name: CHANGES[name]})
    assert (before.server_tls(), before.client_tls()) != (after.server_tls(), after.client_tls())


def test_a_client_certificate_is_a_pair() -> None:
    both = TransportSettings(tls_enable=True, tls_client_cert_path=Path("c.crt"), tls_client_key_path=Path("c.key"))
    tls = both.client_tls()
    assert tls is not None
    assert (tls.certificate, tls.key) == (Path("c.crt"), Path("c.key"))


def test_enforcing_without_files_is_refused() -> None:
    assert DEFAULTS.server_tls() is None
    with pytest.raises(ConfigError, match="TLS needs both files"):
        TransportSettings(tls_server_mode=TlsMode.ENFORCING).server_tls()


@pytest.mark.parametrize(
    ("memory_bytes", "held_bytes", "unfinished_bytes"),
    [
        (128 << 20, 32 << 20, 4 << 20),
        (1 << 30, 128 << 20, 16 << 20),
        (16 << 30, 2 << 30, 32 << 20),
        (1 << 40, 4 << 30, 32 << 20),
    ],
)
def test_what_is_held_for_peers_follows_the_memory(memory_bytes: int, held_bytes: int, unfinished_bytes: int) -> None:
    limits = DEFAULTS.limits(memory_bytes)
    assert (limits.held_bytes, limits.unfinished_bytes) == (held_bytes, unfinished_bytes)
    assert TransportSettings(held_bytes=12345).limits(memory_bytes).held_bytes == 12345
