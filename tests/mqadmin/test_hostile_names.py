"""Every looking command of `mqadmin`, told by its servers what an attacker would have them tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.groups import GroupList
from pyromq.protocol.headers.pull import PullMessageAnswer
from pyromq.protocol.record import Record, encode_record
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply
from tests.hostile import ESCAPED, HOSTILE, check_harmless, hostile_names

from .conftest import Stage, call
from .golden import Block, blocks, chosen
from .stand_in import StandIn, standing_in

__all__ = ["hostile_names"]

LOOKING = chosen(
    """
    topicList topicRoute topicStatus topicClusterList clusterList consumerProgress consumerConnection consumerStatus
    producerConnection producer brokerConsumeStats haStatus queryMsgById queryMsgByKey queryMsgByUniqueKey
    queryMsgByOffset queryCq queryMsgTraceById printMsg printMsgByQueue consumeMessage allocateMQ statsAll
    getBrokerConfig getNamesrvConfig brokerStatus getConsumerConfig getColdDataFlowCtrInfo clusterList
    """,
    {"GoldenStatic": "static topics are not there yet"},
)
BY_APACHE = [block for name in ("listUser", "getUser", "listAcl", "getAcl") for block in blocks(name)]


@pytest.mark.parametrize("block", LOOKING, ids=lambda block: block.short)
def test_what_is_shown_is_harmless(
    recorded: Stage, block: Block, hostile_names: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    words = recorded.words(block)
    hostile_names |= {*words, "broker-a", "DefaultCluster"} | {f"%RETRY%{word}" for word in words}
    shown = call(*words)
    check_harmless(shown.out + shown.err)


def test_names_are_shown_escaped(recorded: Stage, hostile_names: set[str]) -> None:
    """The test above would be of little use if the names did not arrive."""
    for words in ("topicList", "clusterList", "statsAll", "getBrokerConfig -c DefaultCluster"):
        hostile_names |= {"DefaultCluster", "broker-a"} if "-c" in words or words == "statsAll" else set()
        shown = recorded.call(*words.split())
        check_harmless(shown.out + shown.err)
        assert ESCAPED in shown.out, words
    hostile_names |= {"%RETRY%GID_live", "broker-a"}
    shown = recorded.call("consumerConnection", "-g", "GID_live")
    assert ESCAPED in shown.out
    check_harmless(shown.out + shown.err)


@pytest.mark.parametrize("block", BY_APACHE, ids=lambda block: block.short)
def test_users_and_rules_of_apache_s_are_harmless(block: Block, hostile_names: set[str]) -> None:
    with standing_in(StandIn(None, *range(3001, 3011))) as apache:
        hostile_names |= {"broker-a", "DefaultCluster"}
        words = Stage(apache.address, apache.address).words(block)
        shown = call(*words)
    check_harmless(shown.out + shown.err)


def test_a_hostile_message_prints_no_escape_and_forges_no_line_but_in_its_body() -> None:
    name = HOSTILE.replace("\x00", "")
    properties = "".join(f"{key}\x01{name}\x02" for key in ("KEYS", "TAGS", "UNIQ_KEY", "region")).encode()
    record = encode_record(Record(topic="T", queue_id=0, body=b"x\x1b[2J\r\ny", properties=properties, queue_offset=0))
    limits = PullMessageAnswer(suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=1)
    answers = {
        RequestCode.PULL_MESSAGE: Reply(fields=limits.to_fields(), body=record),
        RequestCode.GET_MIN_OFFSET: Reply(fields={"offset": "0"}),
        RequestCode.GET_MAX_OFFSET: Reply(fields={"offset": "1"}),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Reply(body=encode_body(GroupList(group_list=[name]))),
    }
    with standing_in(StandIn(answers)) as server:
        for words in ("printMsg -t T", "queryMsgByOffset -t T -b broker-a -i 0 -o 0 -f UTF-8", "consumeMessage -t T"):
            shown = call(*words.split(), "-n", server.address)
            check_harmless(shown.out + shown.err)
            assert ESCAPED in shown.out, (words, shown.out, shown.err)
            assert "x\\x1b[2J\r\ny\n" in shown.out, words
