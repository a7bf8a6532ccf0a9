"""Users over a change of masters: a revocation that was answered holds at once, and all replicas agree on users."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest

from pyromq.access.signatures import Signer
from pyromq.access.users import User
from pyromq.errors import PyroError
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from pyromq.transport.client import RemotingClient
from tests.access.matrix import ON, SECRET, SUPER, is_refused
from tests.cluster.cluster import Cluster, run_cluster
from tests.cluster.machines import MAIN, MachineClock
from tests.cluster.stories import STRIKES, Story
from tests.elected.sends import send_of

TOPIC, SHOP = "T", "the secret of the shop"
ALLOWED = {"policies": [{"entries": [{"resource": f"Topic:{TOPIC}", "actions": ["Pub"], "decision": "Allow"}]}]}
SETTINGS: dict[str, Any] = ON | {
    "commit_log_file_bytes": 1 << 20,
    "access_secret": "the same for each run of a seed",
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"what servers know"}',
}


class Sent(NamedTuple):
    """One try of the shop to send: when it was begun, and the answer."""

    begun: float
    answer: Command


class Asking:
    """A process that asks brokers as one user or another, each time whoever answers."""

    def __init__(self, story: Story) -> None:
        self.story, machine = story, story.cluster.clients[0]
        around, process = machine.around, machine.process
        connect = around.network.connector(process, machine.host)
        self.client = RemotingClient(clock=MachineClock(around.clock), rng=around.rng, connect=connect)
        self.brokers = [f"{each.host}:{MAIN}" for each in story.cluster.brokers]
        self.sent: list[Sent] = []

    async def ask(self, at: str, command: Command, who: str = SUPER, secret: str = SECRET) -> Command:
        """Return the answer; its code is -1 where there is none."""
        Signer(who, secret).sign(command)
        try:
            return await self.client.call(at, command, 6)
        except PyroError as fault:
            return Command(-1, remark=str(fault))

    async def change(self, row: AnyRow, body: object = None, **fields: str) -> None:
        """Return once a change was answered as made. Followers hand it on."""
        text = b"" if body is None else json.dumps(body).encode()
        for number in range(200):
            at = self.brokers[number % len(self.brokers)]
            if (await self.ask(at, Command(row.code, fields=dict(fields), body=text))).code == 0:
                return
            await self.story.clock.sleep(0.3)
        raise AssertionError(f"{row.name} is not made")

    async def keep_sending(self) -> None:
        """Send as the shop to each broker in turn, until cancelled."""
        while True:
            for at in self.brokers:
                begun = self.story.now
                self.sent.append(Sent(begun, await self.ask(at, send_of(TOPIC), "shop", SHOP)))
            await self.story.clock.sleep(0.02)

    def passed(self, since: float) -> list[Sent]:
        return [one for one in self.sent if one.begun > since and one.answer.code == 0]


def users(cluster: Cluster) -> list[dict[str, User]]:
    lives = [each.life for each in cluster.brokers]
    return [dict(life.broker.base.access.table.directory.users) for life in lives if life is not None and life.is_open]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("how", STRIKES)
def test_who_was_revoked_passes_at_no_broker_any_more_whatever_strikes_the_master(how: str, seed: int) -> None:
    async def parts(story: Story) -> None:
        asking, rng = Asking(story), story.cluster.rng
        for name in ("shop", "keeper"):
            await asking.change(Code.AUTH_CREATE_USER, {"password": SHOP}, username=name)
            await asking.change(Code.AUTH_CREATE_ACL, ALLOWED, subject=f"User:{name}")
        sending = asyncio.get_running_loop().create_task(asking.keep_sending())
        await story.cluster.until(lambda: bool(asking.passed(0)), 20, "the shop sends")
        revoked = asyncio.get_running_loop().create_task(asking.change(Code.AUTH_DELETE_USER, username="shop"))
        await story.clock.sleep(rng.random() * 0.02)  # before it is answered, or a moment later
        await story.strike(how)
        await revoked
        answered = story.now
        await story.clock.sleep(10)
        sending.cancel()
        assert asking.passed(answered) == []
        assert [is_refused(one.answer) for one in asking.sent[-3:]].count(True) >= 2
        kept = [await asking.ask(at, send_of(TOPIC), "keeper", SHOP) for at in asking.brokers]
        assert 0 in [answer.code for answer in kept], kept
        await asking.client.close()

    async def whole(cluster: Cluster) -> None:
        story = Story(cluster)
        await story.begin()
        await story.process.begin(parts(story))
        await story.end()
        await cluster.clock.sleep(2)
        assert [set(one) for one in users(cluster)] == [{SUPER, "inner", "keeper"}] * 3

    run_cluster(seed, whole, **SETTINGS)
