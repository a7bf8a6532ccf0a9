"""Attacks that RocketMQ had a CVE for, as the requests that made them: with nobody asked, and with users.

2019-17572  the name of a topic that a send makes is a path
2023-33246  a broker's settings are a command (filterServerNums, rocketmqHome)
2023-37582  a name server's settings say where it writes (configStorePath), and what
2024-23321  listings and settings tell a user the administrator's secret
and reports of a replica that is none, which would make messages count as copied
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.forms import policies_of
from pyromq.access.users import User
from pyromq.ambient import SystemClock
from pyromq.broker.replication.settings import BrokerRole
from pyromq.config import Loaded
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.access import NameIn
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.command import Command
from pyromq.protocol.replication.classic import encode_report
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from pyromq.protocol.row import AnyRow
from pyromq.transport.client import RemotingClient
from tests.access.hidden import told_in
from tests.access.matrix import NORMAL, ON, SECRET, SUPER, is_refused, make_users, name_of, request_of, signed
from tests.broker.running import Running, running_broker, turns_until

INNER_SECRET = "what servers tell each other by"
SECURED: dict[str, Any] = ON | {
    "inner_client_authentication_credentials": json.dumps({"accessKey": "inner", "secretKey": INNER_SECRET}),
    "access_secret": "the phrase that seals secrets on disk",
}
WHO = pytest.mark.parametrize("who", ["nobody is asked", "nobody", NORMAL, SUPER])


class Attack:
    """A server, and requests of one who attacks it."""

    def __init__(self, ask: Callable[[Command], Awaitable[Command]], who: str) -> None:
        self._ask, self.who = ask, who
        self.is_asked = who != "nobody is asked"

    async def __call__(self, code: int, body: bytes = b"", **fields: str) -> Command:
        command = Command(code=code, fields=fields, body=body)
        return await self._ask(signed(command, self.who) if self.who in (NORMAL, SUPER) else command)

    def is_stopped(self, answer: Command) -> bool:
        """Tell whether it was the gate that refused: strangers come no further."""
        return is_refused(answer)


@asynccontextmanager
async def broker_of(folder: Path, who: str, *rights: str, **settings: Any) -> AsyncIterator[tuple[Attack, Running]]:
    """`rights`: of the normal user, like `Topic:* Pub`."""
    settings |= SECURED if who != "nobody is asked" else {}
    async with running_broker(folder, **settings) as running:
        if who != "nobody is asked":
            _make_users(running.broker.base.access.table.directory, rights)
        yield Attack(lambda command: running.client.call(running.address, command, 20), who), running


@asynccontextmanager
async def name_server_of(folder: Path, who: str, *rights: str) -> AsyncIterator[Attack]:
    clock = SystemClock()
    config = NamesrvConfig(
        kv_config_path=folder / "kv.json",
        listen_port=0,
        tls_test_mode_enable=False,
        **(SECURED if who != "nobody is asked" else {}),
    )
    namesrv = NameServer(Loaded(config), clock=clock, rng=random.Random(1))
    address = await namesrv.listen()
    if who != "nobody is asked":
        _make_users(namesrv.access.table.directory, rights)
    async with RemotingClient(clock=clock, rng=random.Random(2)) as client:
        yield Attack(lambda command: client.call(address, command, 20), who)
    await namesrv.stop()


def _make_users(directory: Any, rights: tuple[str, ...]) -> None:
    make_users(directory)
    entries = []
    for right in rights:
        resource, actions = right.split()
        entries.append(PolicyEntryInfo(resource=resource, actions=actions.split(","), decision="Allow"))
    if entries:
        directory.put(NORMAL, policies_of(AclInfo(policies=[PolicyInfo(entries=entries)])))


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


# --- 2019-17572 -------------------------------------------------------------------------------------------------------

PATHS = ["../../../../escaped", "..", "a/b", "/tmp/escaped", "..\\escaped", "%2e%2e/escaped", "a\x00b", "./T"]


def requests_that_make_topics(name: str) -> dict[str, tuple[int, bytes, dict[str, str]]]:
    send = {"producerGroup": "P", "topic": name, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    send |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    short = {"a": "P", "b": name, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": ""}
    made = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    made |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    beat = {"clientID": "c", "consumerDataSet": [{"groupName": name, "subscriptionDataSet": [], "unitMode": False}]}
    back = {"offset": "0", "group": name, "delayLevel": "1", "originTopic": name}
    listed = {"topicConfigList": [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
    return {
        "send": (Code.SEND_MESSAGE, b"x", send),
        "send, short names": (Code.SEND_MESSAGE_V2, b"x", short),
        "delayed send": (Code.SEND_MESSAGE, b"x", send | {"properties": "DELAY\x011\x02"}),
        "reply": (Code.SEND_REPLY_MESSAGE, b"x", send),
        "create": (Code.UPDATE_AND_CREATE_TOPIC, b"", made),
        "create many": (Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps(listed).encode(), {}),
        "group": (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps({"groupName": name}).encode(), {}),
        "heartbeat": (Code.HEART_BEAT, json.dumps(beat).encode(), {}),
        "send back": (Code.CONSUMER_SEND_MSG_BACK, b"", back),
    }


@WHO
async def test_2019_17572_a_name_is_no_path(tmp_path: Path, who: str) -> None:
    store = tmp_path / "deep" / "inside" / "store"
    async with broker_of(store, who, "Topic:* Pub,Create", "Group:* Sub,Create") as (attack, running):
        known = set(running.broker.topics.all()), set(running.broker.groups.all())
        for name in PATHS:
            for how, (code, body, fields) in requests_that_make_topics(name).items():
                answer = await attack(code, body, **fields)
                assert attack.is_stopped(answer) == (who == "nobody"), (name, how, answer.remark)
                # As in Java a heartbeat is answered, and nothing is made of such a group.
                assert how == "heartbeat" or answer.code != ResponseCode.SUCCESS, (name, how)
        assert (set(running.broker.topics.all()), set(running.broker.groups.all())) == known
    assert all(path.is_relative_to(store) for path in files_in(tmp_path))
    assert not [path for path in store.rglob("*") if "escaped" in path.name]


# --- 2023-33246 -------------------------------------------------------------------------------------------------------


@WHO
async def test_2023_33246_settings_of_a_broker_are_no_command(tmp_path: Path, who: str) -> None:
    proof = tmp_path / "ran"
    command = f"-c $@|sh . echo touch {proof};"
    store = tmp_path / "store"
    async with broker_of(store, who, "Cluster:* Get,List", "Topic:* All", "Group:* All") as (attack, _):
        for body in (
            f"filterServerNums=1\nrocketmqHome={command}\n",
            f"rocketmqHome={command}",
            "filterServerNums=1",
            f"brokerConfigPath={proof}",
            f"configBlackList=\nrocketmqHome={command}",
            f"storePathRootDir={proof}",
            f"fileReservedTime=72\nbrokerConfigPath={proof}",
            f"tls.server.keyPath={proof}",
            "authenticationEnabled=false",
            'initAuthenticationUser={"username":"mine","password":"mine"}',
            "authenticationWhitelist=25,26,3001",
            f"auditLogPath={proof}",
        ):
            answer = await attack(Code.UPDATE_BROKER_CONFIG, body.encode())
            assert answer.code != ResponseCode.SUCCESS, body
            assert attack.is_stopped(answer) == (who in ("nobody", NORMAL)), (body, answer.remark)
        # What only a super user, or nobody where nobody is asked, may do at all: a setting that is no path.
        allowed = await attack(Code.UPDATE_BROKER_CONFIG, b"fileReservedTime=71")
        assert (allowed.code == ResponseCode.SUCCESS) == (who in (SUPER, "nobody is asked"))
        assert not proof.exists()
    assert not [path for path in files_in(store) if str(proof).encode() in path.read_bytes()]


# --- 2023-37582 -------------------------------------------------------------------------------------------------------


@WHO
async def test_2023_37582_settings_of_a_name_server_say_not_where_it_writes(tmp_path: Path, who: str) -> None:
    proof = tmp_path / "elsewhere" / "crontab"
    proof.parent.mkdir()
    async with name_server_of(tmp_path / "names", who, "Cluster:* Get,List", "Topic:* All") as attack:
        for body in (
            f"configStorePath={proof}\nproductEnvName=* * * * * root touch /tmp/ran\\n",
            f"configStorePath={proof}",
            f"configStorePathName={proof}",
            f"kvConfigPath={proof}",
            f"configBlackList=\nconfigStorePath={proof}",
            f"rocketmqHome={proof}",
            f"productEnvName=x\nkvConfigPath={proof}",
            f"tls.server.keyPath={proof}",
            "authenticationEnabled=false",
            'innerClientAuthenticationCredentials={"accessKey":"mine","secretKey":"mine"}',
        ):
            answer = await attack(Code.UPDATE_NAMESRV_CONFIG, body.encode())
            assert answer.code != ResponseCode.SUCCESS, body
            assert attack.is_stopped(answer) == (who in ("nobody", NORMAL)), (body, answer.remark)
    assert list(proof.parent.iterdir()) == []
    assert not [path for path in files_in(tmp_path) if b"root touch" in path.read_bytes()]


# --- 2024-23321 -------------------------------------------------------------------------------------------------------

ALL_RIGHTS = ("Cluster:* All", "Topic:* All", "Group:* All")
SECRETS = (SECRET, INNER_SECRET, SECURED["access_secret"], "a user's own secret")
ASKED_ONLY = {Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER}  # would set a secret, and tell none


def text_of(answer: Command) -> bytes:
    return bytes(answer.body) + repr((answer.fields, answer.remark)).encode()


def question(row: AnyRow) -> Command:
    """A request that the row's handler takes: names of what is there stand for those that it needs."""
    command = request_of(row)
    if row.code in (Code.AUTH_GET_USER, Code.AUTH_LIST_USER):
        command.fields["username"] = SUPER
    if row.code == Code.AUTH_GET_ACL:
        command.fields["subject"] = f"User:{NORMAL}"
    assert all(name_of(need) for need in row.needs if need.name_in is NameIn.HEADER)
    return command


@pytest.mark.parametrize("who", ["nobody is asked", "nobody", NORMAL])
@pytest.mark.parametrize("server", ["broker", "name server"])
async def test_2024_23321_no_answer_tells_a_secret(tmp_path: Path, server: str, who: str) -> None:
    """A user who may do everything but is no super user asks for everything; so does a stranger."""

    async def ask_all(attack: Attack) -> None:
        shown = 0
        for row in ROWS.values():
            if row.code in ASKED_ONLY:
                continue
            command = question(row)
            answer = await attack(command.code, bytes(command.body), **command.fields)
            assert not told_in(text_of(answer), SECRETS), row.name
            assert attack.is_stopped(answer) == (who == "nobody"), (row.name, answer.remark)
            shown += answer.code == ResponseCode.SUCCESS
        assert (shown > 5) == (who != "nobody")

    if server == "name server":
        async with name_server_of(tmp_path, who, *ALL_RIGHTS) as attack:
            await ask_all(attack)
        return
    async with broker_of(tmp_path, who, *ALL_RIGHTS) as (attack, running):
        if who != "nobody is asked":
            running.broker.base.access.table.directory.create(User("another", ("a user's own secret",)))
        await ask_all(attack)


# --- forged reports of replicas ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["nobody is asked", SUPER])
@pytest.mark.parametrize("report", [1 << 62, 1 << 40, 1])
async def test_forged_reports_make_no_message_count_as_copied(tmp_path: Path, who: str, report: int) -> None:
    """The one who forges takes no bytes: what he says of them cannot be true, and a send goes on without him."""
    waits: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout": 60_000}
    async with broker_of(tmp_path, who, **waits) as (attack, running):
        listening = running.broker.listeners.ports.ha
        assert listening is not None
        host, _, port = listening.address.rpartition(":")
        code, body, fields = requests_that_make_topics("T")["send"]
        assert (await attack(code, body, **fields)).code == ResponseCode.SLAVE_NOT_AVAILABLE
        store, copies = running.broker.store, running.broker.copies
        end = store.commit_log.end
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode_report(end))  # as a slave that has everything begins
        await turns_until(lambda: not copies.standing.is_short)
        waiting = asyncio.create_task(attack(code, body, **fields))
        await store.appended.reached(end + 1)
        writer.write(encode_report(store.commit_log.end + report))
        assert (await waiting).code != ResponseCode.SUCCESS
        assert copies.standing.confirmed <= end
        await turns_until(lambda: copies.standing.is_short)
        await reader.read()  # to the end: he was hung up on
        writer.close()
        assert (await attack(code, body, **fields)).code == ResponseCode.SLAVE_NOT_AVAILABLE
