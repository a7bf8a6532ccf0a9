"""TLS: the three modes on one port, certificates of both sides, reload; over memory and over real sockets."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.errors import ConfigError, ConnectionLost
from pyromq.model.codes import ResponseCode
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import Reconnect, RemotingClient
from pyromq.transport.connection import security
from pyromq.transport.dispatch import Dispatcher
from pyromq.transport.limits import Limits
from pyromq.transport.memory import MemoryNetwork
from pyromq.transport.server import Server
from pyromq.transport.tls import ClientCertificates, ClientTls, ServerTls, TlsMode, TlsSession, Verify, opening
from tests.transport.certificates import Authority, Pair
from tests.transport.support import (
    ECHO,
    BytesPeer,
    MakeClient,
    MakeServer,
    RawPeer,
    command,
    echo,
    frames,
    raw_peer,
    violations,
)

Logs = pytest.LogCaptureFixture
ADDRESS = "127.0.0.1:1"  # in memory too: certificates are made out to it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ca(folder: Path) -> Authority:
    return Authority(folder, "ca")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Authority:
    """A CA that nobody here trusts."""
    return Authority(folder, "stranger")


@pytest.fixture(scope="module")
def pair(ca: Authority) -> Pair:
    return ca.issue("server")


def server_tls(pair: Pair, mode: TlsMode = TlsMode.ENFORCING, **options: object) -> ServerTls:
    return ServerTls(mode=mode, certificate=pair.certificate, key=pair.key, **options)  # type: ignore[arg-type]


# --- modes -----------------------------------------------------------------------------------------------------------


async def test_permissive_takes_plain_and_tls_on_one_port(
    make_server: MakeServer, make_client: MakeClient, ca: Authority, pair: Pair
) -> None:
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(pair, TlsMode.PERMISSIVE))
    for tls in (None, ClientTls(ca=ca.file)):
        response = await make_client(tls=tls).call(ADDRESS, command(n="1", body=b"x" * 100_000), 3)
        assert (response.fields, len(response.body)) == ({"n": "1"}, 100_000)


async def test_enforcing_refuses_plain(
    make_server: MakeServer, make_client: MakeClient, ca: Authority, pair: Pair, caplog: Logs
) -> None:
    server = make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(pair))
    plain = raw_peer(server, "plain:1")
    plain.write(frames(command()))
    await plain.lost()
    assert plain.raw == b""
    (line,) = violations(caplog)
    assert (line["peer"], line["fault"]) == ("plain:1", "the peer speaks plain, but TLS is enforced here: use TLS")
    assert (await make_client(tls=ClientTls(ca=ca.file)).call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS


async def test_disabled_takes_plain_only(
    make_server: MakeServer, make_client: MakeClient, ca: Authority, pair: Pair
) -> None:
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(pair, TlsMode.DISABLED))
    assert (await make_client().call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS
    with pytest.raises(ConnectionLost):
        await make_client(tls=ClientTls(ca=ca.file)).call(ADDRESS, command(), 3)


# --- what clients are told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["plain", "untrusted", "other name", "no TLS there", "no certificate", "foreign one"])
async def test_the_hint_says_what_is_wrong(
    ca: Authority, stranger: Authority, pair: Pair, how: str, caplog: Logs
) -> None:
    mine = stranger.issue("mine")
    shown = ca.issue("elsewhere", host="10.9.8.7") if how == "other name" else pair
    wants_ours = how in ("no certificate", "foreign one")
    mode = TlsMode.DISABLED if how == "no TLS there" else TlsMode.ENFORCING
    wanted = ClientCertificates.REQUIRE if wants_ours else ClientCertificates.NONE
    server = Server(
        Dispatcher({ECHO: echo}),
        clock=SystemClock(),
        tls=server_tls(shown, mode, ca=ca.file, client_certificates=wanted),
    )
    tls = {
        "plain": None,
        "untrusted": ClientTls(ca=stranger.file),
        "foreign one": ClientTls(ca=ca.file, certificate=mine.certificate, key=mine.key),
    }.get(how, ClientTls(ca=ca.file))
    told = {
        "plain": security.SILENT,
        "untrusted": security.UNTRUSTED,
        "other name": security.OTHER_NAME,
        "no TLS there": security.NO_ANSWER_TO_TLS,
        "no certificate": security.NOT_OURS,
        "foreign one": security.NOT_OURS,
    }
    address = await server.start("127.0.0.1", 0)
    patient = Reconnect(first_s=600, most_s=600, attempt_s=60)
    async with RemotingClient(clock=SystemClock(), rng=random.Random(1), tls=tls, reconnect=patient) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.call(address, command(), 20)
        assert caught.value.hint == told[how]
        assert [line for line in violations(caplog) if line["peer"] == address] == []  # it is told once, by the error
        if how in ("untrusted", "other name", "no TLS there"):  # while the next attempt is put off, the same
            with pytest.raises(ConnectionLost, match="next attempt") as again:
                await client.call(address, command(), 20)
            assert again.value.hint == told[how]
    await server.stop(grace_s=0)


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
async def test_the_hint_of_a_full_server_names_its_limit_and_not_tls_alone(
    ca: Authority, pair: Pair, is_tls: bool
) -> None:
    limits = Limits(connections=1)
    server = Server(
        Dispatcher({ECHO: echo}), clock=SystemClock(), limits=limits, tls=server_tls(pair, TlsMode.PERMISSIVE)
    )
    address = await server.start("127.0.0.1", 0)
    tls = ClientTls(ca=ca.file) if is_tls else None

    def client() -> RemotingClient:
        return RemotingClient(clock=SystemClock(), rng=random.Random(1), tls=tls)

    async with client() as first, client() as late:
        assert (await first.call(address, command(), 20)).code == ResponseCode.SUCCESS
        with pytest.raises(ConnectionLost) as caught:
            await late.call(address, command(), 20)
        assert "no room for more connections" in caught.value.hint
        assert "maxConnections" in caught.value.hint
        assert "TLS" in caught.value.hint
    await server.stop(grace_s=0)


def test_hints_of_endings_that_are_not_seen_above() -> None:
    session = TlsSession(ClientTls(verify=Verify.NONE).new_context(), server_side=False, host="x")

    def hint(reason: str) -> str:
        return security.Security(None, session).hint(reason, by_peer=False)

    assert hint("TLS handshake: [SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired") == security.EXPIRED
    assert hint("TLS handshake: [SSL: WRONG_VERSION_NUMBER] wrong version number") == security.NO_TLS
    assert hint("TLS handshake: [SSL: UNSUPPORTED_PROTOCOL]") == security.FAULTY
    assert hint("the client is closed") == ""
    assert security.Security(None, None).hint("the client is closed", by_peer=False) == ""


async def test_no_hint_where_nobody_listens_or_the_server_has_spoken() -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client:
        peer = await client.connect(address)
        assert (await client.call(address, command(), 20)).code == ResponseCode.SUCCESS
        await server.stop(grace_s=0)
        for call in (peer.call(command(), 20), client.call(address, command(), 20)):
            with pytest.raises(ConnectionLost) as caught:
                await call
            assert caught.value.hint == ""


# --- certificates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", list(ClientCertificates))
@pytest.mark.parametrize("shown", ["none", "good", "unknown"])
async def test_client_certificates(
    make_server: MakeServer,
    make_client: MakeClient,
    ca: Authority,
    stranger: Authority,
    pair: Pair,
    wanted: ClientCertificates,
    shown: str,
) -> None:
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(pair, ca=ca.file, client_certificates=wanted))
    mine = {"none": None, "good": ca.issue("client"), "unknown": stranger.issue("foreign")}[shown]
    tls = ClientTls(ca=ca.file) if mine is None else ClientTls(ca=ca.file, certificate=mine.certificate, key=mine.key)
    call = make_client(tls=tls).call(ADDRESS, command(), 3)
    refused = {
        ClientCertificates.NONE: set(),
        ClientCertificates.OPTIONAL: {"unknown"},
        ClientCertificates.REQUIRE: {"none", "unknown"},
    }
    if shown in refused[wanted]:
        with pytest.raises(ConnectionLost):
            await call
    else:
        assert (await call).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("verify", "host", "by_stranger", "is_taken"),
    [
        (Verify.FULL, "127.0.0.1", False, True),
        (Verify.FULL, "10.9.8.7", False, False),
        (Verify.FULL, "127.0.0.1", True, False),
        (Verify.CA, "10.9.8.7", False, True),
        (Verify.CA, "10.9.8.7", True, False),
        (Verify.NONE, "10.9.8.7", True, True),
    ],
)
async def test_what_a_client_checks_of_the_server(
    make_server: MakeServer,
    make_client: MakeClient,
    ca: Authority,
    stranger: Authority,
    verify: Verify,
    host: str,
    by_stranger: bool,
    is_taken: bool,
) -> None:
    shown = (stranger if by_stranger else ca).issue("shown", host=host)
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(shown))
    call = make_client(tls=ClientTls(ca=ca.file, verify=verify)).call(ADDRESS, command(), 3)
    if is_taken:
        assert (await call).code == ResponseCode.SUCCESS
    else:
        with pytest.raises(ConnectionLost, match=r"cannot connect to 127.0.0.1:1: .*CERTIFICATE_VERIFY_FAILED"):
            await call


async def test_an_encrypted_key_needs_its_password(
    make_server: MakeServer, make_client: MakeClient, ca: Authority
) -> None:
    locked = ca.issue("locked", password="open sesame")
    settings = server_tls(locked, key_password="open sesame")
    assert "sesame" not in repr(settings)
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=settings)
    assert (await make_client(tls=ClientTls(ca=ca.file)).call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS
    for password in ("wrong", None):
        with pytest.raises(ConfigError, match=r"TLS files cannot be used.*locked\.crt.*and the password"):
            opening(server_tls(locked, key_password=password))


def test_files_that_cannot_be_used_are_named(tmp_path: Path, pair: Pair, ca: Authority) -> None:
    other = ca.issue("other")
    for certificate, key in ((tmp_path / "missing.crt", pair.key), (pair.certificate, other.key)):
        with pytest.raises(ConfigError, match=certificate.name):
            opening(server_tls(Pair(certificate, key)))
    with pytest.raises(ConfigError, match="no CA file says by whom"):
        server_tls(pair, client_certificates=ClientCertificates.REQUIRE)
    with pytest.raises(ConfigError, match="needs its key"):
        ClientTls(certificate=pair.certificate)


# --- reload ----------------------------------------------------------------------------------------------------------


async def test_replaced_certificates_serve_the_next_connection(
    make_server: MakeServer, make_client: MakeClient, ca: Authority, stranger: Authority, tmp_path: Path, caplog: Logs
) -> None:
    live = Pair(tmp_path / "live.crt", tmp_path / "live.key")
    replace(live, stranger.issue("old"))
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(live))
    early = make_client(tls=ClientTls(ca=stranger.file))
    assert (await early.call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS

    replace(live, ca.issue("new"))
    assert (await make_client(tls=ClientTls(ca=ca.file)).call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS
    with pytest.raises(ConnectionLost):
        await make_client(tls=ClientTls(ca=stranger.file)).call(ADDRESS, command(), 3)
    assert (await early.call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS  # it stays connected


async def test_broken_files_leave_the_old_certificate_in_use(
    make_server: MakeServer, make_client: MakeClient, ca: Authority, tmp_path: Path, caplog: Logs
) -> None:
    live = Pair(tmp_path / "live.crt", tmp_path / "live.key")
    replace(live, ca.issue("first"))
    make_server(Dispatcher({ECHO: echo}), address=ADDRESS, tls=server_tls(live))
    live.certificate.write_text("half a certif")
    for _ in range(3):
        assert (await make_client(tls=ClientTls(ca=ca.file)).call(ADDRESS, command(), 3)).code == ResponseCode.SUCCESS
    (line,) = violations(caplog)
    assert line["event"] == "certificates not reloaded, the old ones stay in use"
    assert str(live.certificate) in str(line["fault"])


def replace(live: Pair, new: Pair) -> None:
    """As certbot and Kubernetes do: another file under the same name."""
    for old_file, new_file in ((live.certificate, new.certificate), (live.key, new.key)):
        os.replace(new_file, old_file)


# --- the layer itself ------------------------------------------------------------------------------------------------


async def test_a_handshake_in_pieces_of_one_byte(
    make_client: MakeClient, clock: ManualClock, ca: Authority, pair: Pair
) -> None:
    network = MemoryNetwork(chunk_bytes=1)
    server = Server(Dispatcher({ECHO: echo}), clock=clock, tls=server_tls(pair))
    network.listen(ADDRESS, server.attach)
    client = make_client(connect=network.connect, tls=ClientTls(ca=ca.file))
    assert (await client.call(ADDRESS, command(n="1"), 3)).fields == {"n": "1"}
    await server.stop(grace_s=1)


async def test_a_handshake_that_does_not_end_is_cut_off(
    make_server: MakeServer, clock: ManualClock, ca: Authority, pair: Pair, caplog: Logs
) -> None:
    server = make_server(Dispatcher({}), tls=server_tls(pair))
    peer = raw_peer(server, "half:1", BytesPeer)
    hello = TlsSession(ClientTls(ca=ca.file).new_context(), server_side=False, host="127.0.0.1").take_outgoing()
    peer.write(hello)
    await clock.advance(29)
    assert not peer.is_lost
    assert peer.raw[0] == 0x16
    await clock.advance(2)
    assert peer.is_lost
    assert violations(caplog) == [{"event": "slow peer", "peer": "half:1", "limit": "opening_s", "value": 30.0}]


async def test_garbage_behind_the_first_byte_ends_the_connection(
    make_server: MakeServer, pair: Pair, caplog: Logs
) -> None:
    server = make_server(Dispatcher({}), tls=server_tls(pair))
    peer = raw_peer(server, "bad:1", BytesPeer)
    peer.write(b"\x16" + bytes(500))
    await peer.lost()
    assert "TLS handshake" in str(violations(caplog)[0]["fault"])


def test_old_versions_of_tls_are_not_spoken(pair: Pair) -> None:
    for context in (server_tls(pair).new_context(), ClientTls().new_context()):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_RENEGOTIATION


# --- over real sockets, against Python's own TLS ---------------------------------------------------------------------


async def test_another_implementation_of_tls_speaks_with_our_server(ca: Authority, pair: Pair) -> None:
    server = Server(Dispatcher({ECHO: echo}), clock=SystemClock(), tls=server_tls(pair))
    host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
    context = ssl.create_default_context(cafile=ca.file)
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_connection(RawPeer, host, int(port), ssl=context)
    peer.write(frames(*(command(opaque=n, body=bytes(200_000)) for n in range(20))))
    answers = await peer.answers(20)
    assert {(each.opaque, len(each.body)) for each in answers} == {(n, 200_000) for n in range(20)}
    await server.stop(grace_s=10)
    await peer.lost()


async def test_our_client_speaks_with_another_implementation_of_tls(ca: Authority, pair: Pair) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        frame = bytearray(await reader.readexactly(size))
        flag = frame.index(b'"flag":0')
        frame[flag : flag + 8] = b'"flag":1'
        writer.write(size.to_bytes(4) + frame)
        await writer.drain()
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    async with RemotingClient(clock=SystemClock(), rng=random.Random(7), tls=ClientTls(ca=ca.file)) as client:
        response = await client.call(f"127.0.0.1:{port}", command(body=bytes(300_000)), timeout_s=30)
        assert len(response.body) == 300_000
    listener.close()
