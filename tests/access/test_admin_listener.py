"""Administration on a listener of its own: nothing of it anywhere else, nothing else there, and our tools find it."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.access.rights import Principal
from pyromq.admin import settings, topics
from pyromq.admin.calls import Calls
from pyromq.ambient import SystemClock
from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.client.client import Client
from pyromq.client.config import ClientConfig
from pyromq.client.errors import Refused
from pyromq.config import Loaded, load
from pyromq.errors import ConfigError, ConnectionLost, RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ADMIN_ADDRESS, CreateTopic
from pyromq.protocol.headers.header import TopicName
from pyromq.protocol.headers.namesrv import PutKvConfig
from pyromq.protocol.headers.offsets import GetMaxOffset
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.protocol.row import AnyRow, RequestClass, ServedBy
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Reply, Request
from pyromq.transport.tls import ClientTls, TlsMode
from pyromq.transport.turns.apart import AdminListenerSettings, Apart
from tests.access.matrix import NORMAL, ON, SECRET, SUPER, is_refused, make_users, request_of, signed
from tests.broker.running import Running, running_broker, turns_until
from tests.client.cluster import NAMES, Cluster
from tests.transport.certificates import Authority

APART: dict[str, Any] = {"admin_listener": "127.0.0.1:0"}
INNER: dict[str, Any] = {"inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"s"}'}


@dataclass
class Names:
    """A name server that runs."""

    server: NameServer
    address: str

    @property
    def admin(self) -> str:
        assert self.server._apart is not None
        return self.server._apart.address


@asynccontextmanager
async def name_server(folder: Path, **more: Any) -> AsyncIterator[Names]:
    config = NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=0, tls_test_mode_enable=False, **more)
    server = NameServer(Loaded(config), clock=SystemClock(), rng=random.Random(1))
    yield Names(server, await server.listen())
    await server.stop()


@asynccontextmanager
async def tools(name_server: str, **credentials: Any) -> AsyncIterator[Calls]:
    async with Client(ClientConfig(name_servers=(name_server,), **credentials), rng=random.Random(3)) as client:
        yield Calls(client.session, timeout_s=20)


def admin_of(broker: Running) -> str:
    assert broker.broker.listeners.ports.admin is not None
    return broker.broker.listeners.ports.admin.address


def says_apart(answer: Command) -> bool:
    return answer.code == ResponseCode.NO_PERMISSION and "is administration" in (answer.remark or "")


def says_not_here(answer: Command) -> bool:
    words = "this is the adminListener"
    return answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and words in (answer.remark or "")


@pytest.mark.parametrize("daemon", ["broker", "name server"])
async def test_each_request_code_is_served_where_it_belongs(tmp_path: Path, daemon: str) -> None:
    async with RemotingClient(clock=SystemClock(), rng=random.Random(2)) as client:

        async def check(ordinary: str, admin: str, rows: list[AnyRow]) -> None:
            for row in rows:
                here, there = [await client.call(one, request_of(row), 20) for one in (ordinary, admin)]
                assert says_apart(here) == row.is_administration, row.name
                assert says_not_here(there) == (row.lane not in (RequestClass.ADMIN, RequestClass.QUERY)), row.name
                assert not says_apart(there), row.name

        if daemon == "broker":
            async with running_broker(tmp_path, **APART) as broker:
                await check(broker.address, admin_of(broker), list(ROWS.values()))
        else:
            async with name_server(tmp_path, **APART) as names:
                served = [row for row in ROWS.values() if row.by is ServedBy.NAME_SERVER]
                await check(names.address, names.admin, served)


def test_what_changes_a_cluster_is_administration_unless_others_need_it() -> None:
    exempt = {row.name for row in ROWS.values() if row.others and not row.only_reads}
    assert exempt == {"REGISTER_TOPIC_IN_NAMESRV", "NOTIFY_BROKER_ROLE_CHANGED"}  # of Java's brokers, of controllers


async def test_messages_go_on_natively_beside_it_and_nowhere_at_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **APART) as broker:
        assert (await broker.send("T")).code == 0  # makes the topic
        listeners = broker.broker.listeners
        main, admin = listeners.servers[0], listeners.servers[-1]
        assert (await broker.send("T")).code == 0
        assert (await broker.pull("T")).code == 0
        kinds = {kind.code for kind, _ in main.service.times.all()}
        assert RequestCode.PULL_MESSAGE not in kinds  # the kernel's
        there = Running(broker.broker, admin_of(broker), broker.client, [])
        assert says_not_here(await there.send("T"))
        assert says_not_here(await there.pull("T"))
        assert admin.calls is None  # nor by gRPC


async def test_our_tools_go_there_by_themselves(tmp_path: Path) -> None:
    async with name_server(tmp_path, **APART) as names:
        own = names.address
        async with running_broker(tmp_path / "store", namesrv_addr=(own,), **APART) as broker, tools(own) as calls:
            config = TopicConfig(topic_name="Orders", read_queue_nums=20, write_queue_nums=20)
            await calls.ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopic.of(config))
            found = await topics.config(calls, broker.address, "Orders")
            assert found is not None
            assert found.write_queue_nums == 20
            await settings.kv_put(calls, "N", "key", "value")
            assert await settings.kv_get(calls, "N", "key") == "value"


async def test_who_may_not_know_the_address_is_told_the_setting(tmp_path: Path) -> None:
    apart = Apart(address="10.0.0.5:10920")
    code = RequestCode.DELETE_TOPIC_IN_BROKER.code
    handler = apart.ordinary({code: lambda request: Reply()})[code]

    def refusal(source: str, who: Principal) -> RequestRefused:
        request = Request(Command(code=code), cast(Any, SimpleNamespace(address=source)), principal=who)
        with pytest.raises(RequestRefused) as raised:
            handler(request)
        return raised.value

    stranger = refusal("10.9.9.9:5000", Principal(source="10.9.9.9"))
    assert "adminListener" in str(stranger)
    assert "10.0.0.5" not in str(stranger)
    assert stranger.fields == {}
    for source, who in (("10.9.9.9:5000", Principal("boss")), ("127.0.0.1:5000", Principal())):
        told = refusal(source, who)
        assert "10.0.0.5:10920" in str(told)
        assert told.fields == {ADMIN_ADDRESS: "10.0.0.5:10920"}


async def test_users_are_judged_before_they_are_told_anything(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON, **INNER, **APART) as broker:
        make_users(broker.broker.base.access.table.directory)
        delete = {"topic": "T"}

        async def ask(address: str, row: AnyRow, who: str, secret: str = SECRET, **fields: str) -> Command:
            return await broker.client.call(address, signed(Command(code=row, fields=fields), who, secret), 20)

        for address in (broker.address, admin_of(broker)):
            assert is_refused(await ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, NORMAL, **delete))
            assert is_refused(await ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, SUPER, "guessed", **delete))
        here = await ask(broker.address, RequestCode.DELETE_TOPIC_IN_BROKER, SUPER, **delete)
        assert says_apart(here)
        assert here.fields[ADMIN_ADDRESS] == admin_of(broker)
        assert (await ask(admin_of(broker), RequestCode.DELETE_TOPIC_IN_BROKER, SUPER, **delete)).code == 0
        # Servers of the cluster read users, as Java's proxies do, and change nothing.
        user = {"username": SUPER}
        assert (await ask(broker.address, RequestCode.AUTH_GET_USER, "inner", "s", **user)).code == 0
        assert says_apart(await ask(broker.address, RequestCode.AUTH_DELETE_USER, "inner", "s", **user))
        assert says_apart(await ask(broker.address, RequestCode.AUTH_GET_USER, SUPER, **user))


async def test_a_follower_hands_changes_of_users_on_to_where_its_master_serves_them(tmp_path: Path) -> None:
    secured = ON | INNER | APART
    async with running_broker(tmp_path / "a", **secured) as master, running_broker(tmp_path / "b", **secured) as other:
        access, users = other.broker.base.access, master.broker.base.access.table.directory
        async with RemotingClient(clock=SystemClock(), rng=random.Random(2), sign=access.sign) as client:
            access.follow(client, lambda: master.address)

            async def ask(row: AnyRow, body: str = "", **fields: str) -> Command:
                command = Command(code=row, fields=fields, body=body.encode())
                return await other.client.call(admin_of(other), signed(command, SUPER), 20)

            for _ in range(2):
                assert (await ask(RequestCode.AUTH_CREATE_USER, '{"password":"p"}', username="shop")).code == 0
            found = users.find("shop")
            assert found is not None
            assert found.secrets == ("p",)
            refused = await ask(RequestCode.AUTH_CREATE_USER, '{"password":"q"}', username="shop")
            assert (refused.code == 0, says_apart(refused)) == (False, False)
            assert (await ask(RequestCode.AUTH_DELETE_USER, username="shop")).code == 0
            assert users.find("shop") is None


async def test_brokers_make_topics_on_each_other_as_a_send_would(tmp_path: Path) -> None:
    async with name_server(tmp_path, **APART) as names:
        shared: dict[str, Any] = {"namesrv_addr": (names.address,), **APART}
        first = running_broker(tmp_path / "a", broker_name="broker-a", **shared)
        second = running_broker(tmp_path / "b", broker_name="broker-b", **shared)
        async with first as a, second as b:
            for each in (a, b):
                await each.broker.naming.registration.registered(20)
            assert (await a.send("New")).code == 0
            await turns_until(lambda: b.broker.topics.find("New") is not None)
            known = TopicConfig(topic_name="New", read_queue_nums=1, write_queue_nums=1)
            wide = TopicConfig(topic_name="Wide", read_queue_nums=9, write_queue_nums=9)
            for refused in (
                CreateTopic.of(known),
                CreateTopic.of(wide),
                CreateTopic.of(_named("X"), attributes="+a=b"),
            ):
                fields: dict[str, Any] = {**refused.to_fields()}
                assert says_apart(await b.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)), fields
            b.broker.live.change("autoCreateTopicEnable=false")
            fields = {**CreateTopic.of(_named("Y")).to_fields()}
            assert says_apart(await b.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields))


def _named(topic: str) -> TopicConfig:
    return TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)


async def test_a_name_server_that_keeps_its_address_to_itself_is_named_to_the_tool(tmp_path: Path) -> None:
    async with name_server(tmp_path, **ON, **APART) as names, tools(names.address) as strangers:
        with pytest.raises(Refused, match="username cannot be null"):
            await strangers.ask_name_server(RequestCode.GET_NAMESRV_CONFIG)
        async with tools(names.address, access_key=SUPER, secret_key=SECRET) as calls:
            assert b"adminListener" in (await calls.ask_name_server(RequestCode.GET_NAMESRV_CONFIG)).body
        async with tools(names.admin, access_key=SUPER, secret_key=SECRET) as calls:  # as `mqadmin -n` with it
            assert b"adminListener" in (await calls.ask_name_server(RequestCode.GET_NAMESRV_CONFIG)).body
            await calls.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)


def test_the_setting_is_an_address_that_may_be_open(tmp_path: Path) -> None:
    folder: dict[str, Any] = {"store_path_root_dir": tmp_path}
    for wrong in ("10911", "host:port", "127.0.0.1:99999"):
        with pytest.raises(ConfigError, match="adminListener = "):
            BrokerConfig(**folder, **_at(wrong))
    with pytest.raises(ConfigError, match=r"adminListener = 10\.0\.0\.5:1: other machines might reach it"):
        BrokerConfig(**folder, **_at("10.0.0.5:1"))
    BrokerConfig(**ON, **folder, **_at("10.0.0.5:1"))


async def test_an_own_port_is_none_for_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))  # nobody else is given it
        port = taken.getsockname()[1]
        own: dict[str, dict[str, Any]] = {
            "the main port": {"listen_port": port, "fast_listen_port": 0, "ha_listen_port": 0},
            "the second port": {"fast_listen_port": port},
            "the port for slaves": {"ha_listen_port": port},
        }
        for what, more in own.items():
            with pytest.raises(ConfigError, match=rf"adminListener = 127\.0\.0\.1:{port}: this is {what}"):
                async with running_broker(tmp_path / what, **more, **_at(f"127.0.0.1:{port}")):
                    pass
        config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", listen_port=port, **_at(f"127.0.0.1:{port}"))
        server = NameServer(Loaded(config), clock=SystemClock(), rng=random.Random(1))
        with pytest.raises(ConfigError, match="this is the main port"):
            await server.listen()


def _at(address: str) -> dict[str, Any]:
    return {"admin_listener": address}


def test_it_is_read_from_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('admin_listener = "127.0.0.1:1"\n')
    shape: dict[str, Any] = {"daemon": "broker", "flags": {}, "environment": {}, "overlay": lambda _: None}

    def read(**more: Any) -> str:
        found: BrokerConfig = load(BrokerConfig, BROKER_KEYS, **(shape | more)).config
        return found.part(AdminListenerSettings).admin_listener

    assert read(file=file) == "127.0.0.1:1"
    assert read(file=file, environment={"PYROMQ_BROKER_ADMIN_LISTENER": "127.0.0.1:2"}) == "127.0.0.1:2"
    assert read(flags={"admin_listener": "127.0.0.1:3"}) == "127.0.0.1:3"


async def test_tls_and_strangers_count_there_too(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").issue("broker")
    secured: dict[str, Any] = ON | {"tls_server_mode": TlsMode.ENFORCING, "stranger_refusals": 1}
    secured |= {"tls_server_cert_path": pair.certificate, "tls_server_key_path": pair.key}
    async with running_broker(tmp_path, **secured, **APART) as broker:
        admin, tls = admin_of(broker), ClientTls(ca=tmp_path / "ca.pem")
        settings = Command(code=RequestCode.GET_BROKER_CONFIG)
        with pytest.raises(ConnectionLost):
            await broker.client.call(admin, signed(settings, SUPER), 20)  # in plain
        async with RemotingClient(clock=SystemClock(), rng=random.Random(2), tls=tls) as client:
            with pytest.raises(ConnectionLost):
                await client.call(admin, signed(settings, SUPER, "guessed"), 20)
            assert (await client.call(admin, signed(settings, SUPER), 20)).code == 0
        strangers = broker.broker.listeners.servers[-1].strangers
        assert strangers is not None
        assert strangers is broker.broker.listeners.servers[0].strangers
        assert strangers.refused["stranger_refusals"] == 1


async def test_tools_follow_to_another_address_alone_and_for_administration_alone() -> None:
    cluster = Cluster()
    broker, other = cluster.broker("a"), cluster.broker("b")

    def sending_to(address: str) -> Callable[[Request], Reply]:
        return lambda request: Reply(ResponseCode.NO_PERMISSION, "not here", fields={ADMIN_ADDRESS: address})

    delete, look = RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.GET_MAX_OFFSET
    delete_here, put_there = TopicName(topic="T"), PutKvConfig(namespace="N", key="k", value="v")
    try:
        calls = Calls((await cluster.client()).session)
        broker.script[delete] = sending_to(broker.address)  # round and round
        with pytest.raises(Refused, match="not here"):
            await calls.ask(broker.address, delete, delete_here)
        broker.script[look] = sending_to(other.address)
        with pytest.raises(Refused, match="not here"):
            await calls.ask(broker.address, look, GetMaxOffset(topic="T", queue_id=0))
        assert other.seen == []
        broker.script[delete], other.script[delete] = sending_to(other.address), sending_to(broker.address)
        with pytest.raises(Refused, match="not here"):
            await calls.ask(broker.address, delete, delete_here)
        assert [len(each.requests(delete)) for each in (broker, other)] == [2, 1]
        cluster.names_script = sending_to(NAMES)
        with pytest.raises(Refused, match="not here"):
            await calls.ask_name_server(RequestCode.PUT_KV_CONFIG, put_there)
    finally:
        await cluster.close()
