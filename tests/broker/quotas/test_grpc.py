"""Quotas of gRPC clients: what the kernel took goes by the RPC as soon as there is a quota, and back again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.broker.quotas import held
from pyromq.broker.quotas.limits import parse
from pyromq.protocol.grpc import v2
from tests.kernel.grpc_served import Served, served
from tests.kernel.test_grpc_broker import Client, message

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


def taken(running: Served) -> int:
    return sum(one.taken for one in running.sends)
