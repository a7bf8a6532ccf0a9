"""Users of brokers that share none, Apache's: asked for one by one, kept for a while, as Java's proxy does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.directory import Directory
from pyromq.access.users import User
from pyromq.ambient import SystemClock
from pyromq.errors import ConnectionLost, RequestRefused
from pyromq.gateway.config import GatewayConfig
from pyromq.gateway.fetched_users import LEARN_S, MOST_NEWCOMERS, MOST_STRANGERS, FetchedUsers
from pyromq.model.codes import ResponseCode
from pyromq.protocol.access import Action, Resource
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pyromq.protocol.command import Command
from pyromq.protocol.grpc import v2
from pyromq.protocol.headers.header import Header
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from pyromq.testing.clock import ManualClock
from pyromq.transport.client import RemotingClient
from tests.access.matrix import SUPER, is_refused, signed
from tests.access.test_users import allow
from tests.client.world import turns_until
from tests.gateway.running import gateway_before
from tests.gateway.secured import GATE, PASSWORD, SHOP, secured
from tests.gateway.test_users import broker_of, caller


class Broker:
    """Apache's, as far as it tells of users."""

    def __init__(self) -> None:
        self.users: dict[str, UserInfo] = {}
        self.policies: dict[str, AclInfo] = {}
        self.asked: list[str] = []
        self.is_away = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def ask(self, row: AnyRow, header: Header) -> Command:
        await self.answers.wait()
        await asyncio.sleep(0)
        if self.is_away:
            raise ConnectionLost("away")
        (name,) = header.to_fields().values()
        self.asked.append(name)
        found: Any = (self.users if row is Code.AUTH_GET_USER else self.policies).get(name)
        return Command(code=0, body=b"" if found is None else row.gives.write_body(found))

    def put(self, name: str, *actions: str, **facts: str) -> None:
        given = {"password": "his", "user_type": "Normal", "user_status": "enable"} | facts
        self.users[name] = UserInfo(username=name, **given)  # type: ignore[arg-type]
        entry = PolicyEntryInfo(resource="Topic:T", actions=[*actions], decision="Allow")
        self.policies[f"User:{name}"] = AclInfo(policies=[PolicyInfo(entries=[entry])])


class Users(FetchedUsers):
    """With the directory that they are put into."""

    def __init__(self, broker: Broker, clock: ManualClock, shared: set[str], **settings: Any) -> None:
        self.directory = Directory()
        super().__init__(self.directory, lambda name: name in shared, broker.ask, GatewayConfig(**settings), clock)


def users_of(broker: Broker, clock: ManualClock, *shared: str, **settings: Any) -> Users:
    return Users(broker, clock, set(shared), **settings)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_user_is_read_once_and_again_in_the_background() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    users = users_of(broker, clock)
    assert not users.is_known("shop")
    await asyncio.gather(users.learn("shop"), users.learn("shop"))
    assert broker.asked == ["shop", "User:shop"]
    found = users.directory.find("shop")
    assert found is not None
    assert found.secrets == ("his",)
    assert users.directory.fault("shop", Resource.TOPIC, "T", (Action.PUB,), "10.0.0.1") is None
    broker.put("shop", "Sub", user_status="disable")
    await clock.advance(19)
    assert users.is_known("shop")
    await settled()
    assert users.directory.find("shop") is found
    await clock.advance(1)
    assert users.is_known("shop")  # as he was, while he is read
    await settled()
    assert "disabled" in str(users.directory.fault("shop", Resource.TOPIC, "T", (Action.PUB,), "10.0.0.1"))


async def test_what_is_known_stays_while_no_broker_answers_and_goes_unused() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    users = users_of(broker, clock)
    await users.learn("shop")
    broker.is_away = True
    await clock.advance(100)
    assert users.is_known("shop")
    await settled()
    assert users.directory.find("shop") is not None
    with pytest.raises(RequestRefused, match="do not tell of users now"):
        await users.learn("other")
    await clock.advance(300)
    assert not users.is_known("shop")
    assert users.directory.find("shop") is None
    await users.close()


async def test_strangers_are_asked_for_once_in_a_while_and_push_out_no_user() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    users = users_of(broker, clock, user_cache_max_num=1)
    await users.learn("shop")
    for number in range(MOST_STRANGERS + 1):
        await users.learn(f"stranger {number}")
    assert users.is_known("shop")
    assert users.is_known(f"stranger {MOST_STRANGERS}")
    assert not users.is_known("stranger 0")
    await clock.advance(20)
    assert not users.is_known(f"stranger {MOST_STRANGERS}")
    broker.put("other", "Pub")
    await users.learn("other")
    assert not users.is_known("shop")  # one is kept, the last who came
    await users.close()


async def busy(learning: Awaitable[None]) -> str:
    with pytest.raises(RequestRefused) as refused:
        async with asyncio.timeout(10):
            await learning
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    return str(refused.value)


async def test_a_connection_has_one_user_at_a_time_asked_for() -> None:
    broker, clock = Broker(), ManualClock()
    users = users_of(broker, clock)
    broker.answers.clear()
    waiting = [asyncio.ensure_future(users.learn("a", one)) for one in ("h:1", "h:1", "h:2")]
    await settled()
    assert "of this connection" in await busy(users.learn("b", "h:1"))
    waiting[0].cancel()  # who gives up may not claim the next name: his lookup goes on
    await settled()
    assert "of this connection" in await busy(users.learn("b", "h:1"))
    waiting.append(asyncio.ensure_future(users.learn("b", "h:2")))
    await settled()
    broker.answers.set()
    await asyncio.gather(*waiting[1:])
    await users.learn("c", "h:1")
    assert broker.asked == ["a", "b", "c"]


async def test_no_more_than_so_many_newcomers_are_asked_for_and_users_are_read_anew_beside_them() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    users = users_of(broker, clock)
    await users.learn("shop")
    broker.answers.clear()
    waiting = [asyncio.ensure_future(users.learn(f"x{one}", f"h:{one}")) for one in range(MOST_NEWCOMERS)]
    await settled()
    tasks = len(asyncio.all_tasks())
    assert str(MOST_NEWCOMERS) in await busy(users.learn("one more", "h:0"))
    assert len(asyncio.all_tasks()) == tasks
    await clock.advance(20 - LEARN_S)
    await clock.advance(LEARN_S)
    assert users.is_known("shop")  # and is asked for once more
    for one in await asyncio.gather(*waiting, return_exceptions=True):
        assert "no broker has told of the user in 10 s" in str(one)
    assert "already" in await busy(users.learn("one more", "h:0"))  # brokers are still asked
    broker.put("shop", "Sub")
    broker.answers.set()
    await users.learn("x0", "h:0")
    shop = ("shop", Resource.TOPIC, "T", (Action.SUB,), "10.0.0.1")
    await turns_until(lambda: users.directory.fault(*shop) is None)
    await users.learn("one more", "h:0")
    await users.close()


async def test_strangers_of_one_connection_are_told_to_come_later(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        broker, names = cluster.brokers["broker-a"].broker, next(iter(cluster.name_servers.values()))
        broker.base.access.admin.exchange = names.access.admin.exchange = None  # as Apache's, which do not know 30015
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            await gateway.users.learn(SUPER)
            asked, answers = gateway.users._ask_other, asyncio.Event()

            async def ask_later(row: AnyRow, header: Header) -> Command:
                await answers.wait()
                return await asked(row, header)

            gateway.users._fetched._ask = ask_later
            route = Command(code=Code.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "T"})
            async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:
                copies = [Command(code=route.code, fields=dict(route.fields)) for _ in range(5)]
                calls = [
                    asyncio.ensure_future(client.call(gateway.tunnel.address, signed(one, f"x{number}"), 20))
                    for number, one in enumerate(copies)
                ]
                async with asyncio.timeout(10):
                    for one in calls[1:]:
                        assert (await one).code == ResponseCode.SYSTEM_BUSY
                first = asyncio.ensure_future(caller(gateway, "y0").send("T", b"x"))  # all calls from one connection
                await settled()
                for number in range(1, 3):
                    answer = await caller(gateway, f"y{number}").send("T", b"x")
                    assert answer.status.code == v2.Code.TOO_MANY_REQUESTS
                answers.set()
                assert is_refused(await calls[0])
                assert (await first).status.code == v2.Code.UNAUTHORIZED


async def test_what_other_servers_tell_of_a_user_counts() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    users = users_of(broker, clock, "shop")
    await users.learn("shop")
    assert users.directory.find("shop") is None


async def test_who_is_known_by_sharing_is_neither_replaced_nor_promoted_nor_forgotten() -> None:
    broker, clock, shared = Broker(), ManualClock(), set[str]()
    users = Users(broker, clock, shared, user_cache_refresh_seconds=20)
    for name in ("shop", "other"):
        broker.put(name, "Pub", password="an impostor's", user_type="Super")
    await users.learn("shop")
    known = {name: User(name, ("his",)) for name in ("shop", "other")}
    for name, user in known.items():
        shared.add(name)
        users.directory.become(name, user, ())
    await users.learn("other")  # was asked for already when a server told of him
    for answered in (broker.users, {}):
        broker.users = answered
        await clock.advance(21)
        assert all(users.is_known(name) for name in known)
        await settled()
        assert dict(users.directory.users) == known
        assert not users.directory.policies
    assert broker.asked.count("shop") == 3
    await users.close()


async def test_who_may_not_see_passwords_lets_nobody_in() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub", password="")
    with pytest.raises(RequestRefused, match="innerClientAuthenticationCredentials"):
        await users_of(broker, clock).learn("shop")


async def test_before_brokers_that_share_no_users(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        broker, names = cluster.brokers["broker-a"].broker, next(iter(cluster.name_servers.values()))
        broker.base.access.admin.exchange = names.access.admin.exchange = None  # as Apache's, which do not know 30015
        await cluster.create_topic("T", 1)
        await cluster.make_user(broker_of(cluster), allow("Topic:T", "Pub"))
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            client = caller(gateway)
            assert (await client.send("T", b"x")).status.code == v2.Code.OK
            assert (await client.send("Other", b"x")).status.code == v2.Code.UNAUTHORIZED
            assert (await caller(gateway, SHOP, "guessed").send("T", b"x")).status.code == v2.Code.UNAUTHORIZED
            assert (await caller(gateway, "stranger").send("T", b"x")).status.code == v2.Code.UNAUTHORIZED


async def test_users_of_brokers_that_have_left_are_nobody_s(tmp_path: Path) -> None:
    """Nobody could tell of a change to them any more."""
    async with secured(tmp_path, brokers=2) as cluster:
        left, names = cluster.brokers["broker-b"], next(iter(cluster.name_servers.values()))
        left.broker.base.access.admin.exchange = names.access.admin.exchange = None  # as Apache's
        async with gateway_before(*cluster.name_servers, **GATE) as gateway:
            left.broker.base.access.table.directory.cache(SHOP, User(SHOP, (PASSWORD,)), ())  # which it tells nobody of
            directory = gateway.users.table.directory
            await gateway.users.learn(SHOP)
            assert directory.find(SHOP) is not None
            await cluster.stop_broker("broker-b")
            async with asyncio.timeout(20):  # the gateway looks for brokers again and again
                await turns_until(lambda: directory.find(SHOP) is None)
            assert gateway.users.is_known(SHOP)


async def test_who_is_forgotten_while_he_is_read_is_not_taken() -> None:
    broker, clock = Broker(), ManualClock()
    broker.put("shop", "Pub")
    broker.put("other", "Pub")
    users = users_of(broker, clock)
    await users.learn("shop")
    await users.learn("stranger")
    reading = asyncio.ensure_future(users.learn("other"))
    for _ in range(2):  # until the broker is asked
        await asyncio.sleep(0)
    users.forget_all()
    await reading
    assert not users.directory.users
    assert not any(users.is_known(name) for name in ("shop", "other", "stranger"))
    await users.close()
