"""Replication streams by TLS over real sockets: who follows, who is refused and by which line; renewed files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.settings import HaTls
from pyromq.broker.replication.stream_tls import cure, port_opening
from pyromq.errors import ConfigError
from pyromq.transport.settings import TransportSettings
from pyromq.transport.tls import ClientCertificates, TlsMode
from tests.broker.replication.test_new_slaves import SLAVE, fill, follows, log_of, name_server_of, seed
from tests.broker.running import Running, running_broker, turns_until
from tests.transport.certificates import Authority, Pair

PAST = datetime(2021, 1, 1, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


def shown(pair: Pair) -> dict[str, Any]:
    """The settings of a master with this certificate that takes no plain slave."""
    return {"ha_tls": HaTls.REQUIRED, "tls_server_cert_path": pair.certificate, "tls_server_key_path": pair.key}


def checked(authority: Authority) -> dict[str, Any]:
    """The settings of a slave that checks who signed its master's certificate."""
    return {"ha_tls": HaTls.ON, "tls_client_auth_server": True, "tls_client_trust_cert_path": authority.file}


async def why_not(master: Running, folder: Path, said: str, **settings: Any) -> str:
    """Start a slave that cannot follow; return what it says once that has these words."""
    async with (
        name_server_of(master) as name_server,
        running_broker(folder, **(SLAVE | {"namesrv_addr": (name_server,)} | settings)) as slave,
    ):
        parts = slave.broker.slave
        assert parts is not None
        await turns_until(lambda: said in (parts.trouble() or ""))
        return parts.trouble() or ""


async def test_a_slave_follows_by_tls_and_checks_who_signed(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue("master")
    async with running_broker(tmp_path / "master", **shown(pair)) as master:
        await fill(master)
        assert await follows(master, tmp_path / "slave", **checked(authority)) == log_of(master)


async def test_a_master_that_does_not_require_tls_takes_both(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue("master")
    async with running_broker(tmp_path / "master", **(shown(pair) | {"ha_tls": HaTls.OFF})) as master:
        await fill(master, 20)
        assert await follows(master, tmp_path / "plain") == log_of(master)
        assert await follows(master, tmp_path / "tls", **checked(authority)) == log_of(master)


async def test_a_plain_slave_is_refused_with_a_line_that_names_the_setting(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path / "master", **shown(authority.issue("master"))) as master:
        await why_not(master, tmp_path / "slave", "closed the connection")
    (line,) = {record.getMessage() for record in caplog.records if "TLS with it" in record.getMessage()}
    assert "haTls" in line
    assert "the peer speaks plain, but TLS is enforced here" in line


async def test_an_expired_certificate_is_refused_with_one_line_until_it_is_renewed(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue("master", until=PAST)
    async with running_broker(tmp_path / "master", **shown(pair)) as master:
        await fill(master, 20)
        said = await why_not(master, tmp_path / "slave", "expired", **checked(authority))
        assert "certificate has expired" in said
        assert said.endswith(cure("CERTIFICATE_VERIFY_FAILED expired"))
        lines = [record.getMessage() for record in caplog.records if "is not followed now" in record.getMessage()]
        assert len(lines) == 1
        authority.issue("master")  # into the same files
        assert await follows(master, tmp_path / "slave", **checked(authority)) == log_of(master)


async def test_a_certificate_of_strangers_is_refused(tmp_path: Path, authority: Authority) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with running_broker(tmp_path / "master", **shown(stranger.issue("master"))) as master:
        said = await why_not(master, tmp_path / "slave", "no TLS", **checked(authority))
    assert "tls.client.trustCertPath" in said


async def test_a_master_may_want_the_certificates_of_its_slaves(tmp_path: Path, authority: Authority) -> None:
    wanted = {
        "tls_server_need_client_auth": ClientCertificates.REQUIRE,
        "tls_server_trust_cert_path": authority.file,
    }
    own = authority.issue("slave")
    late = authority.issue("late", until=PAST)
    async with running_broker(tmp_path / "master", **(shown(authority.issue("master")) | wanted)) as master:
        await fill(master, 20)
        mine = {"tls_client_cert_path": own.certificate, "tls_client_key_path": own.key}
        assert await follows(master, tmp_path / "known", **checked(authority), **mine) == log_of(master)
        said = await why_not(master, tmp_path / "none", "no TLS", **checked(authority))
        assert "tls.client.certPath" in said
        past = {"tls_client_cert_path": late.certificate, "tls_client_key_path": late.key}
        said = await why_not(master, tmp_path / "late", "no TLS", **checked(authority), **past)
        assert "not be past its time" in said


async def test_what_speaks_no_tls_is_told_apart(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "master", tls_server_mode=TlsMode.DISABLED) as master:
        said = await why_not(master, tmp_path / "slave", "no TLS", ha_tls=HaTls.ON)
    assert said.endswith("set haTls=off here")


async def test_a_new_store_is_seeded_by_tls(tmp_path: Path, authority: Authority) -> None:
    async with running_broker(tmp_path / "master", **shown(authority.issue("master"))) as master:
        await fill(master, 20)
        words = (tmp_path / "new", "--master", master.address, "--json")
        result = await seed(*words)
        assert result.exit_code == 0, result.output
        assert f'"logEnd": {master.broker.store.commit_log.end}' in result.output


def test_what_cannot_be_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="haTls = required: there is no certificate"):
        port_opening(TransportSettings(tls_server_mode=TlsMode.DISABLED), HaTls.REQUIRED)
    wanted: dict[str, Any] = {"ha_tls": HaTls.REQUIRED, "tls_test_mode_enable": False}
    with pytest.raises(ConfigError, match="haTls = required"):
        BrokerConfig(**wanted).check_daemon()
