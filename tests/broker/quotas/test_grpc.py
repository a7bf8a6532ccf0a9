"""Quotas of gRPC clients: what the kernel took goes by the RPC as soon as there is a quota, and back again."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from pyromq.broker.quotas import held
from pyromq.broker.quotas.limits import parse
from pyromq.protocol.grpc import v2
from tests.kernel.grpc_client import Client as Reader
from tests.kernel.grpc_client import wish
from tests.kernel.grpc_served import Served, served
from tests.kernel.test_grpc_broker import Client, message
from tests.kernel.test_grpc_pops import begin

OK, BUSY = v2.Code.OK, v2.Code.TOO_MANY_REQUESTS
BY_KERNEL = [False] if os.environ.get("PYROMQ_KERNEL") == "python" else [True, False]  # only the native one has calls


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks stand here: a refusal that is held back for a moment would never come."""
    monkeypatch.setattr(held, "HELD_S", 0.0)


async def sent(client: Client, first: int, count: int) -> list[tuple[int, str]]:
    requests = [v2.SendMessageRequest(messages=[message("A", number)]) for number in range(first, first + count)]
    answers = [(await client.send(request))[0] for request in requests]
    return [(answer.status.code, answer.status.message) for answer in answers]


@pytest.mark.parametrize("by_kernel", BY_KERNEL)
@pytest.mark.parametrize("whose", ["topic:A", "address:*"])
async def test_a_send_beyond_a_quota_is_told_to_come_later(tmp_path: Path, by_kernel: bool, whose: str) -> None:
    async with served(tmp_path, by_kernel) as running:
        client = Client(running.life)
        assert [code for code, _ in await sent(client, 1, 3)] == [OK] * 3
        quotas = running.life.broker.base.quotas
        quotas.put(parse(f"{whose} sendMessages=2"))
        answers = await sent(client, 4, 3)
        assert [code for code, _ in answers] == [OK, OK, BUSY]
        assert "2 messages sent a second (sendMessages)" in answers[-1][1]
        await running.life.clock.advance(seconds=1)
        assert [code for code, _ in await sent(client, 7, 1)] == [OK]
        before = taken(running)
        assert quotas.delete(parse(f"{whose} sendMessages=2").owner)
        assert [code for code, _ in await sent(client, 8, 5)] == [OK] * 5
        assert taken(running) - before == (5 if by_kernel else 0)


@pytest.mark.parametrize("by_kernel", BY_KERNEL)
async def test_a_receive_beyond_a_quota_is_told_to_come_later(tmp_path: Path, by_kernel: bool) -> None:
    async with served(tmp_path, by_kernel) as running:
        life, client = running.life, Reader(running.life)
        await client.consume("g", "A")
        await begin(client, wish())
        for number in range(6):
            await life.send("A", b"x", 0, {"UNIQ_KEY": f"u{number}"})
        life.broker.base.quotas.put(parse("group:g readMessages=2"))
        assert len(await client.receive(wish(batch_size=3))) == 3
        before = running.counts()[0] if by_kernel else 0
        said = v2.ReceiveMessageResponse.FromString((await client.ask("ReceiveMessage", wish()))[0]).status
        assert said.code == BUSY
        assert "the quota of group:g is 2 messages read a second (readMessages), 3 is used" in said.message
        refused = life.broker.quota_verdicts.kernel.refused
        assert refused == (1 if by_kernel else 0)
        await life.clock.advance(seconds=2)
        assert len(await client.receive(wish())) == 3
        assert not by_kernel or running.counts()[0] == before + 3


@pytest.mark.skipif(True not in BY_KERNEL, reason="only the native kernel has calls")
async def test_a_receive_that_is_reset_while_its_refusal_waits_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "HELD_S", 0.1)
    async with served(tmp_path) as running:
        life, client = running.life, Reader(running.life)
        await client.consume("g", "A")
        await begin(client, wish())
        for number in range(6):
            await life.send("A", b"x", 0, {"UNIQ_KEY": f"u{number}"})
        life.broker.base.quotas.put(parse("group:g readMessages=1"))
        assert len(await client.receive(wish(batch_size=6))) == 6
        for _ in range(5):
            stream = client.begin("ReceiveMessage", wish())
            await client.settle()
            client.peer.h2.reset_stream(stream, 8)
            await client.settle()
        assert life.broker.quota_verdicts.kernel.refused == 5
        assert kept_receives() == 5
        await life.clock.advance(0.2)
        await client.settle()
        assert kept_receives() == 0


def kept_receives() -> int:
    """Receives that sessions keep as they ended before their answer came."""
    kept = (each for each in gc.get_objects() if type(each) is dict)
    return sum(
        type(value).__name__ == "ReceiveGrant" for each in kept for key, value in [*each.items()] if type(key) is int
    )


def taken(running: Served) -> int:
    return sum(one.taken for one in running.sends)
