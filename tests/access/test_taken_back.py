"""Rights that are taken back under full load: nothing that begins after the answer to that passes, by either kernel.

A broker of its own process is sent signed sends and pulls over many connections, as many as it takes. Meanwhile an
administrator takes something away and gives it back, again and again. Each request has a number: those with a higher
one than its connection had reached when the administrator got his answer began after it.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest

from pyromq.access.signatures import Signer
from pyromq.ambient import SystemClock
from pyromq.kernel.choice import kernel_name
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.access.matrix import SECRET, SUPER, signed
from tests.interop.peers import ours

USER, PASSWORD = "shop", "the secret of the shop"
CONNECTIONS, WINDOW = 12, 32  # and requests of one of them that are on their way
SEEN = 100  # answers of each connection to requests that began after a change
ROUNDS = 3
REFUSED = 16
OPAQUE_AT = 8 + 5  # in a frame whose header is binary
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": SUPER, "password": SECRET}),
    "timerWheelEnable": "false",
    "waitTimeMillsInSendQueue": "60000",  # a busy machine is no overload
    "osPageCacheBusyTimeOutMills": "60000",
}


class Change(NamedTuple):
    """What is taken away, and how it is given back: code, body and fields. `of`: the requests that lose by it."""

    taken: tuple[int, Any, dict[str, str]]
    given: tuple[int, Any, dict[str, str]]
    of: tuple[str, ...] = ("send", "pull")


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
        of=("pull",),
    ),
}


def frame_of(kind: str, queue: int) -> bytes:
    """A signed request with a binary header, in which its number has a place of its own: it is not signed."""
    if kind == "send":
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000"}
        fields |= {"h": "0", "i": "UNIQ_KEY\x01u\x02", "j": "0", "k": "false"}  # a kernel takes those with an id
        command = Command(code=Code.SEND_MESSAGE_V2, fields=fields, body=b"hello", encoding=Encoding.ROCKETMQ)
    else:
        fields = {"consumerGroup": "G", "topic": "T", "queueId": str(queue), "queueOffset": "0", "maxMsgNums": "1"}
        fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
        command = Command(code=Code.PULL_MESSAGE, fields=fields | {"subVersion": "0"}, encoding=Encoding.ROCKETMQ)
    Signer(USER, PASSWORD).sign(command)
    return encode_frame(command)


class Load(asyncio.Protocol):
    """One connection that has as many requests on their way as its window, all the time."""

    def __init__(self, kind: str, frame: bytes) -> None:
        self.kind, self._frame, self._rest = kind, bytearray(frame), b""
        self.number = 0  # of the last request that was written
        self.boundary = 0  # the last one that began before the change was answered
        self.is_refused = False  # what those behind the boundary have to be
        self.seen = 0  # answers to those
        self.wrong: list[tuple[int, int]] = []
        self.counts = [0, 0]  # answers in all: served, refused
        self._done: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._write(WINDOW)

    def _write(self, count: int) -> None:
        out = bytearray()
        for _ in range(count):
            self.number += 1
            struct.pack_into(">i", self._frame, OPAQUE_AT, self.number)
            out += self._frame
        self.transport.write(out)

    def data_received(self, data: bytes) -> None:
        buffer, at, answers = self._rest + data, 0, 0
        while len(buffer) - at >= 4 and len(buffer) - at >= 4 + (size := int.from_bytes(buffer[at : at + 4], "big")):
            code, _, _, number = struct.unpack_from(">hBHi", buffer, at + 8)
            assert buffer[at + 4] == Encoding.ROCKETMQ.value
            self._answered(number, code)
            answers += 1
            at += 4 + size
        self._rest = buffer[at:]
        self._write(answers)

    def _answered(self, number: int, code: int) -> None:
        self.counts[code == REFUSED] += 1
        if code not in (0, REFUSED):
            self.wrong.append((number, code))
        if number > self.boundary:
            self.seen += 1
            if (code == REFUSED) != self.is_refused:
                self.wrong.append((number, code))
            if self.seen == SEEN and self._done is not None:
                self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or EOFError("the broker hung up")
        if self._done is not None and not self._done.done():
            self._done.set_exception(self._lost)

    def pause(self) -> None:
        """Judge nothing for now: something is being changed."""
        self.boundary = 1 << 31

    def changed(self, is_refused: bool) -> asyncio.Future[None]:
        """Begin to count: what is written from now on began after the change. Done once enough of it is answered."""
        self.boundary, self.is_refused, self.seen = self.number, is_refused, 0
        self._done = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            self._done.set_exception(self._lost)
        return self._done


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
    async with RemotingClient(clock=SystemClock(), rng=random.Random(3)) as client:

        async def ask(code: int, body: Any, fields: dict[str, str]) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            command = signed(Command(code=code, fields=dict(fields), body=data), SUPER)
            answer = await client.call(broker.address, command, 30)
            assert answer.code == 0, answer.remark

        await ask(Code.AUTH_CREATE_USER, {"password": PASSWORD}, NAMED)
        await ask(Code.AUTH_CREATE_ACL, entries("Topic:T", "Group:G"), SUBJECT)
        await _make_topic(client, broker.address)
        host, _, port = broker.address.rpartition(":")
        loop = asyncio.get_running_loop()
        loads: list[Load] = []
        try:
            for number in range(CONNECTIONS):
                kind = ("send", "pull")[number % 2]
                frame = frame_of(kind, number // 2 % 4)
                _, one = await loop.create_connection(lambda kind=kind, frame=frame: Load(kind, frame), host, int(port))  # type: ignore[misc]
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
        refused = {kind: sum(one.counts[1] for one in loads if one.kind == kind) for kind in ("send", "pull")}
        assert {kind for kind, count in refused.items() if count} == set(change.of)
        await ask(Code.AUTH_DELETE_USER, None, NAMED)


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
