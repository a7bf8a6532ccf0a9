"""`--insecure` is said loudly: each daemon that others reach, and that asks nobody who he is, warns of it at its start.

127.1 is loopback, but no name for it that `is_loopback` knows: a listener there counts as one that others reach.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.namesrv import server as namesrv
from pyromq.namesrv.config import NamesrvConfig
from pyromq.transport.tls import ClientCertificates, TlsMode
from tests.cli.test_up_brokers import up
from tests.interop.peers.process import Program

OUTSIDE = "127.1"
EVERYTHING = "may read, write and administrate everything: nobody is asked who he is"
CURES = ("authenticationEnabled=true", "`pyromq up --secure`", "docs/security.md")


def warned(folder: Path, *words: str) -> str:
    """The first line that a daemon says of strangers."""
    with Program(
        [sys.executable, "-m", "pyromq.cli.main", *words], name=words[0], env={"HOME": str(folder)}
    ) as program:
        line = program.wait_for(r"[^\n]*open to strangers[^\n]*")[0]
    assert "WARNING" in line
    return line


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (("namesrv", "--kv-config-path", "kv.json", "--listen", f"{OUTSIDE}:0"), f"{OUTSIDE}, any free port"),
        (("broker", "--store-path-root-dir", "store", "--listen", f"{OUTSIDE}:0"), f"{OUTSIDE}, any free port"),
        (("controller", "--etcd-endpoints", "http://127.0.0.1:1", "--listen", f"{OUTSIDE}:4711"), f"{OUTSIDE}:4711"),
        (("proxy", "--certificate-folder", "own", "--listen", f"{OUTSIDE}:0"), f"{OUTSIDE}, any free port"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_each_server_names_address_danger_and_cure(
    words: tuple[str, ...], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = warned(tmp_path, *words, "--insecure")
    assert address in line
    assert f"whoever reaches it {EVERYTHING}" in line
    assert all(cure in line for cure in CURES)


def test_the_dashboard_says_that_who_reads_the_network_has_its_sessions(tmp_path: Path) -> None:
    line = warned(tmp_path, "dashboard", "-n", "127.0.0.1:1", "--listen", f"{OUTSIDE}:0", "--insecure")
    assert re.search(rf"address={re.escape(OUTSIDE)}:[1-9]\d* ", line)
    assert "who reads the network has secrets and sessions" in line
    assert "behind a proxy that speaks TLS (docs/dashboard.md)" in line


async def test_up_says_it_in_the_log_of_both_servers_and_below_its_welcome(tmp_path: Path) -> None:
    async with up(
        tmp_path / "data", "--host", OUTSIDE, "--advertise", "127.0.0.1", "--grpc-port", "0", "--insecure"
    ) as cluster:
        await cluster.line_with("PyroMQ is up")
        assert sum("open to strangers" in line and "WARNING" in line for line in cluster.lines) == 2
        assert EVERYTHING in await cluster.line_with(f"Open to strangers, at {OUTSIDE}: whoever reaches it")
        cure = await cluster.line_with("--secure")
        assert all(each.strip("`") in cure for each in CURES)


async def test_nothing_is_said_on_loopback_or_where_everybody_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    user = '{"username":"admin","password":"12345678"}'
    asked = {"authentication_enabled": True, "init_authentication_user": user}
    for settings in (
        {"bind_address": "127.0.0.1"},
        {"bind_address": OUTSIDE} | asked,
        {"bind_address": "127.0.0.1", "admin_listener": f"{OUTSIDE}:0"} | asked,
    ):
        await started(tmp_path, **settings)
    assert "open to strangers" not in caplog.text
    await started(tmp_path, bind_address="127.0.0.1", admin_listener=f"{OUTSIDE}:0")
    assert caplog.text.count("open to strangers") == 1


def test_where_a_certificate_is_needed_the_warning_says_who_gets_in() -> None:
    found = NamesrvConfig().danger_of_strangers
    assert found.startswith("whoever reaches it")
    needed = replace(NamesrvConfig(), tls_server_need_client_auth=ClientCertificates.REQUIRE)
    assert needed.danger_of_strangers == found  # plain connections show none
    enforced = replace(needed, tls_server_mode=TlsMode.ENFORCING).danger_of_strangers
    assert enforced.startswith("who has a certificate that tls.server.trustCertPath vouches for may read")


async def started(folder: Path, **settings: object) -> None:
    """Start a name server, with the flag, and stop it."""
    config = NamesrvConfig(
        kv_config_path=folder / "kv.json",
        listen_port=0,
        allow_unauthenticated=True,
        **settings,  # type: ignore[arg-type]
    )
    stop = asyncio.Event()
    stop.set()
    ready: list[str] = []
    await namesrv.run(
        Loaded(config, []), clock=SystemClock(), rng=random.Random(1), ready=ready.append, stop_wanted=stop
    )
    assert ready
