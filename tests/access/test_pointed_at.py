"""Messages that a request points at by their place count as ones of their topic, whatever else the request names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.access.signatures import Signer
from pyromq.model.ids import offset_message_id
from pyromq.model.names import HALF_TOPIC
from pyromq.protocol.access import NameIn
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import DISABLED, NORMAL, ON, SECRET, SUPER, is_refused, make_users, signed
from tests.broker.running import Running, running_broker
from tests.broker.virtual import virtual_broker

OWN, OTHERS = "own", "others"  # topics: of the user, and the one that the message is of


class Pointing(NamedTuple):
    """How a request points at a message, and what one must be allowed for it: on the message, and besides."""

    fields: Callable[[Record], dict[str, Any]]
    action: str
    besides: tuple[str, ...] = ()
    is_half: bool = False


def message_id(record: Record) -> str:
    return offset_message_id(record.store_host, record.physical_offset)


WAYS = {
    Code.VIEW_MESSAGE_BY_ID: Pointing(lambda record: {"offset": str(record.physical_offset)}, "Get"),
    Code.CONSUMER_SEND_MSG_BACK: Pointing(
        lambda record: {
            "offset": str(record.physical_offset),
            "group": "G",
            "delayLevel": "1",
            "originTopic": OWN,
            "originMsgId": message_id(record),
        },
        "Sub",
        ("Group:G Sub",),
    ),
    Code.END_TRANSACTION: Pointing(
        lambda record: {
            "producerGroup": "P",
            "tranStateTableOffset": str(record.queue_offset),
            "commitLogOffset": str(record.physical_offset),
            "commitOrRollback": "8",
            "msgId": "unique",
            "topic": OWN,
        },
        "Pub",
        is_half=True,
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: Pointing(
        lambda record: {"msgId": message_id(record), "topic": OWN}, "Update", is_half=True
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: Pointing(
        lambda record: {
            "consumerGroup": "G",
            "clientId": "c",
            "msgId": message_id(record),
            "brokerName": "broker-a",
            "topic": OWN,
        },
        "Sub",
        (f"Topic:{OWN} Sub", "Group:G Sub"),
    ),
}
KINDS: dict[str, tuple[dict[str, str], str]] = {  # properties of a message, and whose it is
    "a message": ({}, f"Topic:{OTHERS}"),
    "a delayed one": ({"DELAY": "18"}, f"Topic:{OTHERS}"),
    "a timed one": ({"TIMER_DELAY_SEC": "3000"}, f"Topic:{OTHERS}"),
    "a retry of a group": ({}, "Group:theirs"),
}


def test_no_row_is_left_out() -> None:
    by_message = {row.code for row in ROWS.values() if any(need.name_in is NameIn.MESSAGE for need in row.needs)}
    assert by_message <= WAYS.keys()


def allow(directory: Directory, *rules: str) -> None:
    if NORMAL in directory.policies:
        directory.remove(NORMAL)
    entries = [
        PolicyEntryInfo(resource=resource, actions=[action], decision="Allow")
        for resource, action in (rule.split() for rule in rules)
    ]
    directory.put(NORMAL, policies_of(AclInfo(policies=[PolicyInfo(entries=entries)])))


async def ask(running: Running, code: int, who: str, body: bytes = b"", secret: str = SECRET, **fields: str) -> Command:
    command = Command(code=code, fields=fields, body=body)
    return await running.client.call(running.address, signed(command, who, secret) if who else command, 20)


async def stored(running: Running, topic: str, properties: dict[str, str], is_half: bool) -> Record:
    """A new message of somebody else."""
    if is_half:
        properties = properties | {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "unique"}
    fields = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "4" if is_half else "0", "bornTimestamp": "1700000000000", "flag": "0"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    place = running.broker.store.commit_log.end
    answer = await ask(running, Code.SEND_MESSAGE, SUPER, b"theirs", properties=text, **fields)
    assert answer.code == 0, answer.remark
    record = running.broker.store.reader.record_at(place)
    assert record is not None
    assert (record.topic == HALF_TOPIC) == is_half
    return record


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", WAYS)
async def test_only_who_may_have_the_message_points_at_it(tmp_path: Path, code: int, kind: str) -> None:
    way, (properties, whose) = WAYS[code], KINDS[kind]
    if way.is_half and kind != "a message":
        return  # half messages are of one kind
    topic = "%RETRY%theirs" if whose.startswith("Group:") else OTHERS
    action = "Sub" if whose.startswith("Group:") and way.action == "Pub" else way.action
    right = f"{whose} {action}"
    async with running_broker(tmp_path, timer_wheel_enable=True, **ON) as running:
        directory = running.broker.base.access.table.directory
        make_users(directory)
        for body in ({"groupName": "theirs"}, {"groupName": "G"}):
            await ask(running, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, SUPER, repr(body).replace("'", '"').encode())

        async def pointed(who: str, *rules: str, secret: str = SECRET) -> Command:
            allow(directory, *(rules or ("Topic:nothing Get",)))
            record = await stored(running, topic, properties, way.is_half)
            return await ask(running, code, who, secret=secret, **way.fields(record))

        mine = (f"Topic:{OWN} All", "Group:own All", *way.besides)
        refused = {
            "nobody": await pointed(""),
            "wrong secret": await pointed(SUPER, secret="guessed"),
            "disabled": await pointed(DISABLED),
            "no rights": await pointed(NORMAL),
            "rights on what else it names": await pointed(NORMAL, *mine),
            "another action": await pointed(NORMAL, *mine, f"{whose} Delete"),
        }
        assert {kind: answer.remark for kind, answer in refused.items() if not is_refused(answer)} == {}
        assert all(b"theirs" not in bytes(answer.body) for answer in refused.values())
        for missing in way.besides:
            rest = [rule for rule in (*way.besides, right) if rule != missing]
            assert is_refused(await pointed(NORMAL, *rest)), missing
        for answer in (await pointed(NORMAL, *mine, right), await pointed(SUPER)):
            assert not is_refused(answer), answer.remark


# --- what a broker sends by itself ------------------------------------------------------------------------------------


async def test_half_messages_are_shown_to_producers_who_may_send_them(tmp_path: Path) -> None:
    """Anybody may say that he is of a producer group, and would be asked about its transactions."""
    async with virtual_broker(tmp_path, **ON) as life:
        directory = life.broker.base.access.table.directory
        make_users(directory)
        life.sign = Signer(SUPER, SECRET).sign
        pairs = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "unique"}
        born = life.clock.now_ms()
        assert (await life.send(OTHERS, b"theirs", properties=pairs, sysFlag=4, bornTimestamp=born)).code == 0
        life.sign = Signer(NORMAL, SECRET).sign

        async def asked() -> int:
            body = b'{"clientID":"spy","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[]}'
            assert (await life.call(Code.HEART_BEAT, body)).code == 0
            life.peer.sent.clear()
            await life.advance(100)
            return len([one for one in life.peer.sent if one.code == Code.CHECK_TRANSACTION_STATE])

        assert await asked() == 0
        allow(directory, f"Topic:{OWN} Pub", f"Topic:{OTHERS} Get")
        assert await asked() == 0
        allow(directory, f"Topic:{OTHERS} Pub")
        assert await asked() > 0
        allow(directory, f"Topic:{OWN} Pub")
        life.peer.sent.clear()
        await life.advance(60)  # with no heartbeat between: what he may counts as it is now
        assert not [one for one in life.peer.sent if one.code == Code.CHECK_TRANSACTION_STATE]


async def test_what_is_passed_on_to_a_client_has_no_signature(tmp_path: Path) -> None:
    """He who is asked could send the request once more, as the one who signed it."""
    async with running_broker(tmp_path, **ON) as running:
        command = Command(
            code=Code.HEART_BEAT,
            body=b'{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"G","subscriptionDataSet":[],'
            b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
            b'"unitMode":false}]}',
        )
        assert (await running.client.call(running.address, signed(command, SUPER), 20)).code == 0
        record = await stored(running, OTHERS, {}, is_half=False)
        fields = WAYS[Code.CONSUME_MESSAGE_DIRECTLY].fields(record)
        for code in (Code.CONSUME_MESSAGE_DIRECTLY, Code.GET_CONSUMER_RUNNING_INFO):
            assert (await ask(running, code, SUPER, **fields)).code == 0
        assert [one.code for one in running.received if one.code != Code.NOTIFY_CONSUMER_IDS_CHANGED] == [309, 307]
        assert not [one for one in running.received if one.fields.keys() & {"AccessKey", "Signature"}]
