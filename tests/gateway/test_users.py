"""Users and permissions at a gateway before a secured cluster, by gRPC and by remoting, over real sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.access.directory import Directory
from pyromq.access.sharing.entries import entry_of
from pyromq.access.sharing.stamps import ChangeStamp
from pyromq.access.signatures import Signer
from pyromq.access.users import UserStatus
from pyromq.ambient import SystemClock
from pyromq.audit.opening import audit_log
from pyromq.audit.settings import AuditSettings
from pyromq.audit.verify import entries
from pyromq.errors import ConfigError
from pyromq.gateway.config import GatewayConfig
from pyromq.gateway.server import Gateway
from pyromq.model.codes import ResponseCode
from pyromq.protocol.access import Action, NameIn, Resource
from pyromq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from pyromq.protocol.bodies.own import UserChanges
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.grpc import v2
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.message_store import run_at_once
from pyromq.transport.client import RemotingClient
from tests.access.matrix import DISABLED, NORMAL, SECRET, SUPER, is_refused, make_users, request_of, signed
from tests.access.matrix import allow as allow_needs
from tests.access.test_grpc_calls import check_every_call, credentials
from tests.access.test_users import allow
from tests.client.world import turns_until
from tests.gateway.running import Caller, consumer, gateway_before, producer
from tests.gateway.secured import GATE, INNER, PASSWORD, SHOP, Secured, secured

UNAUTHORIZED = v2.Code.UNAUTHORIZED
WRITES = allow("Topic:T", "Pub", "Sub")
ALL = (WRITES, allow("Group:g", "Sub"))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as made:
        await made.create_topic("T", 1)
        yield made


def broker_of(cluster: Secured) -> str:
    return cluster.brokers["broker-a"].address


def caller(gateway: Gateway, name: str = SHOP, secret: str = PASSWORD, client_id: str = "client-1") -> Caller:
    made = Caller(gateway, client_id)
    made.metadata |= dict(credentials(name, secret))
    return made


async def asked(address: str, command: Command) -> Command:
    async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
        return await client.call(address, command, 20)


# --- the matrix -------------------------------------------------------------------------------------------------------


async def test_only_who_may_calls(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SUPER)
        directory = gateway.users.table.directory
        make_users(directory)
        await check_every_call(f"127.0.0.1:{gateway.backend.port}", directory)


async def test_only_who_may_sends_requests(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SUPER)
        directory, address = gateway.users.table.directory, gateway.tunnel.address
        make_users(directory)
        async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:

            async def refuses(command: Command) -> bool:
                return is_refused(await client.call(address, command, 20))

            for code in [*gateway.tunnel.handlers(), Code.AUTH_CREATE_USER.code, 99_999]:
                plain = request_of(ROWS[code]) if code in ROWS else Command(code=code)
                for sent in (
                    plain,
                    signed(copy_of(plain), SUPER, "guessed"),
                    signed(copy_of(plain), "stranger", SECRET),
                    signed(copy_of(plain), DISABLED),
                ):
                    assert await refuses(sent), (code, sent.fields)
                needs = (
                    [] if code not in ROWS else [one for one in ROWS[code].needs if one.name_in is not NameIn.MESSAGE]
                )
                for missing in needs:
                    allow_needs(directory, tuple(one for one in needs if one is not missing))
                    assert await refuses(signed(copy_of(plain), NORMAL)), (code, missing)
                allow_needs(directory, tuple(needs))
                assert not await refuses(signed(copy_of(plain), SUPER)), code
                if code in gateway.tunnel.handlers():
                    assert not await refuses(signed(copy_of(plain), NORMAL)), code


def copy_of(command: Command) -> Command:
    return Command(code=command.code, fields=dict(command.fields), body=command.body)


# --- a cluster of two brokers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["grpc", "remoting"])
async def test_a_user_sends_and_consumes_through_the_gateway_and_others_do_not(tmp_path: Path, way: str) -> None:
    async with secured(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("T", 1)
        await cluster.create_topic("Other", 1)
        await cluster.make_user(broker_of(cluster), *ALL)
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            where: dict[str, Any] = {"endpoints": f"127.0.0.1:{gateway.backend.port}"}
            if way == "remoting":
                where = {"namesrv": gateway.tunnel.address}
            async with pyromq.connect(**where, access_key=SHOP, secret_key=PASSWORD) as client:
                async with client.producer() as producer:
                    for number in range(4):
                        await producer.send("T", b"%d" % number)
                    with pytest.raises(pyromq.Error):
                        await producer.send("Other", b"x")
                seen: set[bytes] = set()
                everything = asyncio.Event()

                async def handle(message: Any) -> None:
                    seen.add(message.body)
                    if len(seen) == 4:
                        everything.set()

                async with client.push_consumer("T", handle, group="g", begin="first"):
                    async with asyncio.timeout(30):
                        await everything.wait()
            assert seen == {b"0", b"1", b"2", b"3"}
            async with pyromq.connect(**where, access_key=SHOP, secret_key="guessed") as client:
                with pytest.raises(pyromq.Error):
                    async with client.producer() as producer:
                        await producer.send("T", b"x")


# --- changes ----------------------------------------------------------------------------------------------------------


async def test_a_change_counts_at_the_gateway_when_it_is_answered(cluster: Secured) -> None:
    name_server = next(iter(cluster.name_servers))
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        client = caller(gateway)
        assert (await client.send("T", b"nobody's")).status.code == UNAUTHORIZED
        for server in (broker_of(cluster), name_server):  # each tells of what was changed there
            await cluster.make_user(server, WRITES)
            assert (await client.send("T", b"his")).status.code == v2.Code.OK
            await cluster.permit(server, allow("Topic:T", "Sub"))
            assert (await client.send("T", b"no more")).status.code == UNAUTHORIZED
            await cluster.administer(server, Code.AUTH_DELETE_USER, username=SHOP)
            answer = await client.send("T", b"gone")
            assert (answer.status.code, answer.status.message) == (UNAUTHORIZED, f"User:{SHOP} is not found.")


async def test_a_change_comes_over_any_server(tmp_path: Path) -> None:
    async with secured(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("T", 1)
        broker = cluster.brokers["broker-a"].broker
        assert broker.naming.users_shared is not None
        await broker.naming.users_shared.round()  # it knows the other one now
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            await gateway.users.learn(SUPER)
            listeners = broker.base.access.admin.listeners
            assert listeners is not None
            listeners.peers.clear()  # as after a restart of the broker, until the gateway comes again
            await cluster.make_user(broker_of(cluster), WRITES)
            assert (await caller(gateway).send("T", b"his")).status.code == v2.Code.OK


async def test_a_receive_that_waits_ends_when_its_user_changes(cluster: Secured) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        client = caller(gateway)
        assert (await client.say(consumer("g", "T"))).status.code == v2.Code.OK
        _, waiting = client.begin("T", "g")
        question = v2.QueryAssignmentRequest(topic=v2.Resource(name="T"), group=v2.Resource(name="g"))
        for _ in range(20):  # over the broker's loop and ours: the pop is held by then
            await client.ask("QueryAssignment", question)
            await asyncio.sleep(0)
        await cluster.administer(broker_of(cluster), Code.AUTH_DELETE_ACL, subject=f"User:{SHOP}")
        await waiting
        call, refused = client.begin("T", "g")
        await refused
        first = v2.ReceiveMessageResponse.FromString(call.answered.get_nowait())
        assert first.status.code == UNAUTHORIZED
        await client.close()


async def test_a_pull_that_waits_brings_nothing_once_its_user_is_gone(cluster: Secured) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
    fields |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "20000", "subscription": "*"}
    pull = Command(code=Code.PULL_MESSAGE, fields=fields | {"subVersion": "0", "bname": "broker-a"})
    pulls = cluster.brokers["broker-a"].broker.pulls.suspended
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)
        waiting = asyncio.ensure_future(asked(gateway.tunnel.address, signed(pull, SHOP, PASSWORD)))
        async with asyncio.timeout(20):
            await turns_until(lambda: any(one.topic == "T" for one in pulls.all()))
        gateway.users.table.directory.delete(SHOP)  # the broker does not know yet, as Apache's would not
        async with cluster.client() as client, client.producer() as producer:
            await producer.send("T", b"not for him")
        answer = await waiting
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, f"User:{SHOP} is not found.")


async def test_a_gateway_that_comes_back_knows_all_users_again(cluster: Secured) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    for number in range(2):
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            client = caller(gateway)  # its first call waits for what servers tell
            assert (await client.send("T", b"%d" % number)).status.code == v2.Code.OK


async def test_the_settings_user_of_a_gateway_is_let_in(cluster: Secured) -> None:
    first: dict[str, Any] = {"init_authentication_user": '{"username":"root","password":"of the gateway"}'}
    async with gateway_before(*cluster.name_servers, **GATE, **first) as gateway:
        assert (await caller(gateway, "root", "of the gateway").send("T", b"x")).status.code == v2.Code.OK


async def test_without_servers_that_tell_of_users_calls_are_to_be_tried_again() -> None:
    async with gateway_before("127.0.0.1:1", **GATE) as gateway:
        answer = await caller(gateway).send("T", b"x")
        assert answer.status.code == v2.Code.INTERNAL_SERVER_ERROR
        assert "no server has told of users yet" in answer.status.message


# --- whose messages they are ------------------------------------------------------------------------------------------


async def test_nobody_reaches_another_s_message_by_its_place_in_the_log(cluster: Secured) -> None:
    """The gateway cannot see whose message it is: the broker judges for whom it asks."""
    await cluster.create_topic("Hidden", 1)
    await cluster.make_user(broker_of(cluster), *ALL)
    async with cluster.client() as client, client.producer() as producer:
        hidden, own = await producer.send("Hidden", b"secret"), await producer.send("T", b"own")
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)

        async def send_back(offset: int, **more: str) -> Command:
            fields = {"offset": str(offset), "group": "g", "delayLevel": "0", "originTopic": "T", "bname": "broker-a"}
            command = Command(code=Code.CONSUMER_SEND_MSG_BACK, fields=fields | more)
            return await asked(gateway.tunnel.address, signed(command, SHOP, PASSWORD))

        for more in ({}, {"pyromqUser": SUPER, "pyromqSource": "127.0.0.1"}):
            answer = await send_back(offset_of(hidden), **more)
            assert is_refused(answer), answer
            assert "Topic:Hidden" in str(answer.remark)
        assert (await send_back(offset_of(own))).code == ResponseCode.SUCCESS


async def test_only_who_may_send_a_half_message_ends_it(cluster: Secured) -> None:
    await cluster.create_topic("X", 1)
    await cluster.make_user(broker_of(cluster), *ALL)
    store = cluster.brokers["broker-a"].broker.store
    place = store.commit_log.end
    fields = {"producerGroup": "P", "topic": "X", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "4", "bornTimestamp": "1700000000000", "flag": "0"}
    half = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01unique\x02"
    sent = await cluster.ask(broker_of(cluster), Code.SEND_MESSAGE, b"half", properties=half, **fields)
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    record = store.reader.record_at(place)
    assert record is not None
    fields = {"tranStateTableOffset": str(record.queue_offset), "commitLogOffset": str(record.physical_offset)}
    fields |= {"producerGroup": "P", "commitOrRollback": "8", "msgId": "unique", "topic": "T", "bname": "broker-a"}
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SHOP)

        async def end() -> Command:
            command = Command(code=Code.END_TRANSACTION, fields=dict(fields))
            return await asked(gateway.tunnel.address, signed(command, SHOP, PASSWORD))

        answer = await end()
        assert is_refused(answer), answer
        assert "Topic:X" in str(answer.remark)
        await cluster.permit(broker_of(cluster), allow("Topic:X", "Pub"))
        assert (await end()).code == ResponseCode.SUCCESS


async def test_half_messages_go_to_streams_whose_user_may_send_them(cluster: Secured) -> None:
    """Anybody may say that he is this client, and the newest stream of a client is the one that commands go to."""
    await cluster.create_topic("X", 1, attributes="+message.type=TRANSACTION")
    await cluster.make_user(broker_of(cluster), allow("Topic:X", "Pub"))
    await cluster.make_user(broker_of(cluster), allow("Topic:T", "Pub"), name="thief")
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        owner = caller(gateway)
        assert (await owner.say(producer("X"))).status.code == v2.Code.OK
        client = gateway.services.clients.known("client-1")
        assert client.may_see("X", Action.PUB)
        thief = caller(gateway, "thief")  # with the owner's client id
        assert (await thief.say(producer("T"))).status.code == v2.Code.OK
        assert "X" in client.topics
        assert gateway.services.clients.with_stream("X") is None
        assert (await owner.say(producer("X"))).status.code == v2.Code.OK
        assert gateway.services.clients.with_stream("X") is client
        await cluster.permit(broker_of(cluster), allow("Topic:X", "Sub"))
        assert gateway.services.clients.with_stream("X") is None
        await owner.close()
        await thief.close()


@pytest.mark.parametrize("encoding", Encoding)
async def test_who_need_not_say_who_he_is_has_nobody_s_rights(cluster: Secured, encoding: Encoding) -> None:
    """In both encodings: binary headers have no empty values, and a nameless caller is no server for all that."""
    open_to_all = "34,36,37"
    white: dict[str, Any] = {"authentication_whitelist": open_to_all, "authorization_whitelist": open_to_all}
    await cluster.create_topic("Hidden", 1)
    async with cluster.client() as client, client.producer() as producer:
        hidden = await producer.send("Hidden", b"secret")
    store = cluster.brokers["broker-a"].broker.store
    place = store.commit_log.end
    fields = {"producerGroup": "P", "topic": "Hidden", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "4", "bornTimestamp": "1700000000000", "flag": "0"}
    half = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01unique\x02"
    sent = await cluster.ask(broker_of(cluster), Code.SEND_MESSAGE, b"half", properties=half, **fields)
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    record = store.reader.record_at(place)
    assert record is not None
    async with gateway_before(*cluster.name_servers, **GATE, **white) as gateway:
        await gateway.users.learn(SUPER)
        fields = {"offset": str(offset_of(hidden)), "group": "g", "delayLevel": "0", "originTopic": "T"}
        back = Command(code=Code.CONSUMER_SEND_MSG_BACK, fields=fields | {"bname": "broker-a"}, encoding=encoding)
        fields = {"tranStateTableOffset": str(record.queue_offset), "commitLogOffset": str(record.physical_offset)}
        fields |= {"producerGroup": "P", "commitOrRollback": "8", "msgId": "unique", "bname": "broker-a"}
        end = Command(code=Code.END_TRANSACTION, fields=fields, encoding=encoding)
        for command in (back, end):
            answer = await asked(gateway.tunnel.address, command)
            assert is_refused(answer), answer
            assert "Topic:Hidden" in str(answer.remark)
        beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="p")], consumer_data_set=[])
        said = Command(code=Code.HEART_BEAT, body=Code.HEART_BEAT.takes.write_body(beat), encoding=encoding)
        producers = cluster.brokers["broker-a"].broker.clients.producers
        async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client_of_nobody:
            answer = await client_of_nobody.call(gateway.tunnel.address, said, 20)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            (known,) = producers.in_turn("p")
            assert not known.rights.may(Resource.TOPIC, "Hidden", Action.PUB)


async def test_a_producer_is_asked_about_half_messages_by_his_own_rights(cluster: Secured) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="p")], consumer_data_set=[])
        command = Command(code=Code.HEART_BEAT, body=Code.HEART_BEAT.takes.write_body(beat))
        producers = cluster.brokers["broker-a"].broker.clients.producers
        async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
            answer = await client.call(gateway.tunnel.address, signed(command, SHOP, PASSWORD), 20)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            (known,) = producers.in_turn("p")
        asked_about = [topic for topic in ("T", "Hidden") if known.rights.may(Resource.TOPIC, topic, Action.PUB)]
        assert asked_about == ["T"]


@pytest.mark.parametrize("judged", [True, False])
async def test_a_reply_goes_to_its_user_s_client_alone(tmp_path: Path, judged: bool) -> None:
    """Also where everybody may do everything: all clients of a gateway come to the broker as the gateway's user."""
    everything = {"authorization_enabled": judged}
    async with secured(tmp_path, **everything) as cluster:
        await cluster.create_topic("T", 1)
        await cluster.make_user(broker_of(cluster), *ALL)
        await cluster.make_user(broker_of(cluster), *ALL, name="thief")
        async with gateway_before(*cluster.name_servers, **(GATE | everything)) as gateway:
            beat = HeartbeatData(client_id="A", producer_data_set=[ProducerData(group_name="p")], consumer_data_set=[])
            body = Code.HEART_BEAT.takes.write_body(beat)
            producers = cluster.brokers["broker-a"].broker.clients.producers
            rng = random.Random(3)
            async with (
                RemotingClient(clock=SystemClock(), rng=rng) as owner,
                RemotingClient(clock=SystemClock(), rng=rng) as thief,
                RemotingClient(clock=SystemClock(), rng=rng) as boss,
            ):

                async def say(client: RemotingClient, name: str, secret: str, **more: str) -> None:
                    command = Command(code=Code.HEART_BEAT, fields=more, body=body)
                    answer = await client.call(gateway.tunnel.address, signed(command, name, secret), 20)
                    assert answer.code == ResponseCode.SUCCESS, answer.remark

                await say(owner, SHOP, PASSWORD)
                owned = producers.find_client("A")
                assert owned is not None
                await say(thief, "thief", PASSWORD)
                await say(thief, "thief", PASSWORD, pyromqSender=SHOP)
                await say(boss, SUPER, SECRET)
                assert len(producers.members("p")) == 3
                assert producers.find_client("A") is owned


async def test_a_super_user_who_is_disabled_is_asked_about_nothing_any_more(cluster: Secured) -> None:
    broker = broker_of(cluster)
    await cluster.make_user(broker)
    await cluster.administer(broker, Code.AUTH_UPDATE_USER, {"userType": "Super"}, username=SHOP)
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="p")], consumer_data_set=[])
        command = Command(code=Code.HEART_BEAT, body=Code.HEART_BEAT.takes.write_body(beat))
        producers = cluster.brokers["broker-a"].broker.clients.producers
        async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
            answer = await client.call(gateway.tunnel.address, signed(command, SHOP, PASSWORD), 20)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            (known,) = producers.in_turn("p")
            assert known.rights.may(Resource.TOPIC, "T", Action.PUB)
            await cluster.administer(broker, Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, username=SHOP)
            assert not known.rights.may(Resource.TOPIC, "T", Action.PUB)


def offset_of(sent: Any) -> int:
    return int(sent.offset_message_id[16:], 16)


async def test_who_is_no_server_names_nobody_else(cluster: Secured) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    async with cluster.client() as client, client.producer() as producer:
        sent = await producer.send("T", b"own")
    fields = {"offset": str(offset_of(sent)), "group": "h", "delayLevel": "0", "pyromqUser": SUPER}
    command = Command(code=Code.CONSUMER_SEND_MSG_BACK, fields=fields)
    assert is_refused(await asked(broker_of(cluster), signed(command, SHOP, PASSWORD)))


async def test_only_servers_tell_a_gateway_of_users(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SUPER)
        listeners = cluster.brokers["broker-a"].broker.base.access.admin.listeners
        assert listeners is not None
        (peer,) = listeners.peers
        row = Code.SHARE_USERS
        seal = gateway.users._exchange.seal
        deleted = entry_of(Directory(), SUPER, ChangeStamp(1 << 50, "x"), seal)
        for secret in ("", "guessed", "of servers"):
            command = Command(code=row.code, body=row.takes.write_body(UserChanges(digest="", entries=[deleted])))
            if secret:
                Signer("inner", secret).sign(command)
            answer = await peer.call(command, 20)
            is_told = secret == "of servers"
            assert answer.code == (ResponseCode.SUCCESS if is_told else ResponseCode.NO_PERMISSION)
            assert (gateway.users.table.directory.find(SUPER) is None) is is_told


async def test_servers_tell_of_users_while_their_credentials_are_replaced(cluster: Secured) -> None:
    async with gateway_before(*cluster.name_servers, **GATE) as gateway:
        await gateway.users.learn(SUPER)
        directory = gateway.users.table.directory
        directory.update("inner", "of servers, the next", None, None, keep_old=True)
        listeners = cluster.brokers["broker-a"].broker.base.access.admin.listeners
        assert listeners is not None
        (peer,) = listeners.peers

        async def told(secret: str) -> int:
            row = Code.SHARE_USERS
            command = Command(code=row.code, body=row.takes.write_body(UserChanges(digest="", entries=[])))
            Signer("inner", secret).sign(command)
            return (await peer.call(command, 20)).code

        assert await told("of servers") == await told("of servers, the next") == ResponseCode.SUCCESS
        assert await told("guessed") == ResponseCode.NO_PERMISSION
        directory.update("inner", None, None, UserStatus.DISABLED)
        assert await told("of servers, the next") == ResponseCode.NO_PERMISSION


# --- what is noted, and how it may be set -----------------------------------------------------------------------------


async def test_refusals_and_logins_are_noted(cluster: Secured, tmp_path: Path) -> None:
    await cluster.make_user(broker_of(cluster), *ALL)
    folder = tmp_path / "audit"
    log = audit_log("proxy", AuditSettings(), folder, SystemClock(), run_at_once)
    async with log as audit, gateway_before(*cluster.name_servers, audit=audit, **GATE) as gateway:
        assert (await caller(gateway, secret="guessed").send("T", b"x")).status.code == UNAUTHORIZED
        limits = Command(code=Code.GET_MAX_OFFSET, fields={"topic": "T", "queueId": "0", "bname": "broker-a"})
        answer = await asked(gateway.tunnel.address, signed(limits, SHOP, PASSWORD))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    told = [one for one in entries(folder) if one["kind"] in ("refusal", "login")]
    assert [(one["kind"], one.get("call"), one["user"]) for one in told] == [
        ("refusal", "apache.rocketmq.v2.SendMessageRequest", ""),
        ("login", None, SHOP),
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"authentication_enabled": True}, "innerClientAuthenticationCredentials"),
        ({"enable_acl_rpc_hook_for_cluster_mode": True}, "conf/tools.yml"),
        (INNER, "whoever reaches it"),
        ({"authorization_enabled": True}, "authenticationEnabled"),
        ({"bind_address": "0.0.0.0"}, "authenticationEnabled=true"),
    ],
)
def test_settings_that_promise_what_is_not_kept(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        GatewayConfig(**settings)


def test_a_gateway_that_asks_who_one_is_may_listen_anywhere() -> None:
    GatewayConfig(bind_address="0.0.0.0", **GATE)
