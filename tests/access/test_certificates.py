"""Users whose certificate says who they are: certificates of `pyromq tls`, at a broker that asks for them."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from pyromq.access.directory import Directory
from pyromq.access.users import User, UserStatus
from pyromq.ambient import SystemClock
from pyromq.cli.main import cli
from pyromq.errors import ConnectionLost
from pyromq.kernel.choice import kernel_name
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from pyromq.transport.tls import ClientCertificates, ClientTls, TlsMode
from tests.access.matrix import DISABLED, NORMAL, ON, SECRET, is_refused, make_users, signed
from tests.access.test_grpc_calls import ask as call
from tests.access.test_grpc_calls import credentials
from tests.access.test_pointed_at import allow
from tests.broker.running import Running, running_broker
from tests.broker.test_grpc_port import ports
from tests.transport.certificates import Authority

STRANGER = "stranger"


def tls(folder: Path, *words: str) -> None:
    done = CliRunner().invoke(cli, ["tls", *words, "--dir", str(folder)])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an authority that has signed a broker's certificate, and one for each of these users."""
    folder = tmp_path_factory.mktemp("authority") / "tls"
    tls(folder, "init", "broker", "--client", NORMAL, "--client", DISABLED, "--client", STRANGER)
    return folder


def shown(folder: Path, name: str) -> ClientTls:
    file = folder / f"{name}.pem"
    return ClientTls(ca=folder / "ca.crt", certificate=file, key=file)


@asynccontextmanager
async def broker_of(
    store: Path, authority: Path, wanted: ClientCertificates, mode: TlsMode = TlsMode.ENFORCING
) -> AsyncIterator[tuple[Running, Directory]]:
    settings: dict[str, Any] = {
        "tls_server_mode": mode,
        "tls_server_cert_path": authority / "broker.pem",
        "tls_server_key_path": authority / "broker.pem",
        "tls_server_trust_cert_path": authority / "ca.crt",
        "tls_server_need_client_auth": wanted,
    }
    async with running_broker(store, **settings, **ON) as running:
        directory = running.broker.base.access.table.directory
        make_users(directory)
        allow(directory, "Topic:T Pub")
        yield running, directory


def send(topic: str = "T") -> Command:
    fields = {"a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    return Command(code=Code.SEND_MESSAGE_V2, fields=fields | {"i": "UNIQ_KEY\x01u\x02"}, body=b"hello")


@asynccontextmanager
async def connected(settings: ClientTls | None) -> AsyncIterator[RemotingClient]:
    async with RemotingClient(clock=SystemClock(), rng=random.Random(1), tls=settings) as client:
        yield client


async def said(running: Running, settings: ClientTls | None, *commands: Command) -> list[Command]:
    """What a new connection with this certificate is answered."""
    async with connected(settings) as client:
        return [await client.call(running.address, command, 20) for command in commands]


BOTH = pytest.mark.parametrize("wanted", [ClientCertificates.REQUIRE, ClientCertificates.OPTIONAL])


@BOTH
async def test_the_common_name_is_the_user(tmp_path: Path, authority: Path, wanted: ClientCertificates) -> None:
    async with broker_of(tmp_path, authority, wanted) as (running, directory):
        answers = await said(running, shown(authority, NORMAL), send(), send(), send("Other"), send())
        assert [is_refused(one) for one in answers] == [False, False, True, False]
        assert f"User:{NORMAL} has no permission" in str(answers[2].remark)
        if kernel_name() == "native":  # which knows those by their certificate, too
            assert (
                sum(one.kernel.messages for one in running.broker.verdicts) == 2
            )  # all but the one that made the topic
        for name, words in ((STRANGER, "is not found"), (DISABLED, "is disabled")):
            (answer,) = await said(running, shown(authority, name), send())
            assert is_refused(answer)
            assert re.search(f"User:{name} {words}", str(answer.remark))
        directory.create(User(STRANGER, (SECRET,)))  # whose name it is: no more is needed
        (answer,) = await said(running, shown(authority, STRANGER), send())
        assert "has no permission" in str(answer.remark)


@BOTH
async def test_a_signature_goes_before_the_certificate(
    tmp_path: Path, authority: Path, wanted: ClientCertificates
) -> None:
    """Who signs is who he says, if it is true; a wrong signature is not made good by a certificate."""
    async with broker_of(tmp_path, authority, wanted) as (running, _):
        as_another = signed(send("Other"), "boss")
        wrong, half = signed(send(), NORMAL, "guessed"), signed(send(), NORMAL)
        del half.fields["AccessKey"]
        unsigned = send()
        unsigned.fields["AccessKey"] = NORMAL
        answers = await said(running, shown(authority, NORMAL), send(), as_another, wrong, half, unsigned, send())
        assert [is_refused(one) for one in answers] == [False, False, True, True, True, False]
        (answer,) = await said(running, shown(authority, STRANGER), signed(send(), NORMAL))
        assert not is_refused(answer)


async def test_what_changes_counts_for_connections_that_are_there(tmp_path: Path, authority: Path) -> None:
    async with (
        broker_of(tmp_path, authority, ClientCertificates.REQUIRE) as (running, directory),
        connected(shown(authority, NORMAL)) as client,
    ):

        async def passes() -> bool:
            return not is_refused(await client.call(running.address, send(), 20))

        assert await passes()
        directory.update(NORMAL, None, None, UserStatus.DISABLED)
        assert not await passes()
        directory.update(NORMAL, None, None, UserStatus.ENABLED)
        assert await passes()
        allow(directory, "Topic:Other Pub")
        assert not await passes()
        allow(directory, "Topic:T Pub")
        directory.update(NORMAL, "another secret", None, None)  # which has nothing to do with a certificate
        assert await passes()
        directory.delete(NORMAL)
        assert not await passes()


async def test_a_renewed_certificate_is_the_same_user(tmp_path: Path, authority: Path) -> None:
    async with broker_of(tmp_path, authority, ClientCertificates.REQUIRE) as (running, _):
        file = authority / f"{NORMAL}.pem"
        before = file.read_bytes()
        tls(authority, "renew", NORMAL)
        tls(authority, "renew", "broker")  # and the server's, which it takes with the next connection
        assert file.read_bytes() != before
        (answer,) = await said(running, shown(authority, NORMAL), send())
        assert not is_refused(answer)


@BOTH
async def test_without_a_certificate_of_ours_nobody_has_a_name(
    tmp_path: Path, authority: Path, wanted: ClientCertificates
) -> None:
    foreign = Authority(tmp_path, "foreign").issue(NORMAL)
    shows_foreign = ClientTls(ca=authority / "ca.crt", certificate=foreign.certificate, key=foreign.key)
    async with broker_of(tmp_path / "store", authority, wanted) as (running, _):
        with pytest.raises(ConnectionLost):
            await said(running, shows_foreign, send())
        nameless = ClientTls(ca=authority / "ca.crt")
        if wanted is ClientCertificates.REQUIRE:
            with pytest.raises(ConnectionLost):
                await said(running, nameless, send())
            return
        unsigned, by_signature = await said(running, nameless, send(), signed(send(), NORMAL))
        assert "username cannot be null" in str(unsigned.remark)
        assert not is_refused(by_signature)


async def test_a_plain_connection_and_one_whose_certificate_nobody_asked_for_have_no_name(
    tmp_path: Path, authority: Path
) -> None:
    required = broker_of(tmp_path / "a", authority, ClientCertificates.REQUIRE, TlsMode.PERMISSIVE)
    unasked = broker_of(tmp_path / "b", authority, ClientCertificates.NONE)
    for broker, settings in ((required, None), (unasked, shown(authority, NORMAL))):
        async with broker as (running, _):
            (answer,) = await said(running, settings, send())
            assert "username cannot be null" in str(answer.remark)


async def test_grpc_calls_are_signed_whatever_the_certificate_says(tmp_path: Path, authority: Path) -> None:
    own = (authority / f"{NORMAL}.pem").read_bytes()
    channel_credentials = grpc.ssl_channel_credentials((authority / "ca.crt").read_bytes(), own, own)
    async with broker_of(tmp_path, authority, ClientCertificates.REQUIRE) as (running, directory):
        allow(directory, "Topic:T Pub", "Topic:T Get", "Topic:T Sub")
        async with grpc.aio.secure_channel(ports(running.broker)["main"], channel_credentials) as channel:
            assert await call(channel, "QueryRoute", []) == v2.Code.UNAUTHORIZED
            assert await call(channel, "QueryRoute", credentials(NORMAL)) != v2.Code.UNAUTHORIZED
