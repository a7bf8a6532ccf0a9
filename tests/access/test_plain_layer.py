"""ACL 1.0 on a running broker: accounts and white lists of files are judged, watched, migrated, and never stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from pyromq.access.plain.settings import PlainAclSettings
from pyromq.ambient import SystemClock
from pyromq.audit.opening import audit_log
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries
from pyromq.broker.config import BrokerConfig
from pyromq.cli.main import cli
from pyromq.client.received import Received
from pyromq.errors import ConfigError
from pyromq.gateway.config import GatewayConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from tests.access import test_grpc_calls as calls
from tests.access.matrix import ON, SECRET, is_refused
from tests.access.test_users import PASSWORD, ask, pull, send
from tests.broker.running import Running, running_broker, turn
from tests.broker.test_grpc_port import ports
from tests.client.world import World

SHOP = {"accessKey": "the-shop", "secretKey": "the shop's secret", "topicPerms": ["T=PUB|SUB"], "groupPerms": ["G=SUB"]}
BOSS = {"accessKey": "the-boss", "secretKey": "the boss's secret", "admin": True}
ADMIN = "the-admin"
WITH_ADMIN = ON | {"init_authentication_user": json.dumps({"username": ADMIN, "password": SECRET})}
TOPIC: dict[str, Any] = {"topic": "Made", "defaultTopic": "TBW102", "readQueueNums": "1"}
TOPIC |= {"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}


class Files:
    """The home folder of a broker, with its files of ACL 1.0."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.main = self.home / "conf" / "plain_acl.yml"
        self.main.parent.mkdir(parents=True)

    def write(self, *accounts: dict[str, Any], white: tuple[str, ...] = ()) -> None:
        self.main.write_text(json.dumps({"accounts": accounts, "globalWhiteRemoteAddresses": white}))

    @property
    def settings(self) -> dict[str, Any]:
        return {"acl_enable": True, "rocketmq_home": str(self.home)}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def as_shop(broker: Running, topic: str = "T", secret: str = str(SHOP["secretKey"])) -> Command:
    """Send signed by the account."""
    fields = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    return await ask(broker, Code.SEND_MESSAGE, "the-shop", secret, b"hello", **fields)


async def until(broker: Running, condition: Callable[[Command], bool], topic: str = "T") -> None:
    """Send again and again until the answer is so."""
    while not condition(await as_shop(broker, topic)):
        await turn()


def is_taken(answer: Command) -> bool:
    return answer.code == 0


async def test_accounts_sign_and_are_judged(tmp_path: Path, files: Files) -> None:
    files.write(SHOP, BOSS)
    async with running_broker(tmp_path / "store", **files.settings) as broker:
        assert is_taken(await as_shop(broker))
        for answer in (await as_shop(broker, "Other"), await as_shop(broker, secret="guessed"), await broker.send()):
            assert is_refused(answer)
        assert is_refused(await ask(broker, Code.UPDATE_AND_CREATE_TOPIC, "the-shop", str(SHOP["secretKey"]), **TOPIC))
        made = await ask(broker, Code.UPDATE_AND_CREATE_TOPIC, "the-boss", str(BOSS["secretKey"]), **TOPIC)
        assert made.code == 0
        users = await ask(broker, Code.AUTH_LIST_USER, "the-boss", str(BOSS["secretKey"]))
        assert bytes(users.body) == b""  # accounts are no users
    stored = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert [path for path in stored if str(SHOP["secretKey"]).encode() in path.read_bytes()] == []


async def test_a_good_change_counts_and_a_broken_file_keeps_what_was(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(SHOP)
    async with running_broker(tmp_path / "store", **files.settings) as broker:
        assert is_taken(await as_shop(broker))
        files.write(SHOP | {"topicPerms": ["T=SUB", "Other=PUB"]})
        await until(broker, is_refused)
        assert is_taken(await as_shop(broker, "Other"))
        files.main.write_text("accounts: [{accessKey: the-shop, secretKey: half-a-")
        while "is broken" not in caplog.text:
            await turn()
        assert "half-a-" not in caplog.text
        assert is_taken(await as_shop(broker, "Other"))
        files.write(SHOP | {"secretKey": "another secret"})
        await until(broker, is_refused, "Other")
        assert is_taken(await as_shop(broker, secret="another secret"))


async def test_a_held_pull_ends_with_the_account(tmp_path: Path, files: Files) -> None:
    files.write(SHOP, BOSS)
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "1", "maxMsgNums": "32"}
    fields |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "60000"}
    async with running_broker(tmp_path / "store", **files.settings) as broker:
        assert is_taken(await as_shop(broker))
        files.write(BOSS)
        held = await ask(
            broker, Code.PULL_MESSAGE, "the-shop", str(SHOP["secretKey"]), subscription="*", subVersion="0", **fields
        )
        assert held.code != 0  # before its minute was over
        assert is_refused(await as_shop(broker))


async def test_white_addresses_are_let_in(tmp_path: Path, files: Files) -> None:
    log = audit_log("broker", AuditSettings(), tmp_path / "audit", SystemClock(), run_at_once)
    files.write(SHOP, BOSS, white=("127.0.0.2-5",))
    async with log as audit, running_broker(tmp_path / "store", audit=audit, **files.settings) as broker:
        assert is_refused(await broker.send())
        assert is_refused(await as_shop(broker, "Other"))
        files.write(SHOP | {"whiteRemoteAddress": "127.0.0.{1,9}"}, BOSS)
        await until(broker, is_taken, "Other")
        assert is_taken(await as_shop(broker, "Other", "guessed"))  # who says the name is believed there
        assert is_refused(await broker.send())
        files.write(SHOP, BOSS, white=("127.0.0.*",))
        while not is_taken(await broker.send(topic="Other")):
            await turn()
        assert (await broker.call(Code.UPDATE_AND_CREATE_TOPIC, **TOPIC)).code == 0
        files.write(SHOP, BOSS)
        while not is_refused(await broker.send(topic="Other")):
            await turn()
    logins = {(one["user"], one["by"]) for one in entries(tmp_path / "audit") if one["kind"] == "login"}
    assert {("the-shop", "a signed request")} < logins
    assert ("", "his address, from where nothing need be signed") in logins


async def test_white_addresses_make_no_super_users_and_read_no_passwords(tmp_path: Path) -> None:
    names = ("authentication_address_whitelist", "authorization_address_whitelist")
    white: dict[str, Any] = dict.fromkeys(names, "127.0.0.0/8")
    async with running_broker(tmp_path, **ON, **white) as broker:
        body = json.dumps({"password": PASSWORD, "userType": "Super"}).encode()
        assert (await broker.call(Code.AUTH_CREATE_USER, body, username="mine")).remark == (
            "The super user can only be create by super user"
        )
        body = json.dumps({"password": PASSWORD}).encode()
        assert (await broker.call(Code.AUTH_CREATE_USER, body, username="shop")).code == 0
        listed = await broker.call(Code.AUTH_LIST_USER)
        assert (b"shop" in bytes(listed.body), PASSWORD.encode() in bytes(listed.body)) == (True, False)
        assert PASSWORD.encode() in bytes((await ask(broker, Code.AUTH_LIST_USER)).body)
        assert (await send(broker, "T")).code == 0  # without a policy
        assert (await pull(broker)).code != 16


async def test_addresses_that_need_not_sign_are_judged_all_the_same(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON, authentication_address_whitelist="127.0.0.1") as broker:
        assert is_refused(await broker.send())
    unjudged = ON | {"authorization_enabled": False}
    async with running_broker(tmp_path, **unjudged, authentication_address_whitelist="127.0.0.1") as broker:
        assert (await broker.send()).code == 0
    async with running_broker(tmp_path, **unjudged) as broker:
        assert is_refused(await broker.send())


@pytest.mark.parametrize("white", ["", "127.0.0.1"])
async def test_grpc_calls_from_white_addresses_need_no_signature(tmp_path: Path, files: Files, white: str) -> None:
    files.write(SHOP, white=(white,))
    async with (
        running_broker(tmp_path / "store", grpc_server_port=0, grpc_proxy_protocol=False, **files.settings) as broker,
        grpc.aio.insecure_channel(ports(broker.broker)["grpc"]) as channel,
    ):
        for name in ("QueryAssignment", "SendMessage", "ReceiveMessage"):
            answers = [await calls.ask(channel, name, each) for each in ([], calls.credentials("the-shop", "guessed"))]
            assert [answer == calls.UNAUTHORIZED for answer in answers] == [not white] * 2, name
        signed = await calls.ask(channel, "QueryAssignment", calls.credentials("the-shop", str(SHOP["secretKey"])))
        assert signed != calls.UNAUTHORIZED


async def test_migrated_accounts_are_users_once(tmp_path: Path, files: Files) -> None:
    files.write(SHOP, BOSS | {"accessKey": ADMIN})
    migrating = WITH_ADMIN | {"migrate_auth_from_v1_enabled": True, "rocketmq_home": str(files.home)}
    async with running_broker(tmp_path / "store", **migrating) as broker:
        assert is_taken(await as_shop(broker))
        assert is_refused(await as_shop(broker, "Other"))
        assert (await ask(broker, Code.AUTH_LIST_USER, ADMIN)).code == 0  # whom the settings made stays as he is
        changed = await ask(broker, Code.AUTH_UPDATE_USER, ADMIN, username="the-shop", body={"password": PASSWORD})
        assert changed.code == 0
    files.write(SHOP, BOSS)
    async with running_broker(tmp_path / "store", **migrating) as broker:
        assert is_taken(await as_shop(broker, secret=PASSWORD))
        assert (await ask(broker, Code.AUTH_LIST_USER, "the-boss", str(BOSS["secretKey"]))).code == 0
        assert (await ask(broker, Code.AUTH_DELETE_USER, ADMIN, username="the-boss")).code == 0
    async with running_broker(tmp_path / "store", **migrating) as broker:  # whom somebody has deleted stays deleted
        assert is_refused(await ask(broker, Code.AUTH_LIST_USER, "the-boss", str(BOSS["secretKey"])))
    files.main.write_text("accounts: [")
    async with running_broker(tmp_path / "store", **WITH_ADMIN) as broker:  # without the setting nobody reads the file
        assert is_taken(await as_shop(broker, secret=PASSWORD))
    with pytest.raises(ConfigError, match=r"migrateAuthFromV1Enabled = true: .* is no YAML"):
        async with running_broker(tmp_path / "store", **migrating):
            pass


async def test_a_broken_file_stops_the_start_and_a_user_counts_before_an_account(tmp_path: Path, files: Files) -> None:
    files.write(SHOP | {"accessKey": ADMIN})
    settings = WITH_ADMIN | files.settings
    async with running_broker(tmp_path / "store", **settings) as broker:
        assert (await ask(broker, Code.AUTH_LIST_USER, ADMIN)).code == 0
        assert is_refused(await ask(broker, Code.AUTH_LIST_USER, ADMIN, str(SHOP["secretKey"])))
    files.main.write_text("accounts: [{accessKey: x}]")
    with pytest.raises(ConfigError, match=r"aclEnable = true: .*plain_acl.yml: account 1 has no accessKey or"):
        async with running_broker(tmp_path / "store", **settings):
            pass


LET_IN = ("authentication_address_whitelist", "authorization_address_whitelist")


@pytest.mark.parametrize("key", LET_IN)
def test_no_address_is_let_in_where_anybody_can_claim_it(key: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = ON | {key: "10.1.2.*"}
    inner: dict[str, Any] = {
        "inner_client_authentication_credentials": json.dumps({"accessKey": ADMIN, "secretKey": SECRET})
    }
    makes: tuple[Callable[..., BrokerConfig | GatewayConfig], ...] = (BrokerConfig, partial(GatewayConfig, **inner))
    for config in makes:
        with pytest.raises(ConfigError, match=r"Whitelist = 10.1.2.\*: .* set grpcProxyProtocol = false"):
            config(**settings)
        config(**settings, grpc_proxy_protocol=False)
    BrokerConfig(**settings | {"grpc_server_port": -1})
    file = tmp_path / "broker.conf"
    name = key.replace("_a", "A").replace("_w", "W")
    file.write_text(f"authenticationEnabled = true\nauthorizationEnabled = true\n{name} = 10.1.2.*\n")
    checked = CliRunner().invoke(cli, ["config", "check", str(file)])
    assert (checked.exit_code, "grpcProxyProtocol" in checked.output) == (1, True)


@pytest.mark.parametrize("white", ["of everybody", "of an account"])
async def test_no_file_lets_in_an_address_that_anybody_can_claim(
    tmp_path: Path, files: Files, white: str, caplog: pytest.LogCaptureFixture
) -> None:
    def write() -> None:
        if white == "of everybody":
            files.write(SHOP, white=("127.0.0.*",))
        else:
            files.write(SHOP | {"whiteRemoteAddress": "127.0.0.*"})

    write()
    with pytest.raises(ConfigError, match=r"has white lists of addresses: .* set grpcProxyProtocol = false"):
        async with running_broker(tmp_path / "store", grpc_server_port=0, **files.settings):
            pass
    files.write(SHOP)
    async with running_broker(tmp_path / "store", grpc_server_port=0, **files.settings) as broker:
        write()
        while "has white lists of addresses" not in caplog.text:
            await turn()
        for answer in (await broker.send(), await as_shop(broker, secret="guessed")):
            assert is_refused(answer)
        assert is_taken(await as_shop(broker))


def test_settings_that_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    wrong: dict[str, dict[str, Any]] = {
        "aclEnable = true: .* set rocketmqHome": {"acl_enable": True},
        "migrateAuthFromV1Enabled = true: .* set rocketmqHome": {"migrate_auth_from_v1_enabled": True},
        "authenticationAddressWhitelist: '10.1' is no address": {"authentication_address_whitelist": "10.1"},
    }
    for why, settings in wrong.items():
        with pytest.raises(ConfigError, match=why):
            BrokerConfig(**settings)
    monkeypatch.setenv("ROCKETMQ_HOME", "/rocketmq")
    secured: dict[str, Any] = {"acl_enable": True, "bind_address": "0.0.0.0", "broker_ip1": "10.1.1.1"}
    assert BrokerConfig(**secured).part(PlainAclSettings).home == Path("/rocketmq")


async def test_our_client_with_an_account(tmp_path: Path, files: Files) -> None:
    files.write(SHOP | {"defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "SUB"})
    world = World(tmp_path, **files.settings)
    try:
        await world.start_name_server()
        await world.start_broker()
        keys = {"access_key": str(SHOP["accessKey"]), "secret_key": str(SHOP["secretKey"])}
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def handle(message: Received) -> None:
            received.put_nowait(message.body)

        async with world.client(**keys) as client:
            async with client.producer("P") as producer:
                await producer.send("Orders", b"signed")
            async with client.push_consumer("Orders", handle, group="G", begin="first"):
                assert await received.get() == b"signed"
    finally:
        await world.close()
