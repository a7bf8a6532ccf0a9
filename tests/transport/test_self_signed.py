"""The certificate that a daemon makes for itself: made once, kept for its owner, reused; and what stands in its way."""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.errors import ConfigError, ConnectionLost
from pyromq.model.codes import ResponseCode
from pyromq.transport.certificates.self_signed import FILE, FOR_CLIENTS, VALID, log_certificate, with_certificate
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher
from pyromq.transport.server import Server
from pyromq.transport.settings import TransportSettings
from pyromq.transport.tls import ClientCertificates, ClientTls, TlsMode, Verify
from tests.transport.support import ECHO, command, echo

Logs = pytest.LogCaptureFixture
DEFAULTS = TransportSettings()
NOW_MS = SystemClock().now_ms()
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def all_lines(caplog: Logs) -> None:
    caplog.set_level("INFO", "pyromq")


def certified(folder: Path, settings: TransportSettings = DEFAULTS, now_ms: int = NOW_MS) -> TransportSettings:
    """The settings with which a start goes on; what it logs then is logged."""
    hosts = ["10.1.2.3", "[::2]", ""]
    found = with_certificate("broker", Loaded(settings), settings, folder, hosts, now_ms).config
    log_certificate("broker", found)
    return found


def fingerprint(folder: Path) -> str:
    der = ssl.PEM_cert_to_DER_cert((folder / FOR_CLIENTS).read_text())
    return hashlib.sha256(der).digest().hex(":").upper()


async def answer(address: str, tls: ClientTls | None) -> int:
    async with RemotingClient(clock=SystemClock(), rng=random.Random(1), tls=tls) as client:
        return (await client.call(address, command(), 20)).code


# --- who connects ----------------------------------------------------------------------------------------------------


async def test_tls_and_plain_clients_connect_without_any_configuration(tmp_path: Path) -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock(), tls=certified(tmp_path).server_tls())
    address = await server.start("127.0.0.1", 0)
    made = tmp_path / FOR_CLIENTS
    for tls in (None, ClientTls(verify=Verify.NONE), ClientTls(ca=made), ClientTls(ca=made, verify=Verify.CA)):
        assert await answer(address, tls) == ResponseCode.SUCCESS
    with pytest.raises(ConnectionLost, match="CERTIFICATE_VERIFY_FAILED") as caught:
        await answer(address, ClientTls())
    assert "self-signed.crt" in caught.value.hint
    await server.stop(grace_s=0)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "10.1.2.3", "::2"])
async def test_python_itself_takes_it_by_its_strictest_rules(tmp_path: Path, name: str) -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock(), tls=certified(tmp_path).server_tls())
    host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
    context = ssl.create_default_context(cafile=tmp_path / FOR_CLIENTS)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert hashlib.sha256(shown).digest().hex(":").upper() == fingerprint(tmp_path)
    writer.close()
    await server.stop(grace_s=0)


async def test_enforcing_takes_tls_alone(tmp_path: Path) -> None:
    tls = certified(tmp_path, TransportSettings(tls_server_mode=TlsMode.ENFORCING)).server_tls()
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock(), tls=tls)
    address = await server.start("127.0.0.1", 0)
    assert await answer(address, ClientTls(ca=tmp_path / FOR_CLIENTS)) == ResponseCode.SUCCESS
    with pytest.raises(ConnectionLost):
        await answer(address, None)
    await server.stop(grace_s=0)


def test_client_certificates_are_still_asked_for(tmp_path: Path) -> None:
    asked = TransportSettings(
        tls_server_need_client_auth=ClientCertificates.REQUIRE, tls_server_trust_cert_path=Path("ca.pem")
    )
    tls = certified(tmp_path, asked).server_tls()
    assert tls is not None
    assert (tls.client_certificates, tls.ca) == (ClientCertificates.REQUIRE, Path("ca.pem"))


# --- how it is kept --------------------------------------------------------------------------------------------------


def test_it_is_made_once_for_its_owner_and_said_at_each_start(tmp_path: Path, caplog: Logs) -> None:
    folder = tmp_path / "deep" / "tls"
    before = certified(folder)
    key = (folder / FILE).read_bytes()
    (folder / FOR_CLIENTS).chmod(0o600)  # as older versions made it
    assert certified(folder) == before
    assert (folder / FILE).read_bytes() == key
    assert {one.name: one.stat().st_mode & 0o777 for one in folder.iterdir()} == {FILE: 0o600, FOR_CLIENTS: 0o644}
    assert b"PRIVATE" in key
    assert "PRIVATE" not in (folder / FOR_CLIENTS).read_text()
    first, second = caplog.messages
    assert first == second
    for word in ("self-signed", "tls.server.certPath", "daemon=broker", fingerprint(folder), str(folder / FOR_CLIENTS)):
        assert word in first


def test_daemons_that_start_at_the_same_moment_have_one_certificate(tmp_path: Path) -> None:
    program = """if True:
        import sys
        from pathlib import Path
        from pyromq.config import Loaded
        from pyromq.transport.certificates.self_signed import with_certificate
        from pyromq.transport.settings import TransportSettings
        import cryptography.x509
        settings = TransportSettings()
        print("ready", flush=True)
        sys.stdin.readline()
        found = with_certificate("proxy", Loaded(settings), settings, Path(sys.argv[1]), [], int(sys.argv[2]))
        print(found.config.server_tls() is not None, (Path(sys.argv[1]) / "self-signed.pem").read_bytes())
    """
    command_line = [sys.executable, "-c", program, tmp_path / "tls", str(NOW_MS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    daemons = [subprocess.Popen(command_line, **pipes) for _ in range(6)]  # type: ignore[call-overload]
    for one in daemons:
        assert one.stdout.readline() == "ready\n"
    for one in daemons:
        one.stdin.write("\n")
        one.stdin.flush()
    assert len({one.communicate()[0] for one in daemons}) == 1
    assert [one.returncode for one in daemons] == [0] * 6


def test_the_gateway_names_its_own_keys(tmp_path: Path, caplog: Logs) -> None:
    found = with_certificate("proxy", Loaded(DEFAULTS), DEFAULTS, tmp_path, [], NOW_MS).config
    log_certificate("proxy", found)
    assert "set tlsCertPath and tlsKeyPath" in caplog.messages[-1]


def test_a_later_start_does_not_load_what_makes_certificates(tmp_path: Path) -> None:
    program = """if True:
        import sys
        from pathlib import Path
        from pyromq.config import Loaded
        from pyromq.transport.certificates.self_signed import with_certificate
        from pyromq.transport.settings import TransportSettings
        settings = TransportSettings()
        found = with_certificate("broker", Loaded(settings), settings, Path(sys.argv[1]), [], int(sys.argv[2]))
        print(found.config.server_tls() is not None, "cryptography" in sys.modules)
    """
    ran = [
        subprocess.run([sys.executable, "-c", program, tmp_path, str(NOW_MS)], capture_output=True, check=True)
        for _ in range(2)
    ]
    assert [one.stdout.split() for one in ran] == [[b"True", b"True"], [b"True", b"False"]]


def test_one_that_has_expired_is_made_anew_and_that_is_said(tmp_path: Path, caplog: Logs) -> None:
    certified(tmp_path)
    old, last_day = fingerprint(tmp_path), NOW_MS + (VALID.days - 1) * DAY_MS
    certified(tmp_path, now_ms=last_day)
    assert fingerprint(tmp_path) == old
    caplog.clear()
    certified(tmp_path, now_ms=last_day + 2 * DAY_MS)
    assert fingerprint(tmp_path) != old
    expired, served = caplog.messages
    assert "has expired: a new one is made" in expired
    assert fingerprint(tmp_path) in served
    assert {one.name for one in tmp_path.iterdir()} == {FILE, FOR_CLIENTS}


@pytest.mark.parametrize("text", [None, "another"], ids=["gone", "changed"])
def test_the_copy_for_clients_is_mended(tmp_path: Path, text: str | None) -> None:
    certified(tmp_path)
    copy = tmp_path / FOR_CLIENTS
    before = copy.read_text()
    copy.unlink()
    if text is not None:
        copy.write_text(text)
    certified(tmp_path)
    assert copy.read_text() == before


# --- where there is none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        TransportSettings(tls_test_mode_enable=False),
        TransportSettings(tls_server_mode=TlsMode.DISABLED),
        TransportSettings(tls_server_cert_path=Path("a.crt"), tls_server_key_path=Path("a.key")),
        TransportSettings(tls_server_cert_path=Path("a.crt")),
    ],
    ids=["switched off", "disabled", "configured", "half configured"],
)
def test_none_is_made_where_none_is_wanted(tmp_path: Path, settings: TransportSettings, caplog: Logs) -> None:
    assert certified(tmp_path, settings) == settings
    assert list(tmp_path.iterdir()) == []
    assert caplog.messages == []


@pytest.mark.parametrize("content", [b"", b"half a certif", "no key", "other key", "a folder"])
def test_a_file_that_cannot_be_used_is_named_with_the_cure(tmp_path: Path, content: bytes | str) -> None:
    certified(tmp_path)
    certified(tmp_path / "other")
    file, other = tmp_path / FILE, (tmp_path / "other" / FILE).read_bytes()
    _, mark, certificate = file.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    texts = {
        "no key": mark + certificate,
        "other key": other.partition(mark)[0] + mark + certificate,
    }
    file.unlink()
    if content == "a folder":  # cannot be read, by root neither
        file.mkdir()
    else:
        file.write_bytes(content if isinstance(content, bytes) else texts[content])
    with pytest.raises(ConfigError) as caught:
        certified(tmp_path)
    for word in (str(file), "remove the file", "tls.server.certPath", "tls.test.mode.enable=false"):
        assert word in str(caught.value)
    file.rename(tmp_path / "away")
    assert certified(tmp_path).server_tls() is not None


@pytest.mark.parametrize("cause", ["no library", "no folder"])
def test_where_none_can_be_made_plain_clients_are_served_and_tls_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Logs, cause: str
) -> None:
    folder = tmp_path / "tls"
    if cause == "no library":
        monkeypatch.setitem(sys.modules, "cryptography", None)
    else:
        folder.write_text("a file where the folder should be")
    assert certified(folder) == DEFAULTS
    (line,) = caplog.messages
    assert line.startswith("TLS clients are refused daemon=broker")
    assert str(folder) in line
    with pytest.raises(ConfigError, match=r"no certificate for TLS could be made in .*set tls\.server\.certPath"):
        certified(folder, replace(DEFAULTS, tls_server_mode=TlsMode.ENFORCING))
