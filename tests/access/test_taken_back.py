"""Rights that are taken back under full load: nothing that begins after the answer to that passes, by either kernel.

A broker of its own process is sent signed sends, pulls, pops and acks over many connections, as many as it takes.
Meanwhile an administrator takes something away and gives it back, again and again.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from pyromq.ambient import SystemClock
from pyromq.kernel.choice import kernel_name
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.access.loads import PASSWORD, USER, Load, PopLoad, frame_of
from tests.access.matrix import SECRET, SUPER, signed
from tests.interop.peers import ours

CONNECTIONS, ROUNDS = 12, 3
KINDS = ("send", "pull", "pop")
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": SUPER, "password": SECRET}),
    "waitTimeMillsInSendQueue": "60000",  # a busy machine is no overload
    "osPageCacheBusyTimeOutMills": "60000",
}


class Change(NamedTuple):
    """What is taken away, and how it is given back: code, body and fields. `of`: the requests that lose by it."""

    taken: tuple[int, Any, dict[str, str]]
    given: tuple[int, Any, dict[str, str]]
    of: tuple[str, ...] = KINDS


def entries(*resources: str) -> dict[str, Any]:
    rows = [{"resource": one, "actions": ["Pub", "Sub"], "decision": "Allow"} for one in resources]
    return {"policies": [{"entries": rows}]}


NAMED, SUBJECT = {"username": USER}, {"subject": f"User:{USER}"}
CHANGES = {
    "policy": Change(
        (Code.AUTH_DELETE_ACL, None, SUBJECT), (Code.AUTH_CREATE_ACL, entries("Topic:T", "Group:G"), SUBJECT)
    ),
    "user disabled": Change(
        (Code.AUTH_UPDATE_USER, {"userStatus": "disable"}, NAMED),
        (Code.AUTH_UPDATE_USER, {"userStatus": "enable"}, NAMED),
    ),
    "secret replaced": Change(
        (Code.AUTH_UPDATE_USER, {"password": "another one"}, NAMED),
        (Code.AUTH_UPDATE_USER, {"password": PASSWORD}, NAMED),
    ),
    "right of a group": Change(
        (Code.AUTH_DELETE_ACL, None, SUBJECT | {"resource": "Group:G"}),
        (Code.AUTH_UPDATE_ACL, entries("Group:G"), SUBJECT),
        of=("pull", "pop"),
    ),
}


Ask = Callable[[int, Any, dict[str, str]], Awaitable[None]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ours.Broker]:
    """One with the kernel that the whole run is about: CI has one run of each."""
    started = ours.Broker(tmp_path_factory.mktemp("broker"), [], SETTINGS)
    try:
        started.program.wait_for(rf"\({kernel_name()} kernel\)")
        yield started
    finally:
        started.kill()


@pytest.mark.parametrize("name", CHANGES)
async def test_nothing_passes_that_began_after_the_answer(broker: ours.Broker, name: str) -> None:
    change = CHANGES[name]
    async with changing(broker.address) as ask:
        host, _, port = broker.address.rpartition(":")
        loop = asyncio.get_running_loop()
        loads: list[Load] = []
        try:
            for number in range(CONNECTIONS):
                _, one = await loop.create_connection(partial(load_of, KINDS[number % 3], number // 3), host, int(port))
                loads.append(one)
            await asyncio.gather(*(one.changed(is_refused=False) for one in loads))
            for _ in range(ROUNDS):
                for is_taken, how in ((True, change.taken), (False, change.given)):
                    for one in loads:
                        one.pause()
                    await ask(*how)
                    await asyncio.gather(*(one.changed(is_taken and one.kind in change.of) for one in loads))
                    assert [one.wrong for one in loads if one.wrong] == []
        finally:
            for one in loads:
                one.transport.abort()
        refused = {kind: sum(one.counts[1] for one in loads if one.kind == kind) for kind in KINDS}
        assert {kind for kind, count in refused.items() if count} == set(change.of)
        assert all(count for one in loads if isinstance(one, PopLoad) for count in one.acks)


@asynccontextmanager
async def changing(address: str) -> AsyncIterator[Ask]:
    """Ask as an administrator. While this is open there are the user, who may all, and the topic."""
    async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:

        async def ask(code: int, body: Any, fields: dict[str, str]) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            command = signed(Command(code=code, fields=dict(fields), body=data), SUPER)
            answer = await client.call(address, command, 30)
            assert answer.code == 0, answer.remark

        await ask(Code.AUTH_CREATE_USER, {"password": PASSWORD}, NAMED)
        await ask(Code.AUTH_CREATE_ACL, entries("Topic:T", "Group:G"), SUBJECT)
        await _make_topic(client, address)
        yield ask
        await ask(Code.AUTH_DELETE_USER, None, NAMED)


def load_of(kind: str, queue: int) -> Load:
    return PopLoad() if kind == "pop" else Load(kind, frame_of(kind, queue))


async def _make_topic(client: RemotingClient, address: str) -> None:
    """Make the topic, with a message in each queue."""
    fields = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    made = await client.call(address, signed(Command(code=Code.UPDATE_AND_CREATE_TOPIC, fields=fields), SUPER), 30)
    assert made.code == 0, made.remark
    for queue in range(4):
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000"}
        command = Command(code=Code.SEND_MESSAGE_V2, fields=fields | {"h": "0", "i": ""}, body=b"first")
        assert (await client.call(address, signed(command, SUPER), 30)).code == 0
