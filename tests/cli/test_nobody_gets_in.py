"""Each server with `authenticationEnabled=true` and no user says at its start that nobody gets in, and what to set."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.in_file import AccessInFile
from pyromq.access.settings import AccessSettings
from pyromq.ambient import SystemClock
from tests.broker.running import running_broker
from tests.interop.peers.process import Program

FIRST = '{"username":"admin","password":"a long secret"}'
SAID = "nobody can get in"


def in_file(folder: Path, **settings: Any) -> AccessInFile:
    """What name servers and controllers open."""

    async def at_once(work: Callable[[], Any]) -> Any:
        return work()

    return AccessInFile(
        AccessSettings(**settings),
        folder / "access.json",
        server="here",
        is_loopback=True,
        cluster="c",
        clock=SystemClock(),
        run_blocking=at_once,
    )


async def test_a_broker_says_it_unless_somebody_gets_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    on: dict[str, Any] = {"authentication_enabled": True}
    async with running_broker(tmp_path / "first", **on, init_authentication_user=FIRST):
        assert SAID not in caplog.text
    async with running_broker(tmp_path / "none", **on):
        assert SAID in caplog.text


@pytest.mark.parametrize(
    ("more", "is_said"),
    [
        ({}, True),
        ({"authentication_enabled": False}, False),
        ({"init_authentication_user": FIRST}, False),
        ({"inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"theirs"}'}, False),
        ({"authentication_address_whitelist": "10.1.2.3"}, False),
    ],
)
def test_servers_with_a_table_in_a_file_do_too(
    more: dict[str, Any], is_said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_file(tmp_path, **{"authentication_enabled": True} | more)
    assert (SAID in caplog.text) == is_said


def test_a_name_server_says_it_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.conf").write_text("authenticationEnabled=true\n")
    words = [sys.executable, "-m", "pyromq.cli.main", "namesrv", "-c", "n.conf", "--listen", "127.0.0.1:0"]
    with Program([*words, "--kv-config-path", "kv.json"], name="namesrv", env={"HOME": str(tmp_path)}) as program:
        line = program.wait_for(rf"[^\n]*{SAID}[^\n]*")[0]
    assert "WARNING" in line
    assert "initAuthenticationUser" in line
    assert "innerClientAuthenticationCredentials" in line
