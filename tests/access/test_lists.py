"""What lists show to whom: each request whose row asks for a right on all of a kind is answered with what one may see.

The rows are those of `protocol/requests.py` with NameIn.ALL, so a new list has to say here what is in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.access.directory import Directory
from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.topic import TopicFlag
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.access import NameIn
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.registration import encode_registration
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow, ServedBy
from pyromq.transport.client import RemotingClient
from tests.access.matrix import NORMAL, ON, SUPER, is_refused, make_users, signed
from tests.broker.running import running_broker
from tests.kernel.guard_frames import allow
from tests.namesrv.builders import topics
from tests.namesrv.world import broker_body, broker_header

Ask = Callable[[Command], Awaitable[Command]]
UNIT, UNIT_SUB = TopicFlag.UNIT, TopicFlag.UNIT_SUB
FLAGGED = {
    "": 0,
    "-unit": UNIT,
    "-sub": UNIT_SUB,
    "-both": UNIT | UNIT_SUB,
}
MINE, THEIRS = "mine", "theirs"  # beginnings of names: of topics, groups, brokers and clusters
RETRIES = {own: f"{RETRY_PREFIX}{own}-group" for own in (MINE, THEIRS)}


class Listed(NamedTuple):
    """The ends of names that are in a list, of mine and of theirs. `own`: of those that only I have."""

    ends: Collection[str]
    has_retries: bool = False
    own: Collection[str] = ()
    fields: dict[str, str] = {}  # noqa: RUF012 (never changed)

    def names(self, own: str) -> set[str]:
        ends = (*self.ends, *(self.own if own == MINE else ()))
        return {own + end for end in ends} | ({RETRIES[own]} if self.has_retries else set())


OF_BROKERS = ("-broker", "-cluster", "-cluster_REPLY_TOPIC")  # topics that a broker makes
LISTS: dict[int, Listed] = {
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Listed(FLAGGED, has_retries=True),
    Code.GET_TOPICS_BY_CLUSTER: Listed(FLAGGED, has_retries=True, fields={"cluster": "mine-cluster"}),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Listed(("-cluster", "-broker")),
    Code.GET_UNIT_TOPIC_LIST: Listed(("-unit", "-both")),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: Listed(("-sub", "-both")),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Listed(("-sub",)),
    Code.GET_ALL_TOPIC_CONFIG: Listed(FLAGGED, has_retries=True, own=OF_BROKERS),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Listed((), own=OF_BROKERS),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Listed(("-group",)),
}
SCREENED = [row for row in ROWS.values() if any(need.name_in is NameIn.ALL for need in row.needs)]
OF_NAME_SERVER = [row for row in SCREENED if row.by is ServedBy.NAME_SERVER]
OF_BROKER = [row for row in SCREENED if row.by is ServedBy.BROKER]


def test_every_list_is_looked_at() -> None:
    assert {row.code for row in SCREENED} == {int(code) for code in LISTS}
    assert len(OF_NAME_SERVER) + len(OF_BROKER) == len(SCREENED)


@pytest.fixture(params=["name server", "broker"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Ask, Directory, list[AnyRow]]]:
    clock = SystemClock()
    if request.param == "broker":
        own: dict[str, Any] = {"broker_name": "mine-broker", "broker_cluster_name": "mine-cluster"}
        async with running_broker(tmp_path, **own, **ON) as running:
            for each in _topics().values():
                running.broker.topics.put(each)
            for name in (MINE, THEIRS):
                running.broker.groups.put(SubscriptionGroupConfig(group_name=f"{name}-group"))
            directory = running.broker.base.access.table.directory
            make_users(directory)
            yield lambda command: running.client.call(running.address, command, 20), directory, OF_BROKER
        return
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", listen_port=0, tls_test_mode_enable=False, **ON)
    serving = NameServer(Loaded(config), clock=clock, rng=random.Random(1))
    address = await serving.listen()
    directory = serving.access.table.directory
    make_users(directory)
    async with RemotingClient(clock=clock, rng=random.Random(2)) as client:

        async def ask(command: Command) -> Command:
            return await client.call(address, command, 20)

        for number, own_name in enumerate((MINE, THEIRS)):
            header = broker_header(
                f"{own_name}-broker", cluster_name=f"{own_name}-cluster", broker_addr=f"127.0.0.1:{number + 1}"
            )
            body = encode_registration(broker_body(_topics()))
            registered = await ask(signed(Command(Code.REGISTER_BROKER, fields=header.to_fields(), body=body), SUPER))
            assert registered.code == 0, registered.remark
        yield ask, directory, OF_NAME_SERVER
    await serving.stop()


def _topics() -> dict[str, Any]:
    found = topics(*RETRIES.values())
    for end, flag in FLAGGED.items():
        found |= topics(MINE + end, THEIRS + end, flag=flag)
    return found


async def seen(ask: Ask, row: AnyRow, name: str) -> set[str] | None:
    """All names anywhere in the answer, of mine and of theirs; None: it was refused."""
    answer = await ask(signed(Command(row.code, fields=dict(LISTS[row.code].fields)), name))
    if is_refused(answer):
        return None
    assert answer.code == 0, answer.remark
    said = repr(answer.fields) + bytes(answer.body).decode()
    return set(re.findall(rf"(?:{RETRY_PREFIX})?\b(?:{MINE}|{THEIRS})\b[-\w]*", said))


def rights(directory: Directory, *rules: str, sources: Collection[str] = ()) -> None:
    """Let the user do this, and nothing else."""
    if NORMAL in directory.policies:
        directory.remove(NORMAL)
    allow(directory, NORMAL, *rules, sources=tuple(sources))


async def test_a_super_user_sees_all(server: tuple[Ask, Directory, list[AnyRow]]) -> None:
    ask, _, rows = server
    for row in rows:
        assert await seen(ask, row, SUPER) == LISTS[row.code].names(MINE) | LISTS[row.code].names(THEIRS), row.name


async def test_a_user_sees_what_he_may(server: tuple[Ask, Directory, list[AnyRow]]) -> None:
    ask, directory, rows = server
    for rules in (
        (f"Topic:{MINE}* List", f"Group:{MINE}* List"),
        (f"Topic:{MINE}* All", f"Group:{MINE}* All"),
        ("Topic:* List", f"Topic:{THEIRS}* List Deny", "Group:* List", f"Group:{THEIRS}* List Deny"),
        ("* List", f"Topic:{THEIRS}* List Deny", f"Group:{THEIRS}* List Deny"),
    ):
        rights(directory, *rules)
        for row in rows:
            assert await seen(ask, row, NORMAL) == LISTS[row.code].names(MINE), (row.name, rules)


async def test_single_names_and_their_groups_retries(server: tuple[Ask, Directory, list[AnyRow]]) -> None:
    """A retry topic is its group's: a right on topics does not show it."""
    ask, directory, rows = server
    for row in rows:
        listed = LISTS[row.code]
        one = MINE + next(iter((*listed.ends, *listed.own)))
        of_group = row == Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        rights(directory, f"{'Group' if of_group else 'Topic'}:{one} List")
        assert await seen(ask, row, NORMAL) == {one}, row.name
        if not of_group:
            rights(directory, f"Topic:{one} List", f"Group:{MINE}-group List")
            assert await seen(ask, row, NORMAL) == {one} | ({RETRIES[MINE]} if listed.has_retries else set()), row.name


async def test_who_may_list_nothing_is_told_nothing(server: tuple[Ask, Directory, list[AnyRow]]) -> None:
    ask, directory, rows = server
    others = ("Topic:* Pub,Sub,Create,Update,Delete", "Group:* Sub,Create,Update,Delete", "Cluster:* All")
    for rules, sources in (
        (others, ()),
        (("Topic:* List Deny", "Group:* List Deny"), ()),
        (("Topic:* All", "Group:* All"), ("10.9.8.7",)),
    ):
        rights(directory, *rules, sources=sources)
        for row in rows:
            assert not await seen(ask, row, NORMAL), (row.name, rules)


async def test_what_is_taken_back_is_not_in_the_next_answer(server: tuple[Ask, Directory, list[AnyRow]]) -> None:
    ask, directory, rows = server
    for row in rows:
        rights(directory, "Topic:* List", "Group:* List")
        before = await seen(ask, row, NORMAL)
        rights(directory, f"Topic:{MINE}* List", f"Group:{MINE}* List")
        assert before == await seen(ask, row, SUPER)
        assert await seen(ask, row, NORMAL) == LISTS[row.code].names(MINE), row.name
