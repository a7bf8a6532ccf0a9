"""A whole broker under gRPC receives, acks and changes: what the kernel serves is what the RPCs in Python do."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.kernel import choice
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from pyromq.store.config import FlushMode
from tests.broker.virtual import Virtual
from tests.kernel.grpc_client import Client, ack, change, wish
from tests.kernel.grpc_served import A, served
from tests.kernel.twins import contents
from tests.support import require


@pytest.fixture(autouse=True)
def native() -> None:
    require(
        choice.native_http2() is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)"
    )


class Lived(NamedTuple):
    """What can be told from outside, and what the kernel did of it."""

    answers: list[tuple[str, list[bytes]]]
    files: dict[str, bytes]
    counts: tuple[int, int, int, int]  # received, acked, changed, odd


async def begin(client: Client, request: Any) -> None:
    """Have the lanes of a group opened, which is Python's, and take what is there."""
    while received := await client.receive(request):
        await client.ask("AckMessage", ack(*received))


KINDS: list[tuple[bytes, dict[str, str], dict[str, int]]] = [
    (b"plain", {"UNIQ_KEY": "id0"}, {}),
    (b"1", {"UNIQ_KEY": "id1", "TAGS": "blue", "KEYS": "k1 k2  k3", "color": "red"}, {}),
    (b"x" * 55, {"UNIQ_KEY": "id2", "__SHARDINGKEY": "g1"}, {}),
    (b"x" * 56, {"UNIQ_KEY": "id3", "TRACE_CONTEXT": "trace", "__BORNHOST": "10.1.2.3"}, {}),
    (b"x" * 64, {"no": "unique key"}, {}),
    (b"x" * 1000, {"UNIQ_KEY": "id5", "MSG_REGION": "r", "WAIT": "true", "PGROUP": "p"}, {}),
    (gzip.compress(b"packed", mtime=0), {"UNIQ_KEY": "id6"}, {"sysFlag": 1}),
    (zlib.compress(b"packed"), {"UNIQ_KEY": "id7"}, {"sysFlag": 1}),
    (b"wide", {"UNIQ_KEY": "id8", "name": "grün"}, {}),
    (b"reply", {"UNIQ_KEY": "id9", "CORRELATION_ID": "c", "_SYS_MSG_PRIORITY_": "3"}, {}),
    (b"many", {f"p{number}": "v" for number in range(17)}, {}),
    (b"again", {"UNIQ_KEY": "id10"}, {"reconsumeTimes": 3}),
]


async def fill(life: Virtual, topic: str = "A") -> None:
    """A message of every kind, over three queues."""
    for number, (body, properties, more) in enumerate(KINDS):
        sending = asyncio.ensure_future(life.send(topic, body, number % 3, properties, **more))
        await life.clock.settle()
        await life.broker.store.flush_log()
        await sending


async def story(life: Virtual, **metadata: str) -> list[tuple[str, list[bytes]]]:
    """Every answer of a simple consumer's life, by its method."""
    client = Client(life)
    client.metadata |= metadata
    await client.consume("g", "A")
    said = [("ReceiveMessage", await client.ask("ReceiveMessage", wish()))]  # opens the lanes
    received: list[v2.Message] = []

    async def ask(method: str, request: Any, **more: str) -> None:
        said.append((method, await client.ask(method, request, **more)))
        if method == "ReceiveMessage":
            elements = [v2.ReceiveMessageResponse.FromString(one) for one in said[-1][1]]
            received.extend(one.message for one in elements if one.HasField("message"))

    await fill(life)
    await ask("ReceiveMessage", wish(batch_size=5))
    await ask("ReceiveMessage", wish(), grpc_timeout="8S")
    for message in received[:4]:
        await ask("AckMessage", ack(message))
    await ask("AckMessage", ack(*received[4:7]))
    await ask("AckMessage", ack(received[0]))  # again
    await ask("ChangeInvisibleDuration", change(received[7], 60))
    await life.clock.advance(0.001)
    await ask("ChangeInvisibleDuration", change(received[8], 0.5, suspend=True))
    await ask("ChangeInvisibleDuration", change(received[8], 1))  # its receipt is another one now
    changed = v2.ChangeInvisibleDurationResponse.FromString(said[-3][1][0])
    moved = v2.Message()
    moved.CopyFrom(received[7])
    moved.system_properties.receipt_handle = changed.receipt_handle
    await ask("AckMessage", ack(moved, received[9]))
    broken = v2.Message()
    broken.CopyFrom(received[9])
    for handle in ("", "1 2 3", received[9].system_properties.receipt_handle.replace("broker-a", "other"), "x" * 600):
        broken.system_properties.receipt_handle = handle
        await ask("AckMessage", ack(broken))
        await ask("ChangeInvisibleDuration", change(broken, 1))
    await life.clock.advance(31)
    await ask("AckMessage", ack(received[10]))  # expired
    await ask("ReceiveMessage", wish())  # of the retry topic
    for message in received[-1:]:
        await ask("AckMessage", ack(message))
    await fill(life, "B")
    return said


@pytest.mark.parametrize("flush", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_answers_and_files_are_those_of_the_rpcs_byte_for_byte(tmp_path: Path, flush: FlushMode) -> None:
    lives = []
    for by_kernel in (True, False):
        async with served(tmp_path / str(by_kernel), by_kernel, flush_mode=flush) as here:
            answers = await story(here.life)
            await here.life.broker.store.flush_all()
            lives.append(Lived(answers, contents(here.life.disk), here.counts()))
    kernel, rpc = lives
    for number, ((method, mine), (_, theirs)) in enumerate(zip(kernel.answers, rpc.answers, strict=True)):
        for one, other in zip(mine, theirs, strict=True):
            assert one == other or (method == "ReceiveMessage" and in_order(one) == in_order(other)), number
    assert kernel.files == rpc.files
    assert rpc.counts == (0, 0, 0, 0)
    assert kernel.counts == (12, 10, 3, 4)


def in_order(element: bytes) -> bytes:
    """A message with its properties in order: protobuf writes a map of several in any."""
    found = v2.ReceiveMessageResponse.FromString(element)
    assert len(found.message.user_properties) > 1
    made: bytes = found.SerializeToString(deterministic=True)
    return made


async def test_messages_that_are_not_for_the_client_are_set_aside(tmp_path: Path) -> None:
    for by_kernel in (True, False):
        async with served(tmp_path / str(by_kernel), by_kernel) as here:
            life, client = here.life, Client(here.life)
            life.broker.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=2))
            await client.consume("g", "A")
            await begin(client, wish(tags="Aa"))
            for tag, times in (("Aa", 0), ("BB", 0), ("Aa", 3), ("C", 0)):  # the first two have one hash
                await life.send("A", tag.encode(), 0, {"TAGS": tag, "UNIQ_KEY": tag}, reconsumeTimes=times)
            assert [one.body for one in await client.receive(wish(tags="Aa"))] == [b"Aa"]
            await life.clock.settle()
            assert life.bodies("%DLQ%g") == ["Aa"]
            await life.send("A", b"twin", 0, {"TAGS": "BB", "UNIQ_KEY": "twin"})
            said = await client.ask("ReceiveMessage", wish(tags="Aa"))
            assert v2.ReceiveMessageResponse.FromString(said[0]).status.message == "no match message"
            assert here.counts()[0] == (1 if by_kernel else 0)


async def test_a_verdict_ends_with_the_client_the_group_the_topic_and_the_settings(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        life, client = here.life, Client(here.life)
        telemetry = await client.consume("g", "A")
        await begin(client, wish())

        async def code(request: Any = None) -> int:
            await life.send("A", b"one", 0, {"UNIQ_KEY": "u"})
            said = await client.ask("ReceiveMessage", request or wish())
            return v2.ReceiveMessageResponse.FromString(said[0]).status.code

        assert (await code(), here.counts()[0]) == (Code.OK, 1)
        life.broker.groups.put(SubscriptionGroupConfig(group_name="g", consume_enable=False))
        assert (await code(), here.counts()[0]) == (Code.INTERNAL_SERVER_ERROR, 1)
        life.broker.groups.put(SubscriptionGroupConfig(group_name="g"))
        assert await code() == Code.OK
        life.broker.topics.put(TopicConfig(topic_name="A", read_queue_nums=3, write_queue_nums=3, perm=2))
        assert await code() == Code.FORBIDDEN
        life.broker.topics.put(A)
        assert await code() == Code.OK
        before = here.counts()[0]
        client.peer.h2.end_stream(telemetry)
        await client.settle()
        assert (await code(wish(auto_renew=True)), here.counts()[0]) == (Code.MESSAGE_NOT_FOUND, before)


async def test_renewed_messages_are_acked_by_the_kernel_until_they_have_another_receipt(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        life, client = here.life, Client(here.life)
        renewals = life.broker.grpc.services.renewals
        await client.consume("g", "A", push=True)
        await begin(client, wish(auto_renew=True))
        for number in range(4):
            await life.send("A", b"%d" % number, 0, {"UNIQ_KEY": f"u{number}"})
        before = here.counts()[1]
        received = await client.receive(wish(auto_renew=True))
        assert (len(received), len(renewals), len(renewals.held)) == (4, 4, 0)
        await client.ask("AckMessage", ack(received[0]))
        assert (here.counts()[:2], len(renewals), len(renewals.held)) == ((4, before + 1), 3, 0)
        await life.advance(7)  # what is open by then is kept one by one
        assert (len(renewals), len(renewals.held)) == (3, 1)
        await client.ask("AckMessage", ack(received[1]))
        assert (here.counts()[1], len(renewals)) == (before + 1, 2)
        await life.advance(120)  # renewed twice: the first receipts are long over
        for message in received[2:]:
            (answer,) = await client.ask("AckMessage", ack(message))
            assert v2.AckMessageResponse.FromString(answer).status.code == Code.OK
        assert (len(renewals), len(renewals.held)) == (0, 0)
        await life.advance(600)
        assert await client.receive(wish(auto_renew=True)) == []


async def test_messages_of_a_client_that_goes_come_again_in_a_second(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        life, client, other = here.life, Client(here.life), Client(here.life, "client-2")
        await other.consume("g", "A", push=True)
        await client.consume("g", "A", push=True)
        await begin(client, wish(auto_renew=True))
        for number in range(3):
            await life.send("A", b"%d" % number, 0, {"UNIQ_KEY": f"u{number}"})
        received = await client.receive(wish(auto_renew=True))
        assert here.counts()[0] == 3
        await client.ask("AckMessage", ack(received[0]))
        bye = v2.NotifyClientTerminationRequest(group=v2.Resource(name="g"))
        await client.ask("NotifyClientTermination", bye)
        await life.advance(1.2)
        assert sorted(one.body for one in await other.receive(wish(auto_renew=True))) == [b"1", b"2"]


@pytest.mark.parametrize("how", ["reset", "lost"])
async def test_an_answer_that_nobody_reads_is_given_back_and_counts_as_no_delivery(tmp_path: Path, how: str) -> None:
    async with served(tmp_path) as here:
        life, client, other = here.life, Client(here.life, window=1000), Client(here.life, "client-2")
        for each in (client, other):
            await each.consume("g", "A")
        await begin(other, wish())
        for number in range(3):
            await life.send("A", b"%d" % number * 2000, 0, {"UNIQ_KEY": f"u{number}"})
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        assert here.counts()[0] == 3
        assert not client.is_ended(stream)
        if how == "reset":
            client.peer.h2.reset_stream(stream, 8)
            await client.settle()
        else:
            client.cut()
            await life.clock.settle()
        await life.advance(1.2)
        again = await other.receive(wish())
        assert [one.system_properties.delivery_attempt for one in again] == [1, 1, 1]


@pytest.mark.parametrize("how", ["reset", "lost"])
async def test_a_receive_that_ends_while_its_answer_waits_for_the_disk_is_given_back(tmp_path: Path, how: str) -> None:
    async with served(tmp_path, flush_mode=FlushMode.SYNC) as here:
        life, client, other = here.life, Client(here.life), Client(here.life, "client-2")
        for each in (client, other):
            await each.consume("g", "A")
        await begin(other, wish())
        sending = asyncio.ensure_future(life.send("A", b"one", 0, {"UNIQ_KEY": "u"}))
        await life.clock.settle()
        await life.broker.store.flush_log()
        await sending
        stream = client.begin("ReceiveMessage", wish())
        client.flush()
        await client.hear()
        assert client.raw(stream) == []
        if how == "reset":
            client.peer.h2.reset_stream(stream, 8)
            client.flush()
            await client.hear()
        else:
            client.cut()
            await life.clock.settle()
        await life.broker.store.flush_log()
        await life.clock.settle()
        await life.broker.store.flush_log()
        await life.advance(1.2)
        assert [one.body for one in await other.receive(wish())] == [b"one"]


async def test_the_answer_of_a_slow_reader_leaves_with_its_windows(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        life, client = here.life, Client(here.life, window=1000)
        await client.consume("g", "A", push=True)
        await begin(client, wish(auto_renew=True))
        for number in range(3):
            await life.send("A", b"%d" % number * 2000, 0, {"UNIQ_KEY": f"u{number}"})
        stream = client.begin("ReceiveMessage", wish(auto_renew=True))
        await client.settle()
        renewals = life.broker.grpc.services.renewals
        assert (len(renewals), client.is_ended(stream)) == (0, False)
        while not client.is_ended(stream):
            client.peer.h2.increment_flow_control_window(1000, stream)
            client.peer.h2.increment_flow_control_window(1000)
            await client.settle()
        assert (len(client.raw(stream)), len(renewals)) == (5, 3)


# --- receives that wait -----------------------------------------------------------------------------------------------


async def waits(folder: Path, by_kernel: bool, **settings: Any) -> tuple[list[list[bytes]], int]:
    """Three receives wait: a message wakes the first, the others end with nothing."""
    async with served(folder, by_kernel, **settings) as here:
        client = Client(here.life)
        await client.consume("g", "A")
        await begin(client, wish())
        streams = [client.begin("ReceiveMessage", wish(batch_size=1)) for _ in range(3)]
        await client.settle()
        assert not any(client.is_ended(stream) for stream in streams)
        sending = asyncio.ensure_future(here.life.send("A", b"woken", 1, {"UNIQ_KEY": "woken"}))
        await client.settle()
        await sending
        await client.settle()
        assert [client.is_ended(stream) for stream in streams] == [True, False, False]
        await here.life.clock.advance(6)
        await client.settle()
        assert all(client.is_ended(stream) for stream in streams)
        return [client.raw(stream) for stream in streams], here.counts()[0]


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_receives_that_wait_are_answered_by_the_kernel(tmp_path: Path, flush_mode: FlushMode) -> None:
    ours, served_by_kernel = await waits(tmp_path / "native", True, flush_mode=flush_mode)
    theirs, _ = await waits(tmp_path / "python", False, flush_mode=flush_mode)
    if flush_mode is FlushMode.SYNC:  # nothing may wait for the disk too: the last element has the time
        ours, theirs = [one[:-1] for one in ours], [one[:-1] for one in theirs]
    assert ours == theirs
    assert served_by_kernel == 1


async def test_a_receive_that_is_cancelled_while_it_waits_gives_its_message_back(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        client = Client(here.life)
        await client.consume("g", "A")
        await begin(client, wish())
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        client.peer.h2.reset_stream(stream)
        await client.settle()
        await here.life.send("A", b"again", 1, {"UNIQ_KEY": "again"})
        await here.life.clock.advance(1.5)
        received = await client.receive(wish())
        assert [one.body for one in received] == [b"again"]


async def test_a_connection_that_is_gone_takes_its_waits_along(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        client, other = Client(here.life), Client(here.life, "client-2")
        await client.consume("g", "A")
        await other.consume("g", "A")
        await begin(client, wish())
        client.begin("ReceiveMessage", wish())
        await client.settle()
        held = here.life.broker.pop_parts.handler.held
        assert len(held) == 1
        stream = client.bytes.stream
        assert stream is not None
        stream.close()
        await here.life.clock.settle()
        assert len(held) == 0
        await here.life.send("A", b"for the other", 1, {"UNIQ_KEY": "other"})
        assert [one.body for one in await other.receive(wish())] == [b"for the other"]
