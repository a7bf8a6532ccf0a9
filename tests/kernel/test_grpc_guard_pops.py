"""Signed receives, acks, changes and heartbeats through the kernel's guard and through the RPCs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.directory import Directory
from pyromq.broker.quotas.limits import parse
from pyromq.kernel import choice
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import ClientType, Code
from pyromq.store.config import FlushMode
from tests.broker.virtual import Virtual
from tests.kernel.call_signatures import NOW, guarded, signed_call
from tests.kernel.grpc_client import Client, ack, change, wish
from tests.kernel.grpc_served import Served
from tests.kernel.guard_frames import BOSS, GONE, SHOP, allow, users
from tests.kernel.test_grpc_pops import Lived, begin, in_order, story
from tests.kernel.test_guard import CHANGES
from tests.kernel.twins import contents
from tests.support import require

MAY_ALL = ("Topic:A Pub,Sub", "Group:g Sub")


@pytest.fixture(autouse=True)
def native() -> None:
    require(
        choice.native_http2() is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)"
    )


def grant(life: Virtual, *rules: str) -> None:
    """Let him do this, and nothing else."""
    if SHOP in users(life).policies:
        users(life).remove(SHOP)
    allow(users(life), SHOP, *rules)


async def consumer(here: Served, **consuming: Any) -> Client:
    """Open the lanes of his group."""
    grant(here.life, *MAY_ALL)
    client = Client(here.life)
    client.metadata |= signed_call()
    await client.consume("g", "A", **consuming)
    await begin(client, wish())
    return client


# --- who may ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("judged", [True, False])
async def test_answers_and_files_are_those_of_the_rpcs_byte_for_byte(tmp_path: Path, judged: bool) -> None:
    lives = []
    for by_kernel in (True, False):
        async with guarded(tmp_path / str(by_kernel), by_kernel, authorization_enabled=judged) as here:
            if judged:
                grant(here.life, *MAY_ALL)
            answers = await story(here.life, **signed_call())
            await here.life.broker.store.flush_all()
            lives.append(Lived(answers, contents(here.life.disk), here.counts()))
    kernel, rpc = lives
    for number, ((method, mine), (_, theirs)) in enumerate(zip(kernel.answers, rpc.answers, strict=True)):
        for one, other in zip(mine, theirs, strict=True):
            assert one == other or (method == "ReceiveMessage" and in_order(one) == in_order(other)), number
    assert kernel.files == rpc.files
    assert rpc.counts == (0, 0, 0, 0)
    assert kernel.counts == (12, 10, 3, 4)  # as without signatures


def calls_of(received: list[v2.Message]) -> dict[str, Any]:
    """One call of each kind."""
    return {
        "ReceiveMessage": wish(),
        "AckMessage": ack(received[0]),
        "ChangeInvisibleDuration": change(received[1], 60),
        "Heartbeat": v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER),
    }


RESPONSES: dict[str, Any] = {
    "ReceiveMessage": v2.ReceiveMessageResponse,
    "AckMessage": v2.AckMessageResponse,
    "ChangeInvisibleDuration": v2.ChangeInvisibleDurationResponse,
    "Heartbeat": v2.HeartbeatResponse,
}
STRANGERS = {
    "nobody": {"authorization": "", "x_mq_date_time": ""},
    "guessed": signed_call(secret="guessed"),
    "unknown": signed_call("stranger"),
    "disabled": signed_call(GONE),
    "another's": signed_call() | {"authorization": signed_call(BOSS, "x")["authorization"]},
    "old": signed_call(date="20231114T000000Z"),
    "cut off": signed_call(form="x Credential={0}/, Signature=12"),
}


async def each_call(folder: Path, by_kernel: bool, change_rights: Callable[[Virtual], None], **headers: str) -> Any:
    """What each of the four calls is answered, after the rights have changed, and how many the kernel served."""
    async with guarded(folder, by_kernel) as here:
        client = await consumer(here)
        for number in range(3):
            await here.life.send("A", b"%d" % number, 0, {"UNIQ_KEY": f"u{number}"})
        received = await client.receive(wish(batch_size=2))
        change_rights(here.life)
        before = (here.counts(), here.renewed())
        answers = {name: await client.ask(name, call, **headers) for name, call in calls_of(received).items()}
        after = (here.counts(), here.renewed())
        return answers, [now - then for now, then in zip((*after[0], after[1]), (*before[0], before[1]), strict=True)]


def code_of(name: str, answer: list[bytes]) -> int:
    return int(RESPONSES[name].FromString(answer[0]).status.code)


async def same_calls(folder: Path, change_rights: Callable[[Virtual], None], **headers: str) -> tuple[list[int], Any]:
    """The codes of the four calls, and how many of each the kernel served."""
    ours, by_kernel = await each_call(folder / "kernel", True, change_rights, **headers)
    theirs, by_rpc = await each_call(folder / "rpc", False, change_rights, **headers)
    assert ours == theirs
    assert by_rpc == [0, 0, 0, 0, 0]
    return [code_of(name, answer) for name, answer in ours.items()], by_kernel


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
async def test_who_may_not_is_refused_in_the_words_of_the_gate(tmp_path: Path, headers: dict[str, str]) -> None:
    codes, by_kernel = await same_calls(tmp_path, lambda life: None, **headers)
    assert codes == [Code.UNAUTHORIZED] * 4
    assert by_kernel == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("rules", "beats"),
    [(("Topic:A Sub",), False), (("Group:g Sub",), True), (("Topic:A Pub", "Group:g Sub"), True), (MAY_ALL[:1], False)],
)
async def test_topic_and_group_are_judged(tmp_path: Path, rules: tuple[str, ...], beats: bool) -> None:
    codes, by_kernel = await same_calls(tmp_path, lambda life: grant(life, *rules))
    assert codes == [Code.UNAUTHORIZED] * 3 + [Code.OK if beats else Code.UNAUTHORIZED]
    assert by_kernel == [0, 0, 0, 0, int(beats)]


async def test_each_call_is_the_kernels_for_who_may(tmp_path: Path) -> None:
    codes, by_kernel = await same_calls(tmp_path, lambda life: grant(life, *MAY_ALL, "Topic:B Sub"))
    assert codes == [Code.OK] * 4
    assert by_kernel == [1, 1, 1, 0, 1]


async def test_a_producers_heartbeats_ask_for_nothing(tmp_path: Path) -> None:
    """By the type that they say, as the RPC has it: a consumer's that says so passes, too."""
    for kind, code in ((ClientType.PRODUCER, Code.OK), (ClientType.PUSH_CONSUMER, Code.UNAUTHORIZED)):
        async with guarded(tmp_path / str(int(kind))) as here:
            client = await consumer(here)
            grant(here.life, "Topic:A Sub")
            beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=kind)
            (answer,) = await client.ask("Heartbeat", beat)
            assert v2.HeartbeatResponse.FromString(answer).status.code == code
            assert here.renewed() == (code == Code.OK)


# --- what changes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_counts_for_the_next_call(tmp_path: Path, name: str) -> None:
    change_rights = CHANGES[name] if name != "denied" else denied
    codes, by_kernel = await same_calls(tmp_path, lambda life: change_rights(users(life)))
    assert codes == [Code.UNAUTHORIZED] * 4
    assert by_kernel == [0, 0, 0, 0, 0]


def remove_once(directory: Directory) -> None:
    if SHOP in directory.policies:
        directory.remove(SHOP)


def denied(directory: Directory) -> None:
    allow(directory, SHOP, "Topic:A Sub Deny", "Group:g Sub Deny")


async def held_call(folder: Path, by_kernel: bool, how: str, **settings: Any) -> list[list[bytes]]:
    """A receive waits; rights are taken, a message comes, and he asks again."""
    async with guarded(folder, by_kernel, **settings) as here:
        life, client = here.life, await consumer(here)
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        assert not client.is_ended(stream)
        assert len(life.broker.pop_parts.handler.held) == 1
        if how == "before":
            users(life).remove(SHOP)
        else:  # in the moment when a message has come, before he is woken
            life.broker.store.on_arrival("A", lambda _: remove_once(users(life)))
        sending = asyncio.ensure_future(life.send("A", b"secret", 0, {"UNIQ_KEY": "u"}))
        await client.settle()
        await sending
        assert client.is_ended(stream)
        assert SHOP not in users(life).policies
        again = await client.ask("ReceiveMessage", wish())
        assert here.counts()[0] == 0
        return [client.raw(stream), again]


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
@pytest.mark.parametrize("how", ["before", "meanwhile"])
async def test_a_receive_that_waits_is_judged_anew(tmp_path: Path, how: str, flush_mode: FlushMode) -> None:
    ours = await held_call(tmp_path / "kernel", True, how, flush_mode=flush_mode)
    theirs = await held_call(tmp_path / "rpc", False, how, flush_mode=flush_mode)
    assert all(b"secret" not in element for answer in (*ours, *theirs) for element in answer)
    assert v2.ReceiveMessageResponse.FromString(ours[0][0]).status.code == Code.MESSAGE_NOT_FOUND
    assert v2.ReceiveMessageResponse.FromString(ours[1][0]).status.code == Code.UNAUTHORIZED
    assert ours == theirs


async def test_a_receive_of_another_user_waits_on_after_it_has_asked_again(tmp_path: Path) -> None:
    async with guarded(tmp_path) as here:
        client = await consumer(here)
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        users(here.life).delete(GONE)
        await client.settle()
        assert v2.ReceiveMessageResponse.FromString(client.raw(stream)[0]).status.code == Code.MESSAGE_NOT_FOUND
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        await here.life.send("A", b"one", 0, {"UNIQ_KEY": "u"})
        await client.settle()
        assert client.is_ended(stream)
        assert here.counts()[0] == 1


async def test_dates_are_looked_at_in_each_call(tmp_path: Path) -> None:
    """Of a connection that has shown who it is long ago, too."""
    async with guarded(tmp_path, call_signature_seconds=60) as here:
        client = await consumer(here)
        beat = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=ClientType.SIMPLE_CONSUMER)
        codes = []
        for seconds in (0, 50, 20):
            await here.life.clock.advance(seconds)
            codes.append(code_of("Heartbeat", await client.ask("Heartbeat", beat)))
        assert client.metadata["x_mq_date_time"] == NOW
        assert codes == [Code.OK, Code.OK, Code.UNAUTHORIZED]
        assert here.renewed() == 2


async def test_receives_that_wait_are_asked_for_again_when_users_get_quotas(tmp_path: Path) -> None:
    """Then the RPC serves them, which knows whose they are."""
    async with guarded(tmp_path) as here:
        client = await consumer(here)
        stream = client.begin("ReceiveMessage", wish())
        await client.settle()
        here.life.broker.base.quotas.put(parse(f"user:{SHOP} readMessages=1"))
        await client.settle()
        assert v2.ReceiveMessageResponse.FromString(client.raw(stream)[0]).status.code == Code.MESSAGE_NOT_FOUND
        for number in range(3):
            await here.life.send("A", b"%d" % number, 0, {"UNIQ_KEY": f"u{number}"})
        assert len(await client.receive(wish())) == 3  # a debt
        answer = await client.ask("ReceiveMessage", wish())
        assert code_of("ReceiveMessage", answer) == Code.TOO_MANY_REQUESTS
        assert here.counts()[0] == 0
