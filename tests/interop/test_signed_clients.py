"""Unmodified clients with an access key at our name server, broker and gRPC endpoint, all of which ask who they are:
what they have a right to works, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.client import connect
from pyromq.client.errors import Error
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.model.group import ConsumeFromWhere

from .conftest import needed
from .peers import cpp, go, java, node
from .peers.grpc_clients import CLIENTS as GRPC
from .peers.grpc_clients import GrpcClient
from .peers.process import ProgramFailed, answer_of
from .peers.small_client import SmallClient
from .secured import SHOP, SHOPS, Secured, secured
from .waiting import eventually

pytestmark = pytest.mark.interop

BODIES = [f"order {number}" for number in range(5)]
SMALL = {"go": go.client, "node": node.client, "cpp": cpp.client}
QUICK = ("go", "grpc python", "4.9.8")  # the others by hand, `make interop`
JAVA = (*java.OLD_CLIENTS, "4.9.8", "5.5.0")
AWAIT_NOTHING_S = "3"
UNASKED = ("rust", "java-5.0.0", "java-5.0.7")  # their calls are those of the newest


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as running:
        for topic in ("orders", "others"):
            running.new_topic(topic)
        running.administrator.make_user("stranger", SHOPS)
        running.administrator.make_user("sender", SHOPS)
        running.administrator.give(
            "sender",
            [{"policyType": "Custom", "entries": [{"resource": "*", "actions": ["Pub"], "decision": "Allow"}]}],
        )
        yield running


def quick(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


class Caller:
    """A client of one language, as one user."""

    def __init__(self, name: str, servers: Secured, home: Path) -> None:
        self._name, self._servers, self._home = name, servers, home

    def send(self, topic: str, user: str = SHOP, secret: str = SHOPS) -> list[Any]:
        client = self._client(user, secret)
        return client.send(self._server(client), topic, "TagA", BODIES, home=self._home)

    def consume(self, topic: str, group: str, user: str = SHOP, secret: str = SHOPS, limit_s: str = "60") -> list[str]:
        client = self._client(user, secret).told(CONSUME_LIMIT_S=limit_s)
        server, words = self._server(client), (topic, group, "*", len(BODIES))
        if isinstance(client, GrpcClient):  # Java's waits without end for settings that it is not given
            got = client.within(float(limit_s) + 20).simple(server, *words, home=self._home)
        else:
            got = client.consume(server, *words, home=self._home, limit_s=int(limit_s))
        return sorted({one["body"] for one in got})

    def _client(self, user: str, secret: str) -> SmallClient | GrpcClient:
        grpc = self._name.removeprefix("grpc ")
        client: SmallClient | GrpcClient = GRPC[grpc] if grpc != self._name else SMALL[grpc]
        return client.told(CLIENT_KEY=user, CLIENT_SECRET=secret)

    def _server(self, client: SmallClient | GrpcClient) -> str:
        return self._servers.endpoint if isinstance(client, GrpcClient) else self._servers.names.address


@pytest.fixture(params=quick([*SMALL, *(f"grpc {name}" for name in GRPC if name not in UNASKED)]))
def caller(request: pytest.FixtureRequest, servers: Secured, home: Callable[[str], Path]) -> Caller:
    name: str = request.param
    if name.startswith("grpc "):
        needed(GRPC[name.removeprefix("grpc ")].start)
    else:
        request.getfixturevalue(f"{name}_peer")
    return Caller(name, servers, home("signed"))


def is_refused(ask: Callable[[], list[Any]]) -> bool:
    """Tell whether a client failed, or got nothing."""
    try:
        return not ask()
    except ProgramFailed:
        return True


def test_a_signed_client_does_what_it_may_and_nothing_else(caller: Caller, servers: Secured) -> None:
    topic = servers.new_topic(f"orders-{caller._name.replace(' ', '-').replace('.', '-')}")
    group = f"shop-{topic}"
    assert len(caller.send(topic)) == len(BODIES)
    assert caller.consume(topic, group) == BODIES
    refused = {
        "another topic": is_refused(lambda: caller.send("others")),
        "a wrong secret": is_refused(lambda: caller.send(topic, secret="guessed")),
        "no rights": is_refused(lambda: caller.send(topic, user="stranger")),
        "unknown": is_refused(lambda: caller.send(topic, user="nobody")),
        "another group": is_refused(lambda: caller.consume(topic, f"G-{topic}", limit_s=AWAIT_NOTHING_S)),
        "no right to read": is_refused(
            lambda: caller.consume(topic, f"shop-2-{topic}", user="sender", limit_s=AWAIT_NOTHING_S)
        ),
    }
    assert refused == dict.fromkeys(refused, True)
    for user, name in ((SHOP, f"G-{topic}"), ("sender", f"shop-2-{topic}")):  # not just slow to begin
        why = f"User:{user} has no permission to access Group:{name} "
        eventually(partial(servers.has_refused, why), f"it was refused: {why}")
    assert len(caller.send("others", user="sender")) == len(BODIES)
    assert caller.consume(topic, f"shop-3-{topic}") == BODIES  # nothing of what was refused has come


@pytest.mark.parametrize("version", quick([*JAVA]))
def test_javas_remoting_clients(version: str, servers: Secured, home: Callable[[str], Path]) -> None:
    """Each sends, consumes and looks up a message by its id, which clients up to 4.9.3 sign otherwise."""
    needed(java.runtime)
    needed(lambda: java.classes(version, ("Signed", "Impatience")))

    def run(topic: str, group: str, count: int = 5, user: str = SHOP, secret: str = SHOPS) -> Any:
        words = (servers.names.address, topic, group, str(count), "60000", user, secret)
        program = java.start(version, "Signed", words, home=home("signed"), programs=("Signed", "Impatience"))
        with program:
            return answer_of(program, timeout_s=120)

    topic = servers.new_topic(f"orders-{version.replace('.', '-')}")
    assert sorted(run(topic, f"shop-{topic}")) == [f"signed{number}" for number in range(5)]
    refused = [run("others", f"shop-{topic}"), run(topic, f"shop-{topic}", secret="guessed")]
    refused.append(run(topic, f"shop-{topic}", user="stranger"))
    assert all("MQ" in str(why) for why in refused), refused


async def test_our_sdk(servers: Secured) -> None:
    topic, came = servers.new_topic("orders-sdk"), asyncio.Queue[bytes]()

    async def handle(msg: Received) -> None:
        came.put_nowait(msg.body)

    policy = SendPolicy(timeout_s=20, retries=0)
    async with connect(servers.names.address, access_key=SHOP, secret_key=SHOPS) as client:
        async with client.producer(policy=policy) as producer:
            await producer.send_many(topic, [body.encode() for body in BODIES])
            with pytest.raises(Error, match="no permission"):
                await producer.send("others", b"x")
        begin = ConsumeFromWhere.FIRST_OFFSET
        async with client.push_consumer(topic, handle, group="shop-sdk", begin=begin), asyncio.timeout(60):
            assert sorted([await came.get() for _ in BODIES]) == [body.encode() for body in BODIES]
    for user, secret in (("stranger", SHOPS), (SHOP, "guessed"), ("nobody", SHOPS)):
        async with (
            connect(servers.names.address, access_key=user, secret_key=secret) as client,
            client.producer(policy=policy) as producer,
        ):
            with pytest.raises(Error):
                await producer.send(topic, b"x")
