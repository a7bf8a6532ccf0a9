"""mqadmin 5.5.0 prints of our broker what it printed of Java's: our broker opens the very store that was recorded.

`tests/golden/store-clean.tar.gz` is the state, `tests/golden/mqadmin` what was printed then. Compared are lines, in
order where mqadmin has one, after addresses, times and rates were replaced. What live clients showed is compared by
`test_own_broker_mqadmin.py` with a Java broker of the same state beside ours.
"""

from __future__ import annotations

import re
import shlex
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from . import wire
from .conftest import is_known
from .peers import java, ours
from .waiting import eventually

pytestmark = pytest.mark.interop

GET_CONSUMER_CONNECTIONS = 203
GOLDEN = Path(__file__).parents[1] / "golden"
NAME_SERVER, BROKER = "127.0.0.1:19876", "127.0.0.1:20911"
# The sizes of the recorded store, and nothing that moves by itself while we look.
SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "mapperFileSizeBatchConsumeQueue": "46000",
    "mappedFileSizeTimerLog": "4096",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "traceTopicEnable": "true",
    "transactionCheckInterval": "3600000",
    "enabledAppendPropCRC": "false",
    "diskMaxUsedSpaceRatio": "95",
}
LIVE = "192.0.2.2@GID_live"  # the consumer that was there when it was recorded
REPLACED = {
    r"\d{4}-\d\d-\d\d[ -]\d\d[:-]\d\d[:-]\d\d([,.:]\d+)?": "TIME",
    r"\b1[789]\d{11}\b": "MS",
    r"(Topic Put TPS: ).*": r"\1RATE",
    r"(LIVE +)127\.0\.0\.1:\d+": r"\1PEER",
    r"(MasterCommitLogMaxOffset).*": r"\1 NUMBER",
    r"spentTimeMills=\d+": "spentTimeMills=MS",
    r"[ \t]+": " ",
    r" +$": "",
}
# What went on while it was recorded: a producer sent to GoldenRoll, mqadmin to GoldenPlain, transactions were checked.
MOVING = {
    r"(?m)^(broker-a 0 0) 25\d\d TIME": r"\1 N TIME",
    r"(GoldenRoll GID_\w+ broker-a 0) .*": r"\1 N",
    r"(GoldenPlain GID_\w+ broker-a \d) .*": r"\1 N",
    r"(RMQ_SYS_TRANS_\w+ CID_RMQ_SYS_TRANS broker-a 0) .*": r"\1 N",
    r"Diff Total: \d+": "Diff Total: N",
    r"max: \d+, min: 0": "max: N, min: 0",
    r"(?m)^(broker-a 0) 2[56]\d\d$": r"\1 N",
    r"update topic perm from [46] to": "update topic perm from OLD to",
    r"(?m)^broker-a \d SEND_OK .*": "broker-a QUEUE SEND_OK ID",
    r"rt=\d+ms": "rt=MS",
    r"msgId=\w+, offsetMsgId=\w+": "IDS",
    r"queueOffset=\d+, recall": "queueOffset=N, recall",
    r"(DefaultCluster broker-a 0 127.0.0.1:20911 V5_5_0) .*": r"\1 LOAD",
    r"(?m)^(DefaultCluster broker-a 0 0) \d+ \d+$": r"\1 N N",
    r"(?m)^%RETRY%GID_rawpop2_GoldenPop\n": "",  # what it had popped was given again when the store was opened
}


class Block(NamedTuple):
    """One recorded invocation."""

    command: str
    printed: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)


def _without_noise(printed: str) -> str:
    """Another command of the recording ran on in the background."""
    return re.sub(r"org.*CLusterSendMsgRTCommand command failed\nCaused by: .*sleep interrupted\n", "", printed)


def blocks(name: str) -> list[Block]:
    text = (GOLDEN / "mqadmin" / f"{name}.txt").read_text()
    parts = re.split(r"(?m)^mqadmin (.*)\n", text)[1:]
    return [Block(command, _without_noise(printed)) for command, printed in zip(parts[::2], parts[1::2], strict=True)]


class Recorded:
    """Our broker on the recorded store, a consumer of GID_live, and an mqadmin."""

    def __init__(self, admin: java.Admin, servers: str, broker: str, live: str) -> None:
        self._admin = admin
        self._own = {NAME_SERVER: servers, BROKER: broker, LIVE: live, place_of(BROKER): place_of(broker)}

    def run(self, block: Block) -> str:
        """Each address of the recording stands for our own, and the other way round in what is printed."""
        words = block.words
        if words[0] == "queryMsgByUniqueKey":
            words += ["-s", "1", "-e", "4102444800000"]  # by itself it looks for messages of the last 36 hours
        for recorded, own in self._own.items():
            words = [word.replace(recorded, own) for word in words]
        printed = self._admin.run(*words)
        for recorded, own in self._own.items():
            printed = printed.replace(own, recorded)
        return printed


def place_of(address: str) -> str:
    """How a message's place begins: the broker's address in hex."""
    host, _, port = address.partition(":")
    return (socket.inet_aton(host) + int(port).to_bytes(4, "big")).hex().upper()


def masked(printed: str) -> list[str]:
    printed = printed.replace(LIVE, "LIVE")
    for pattern, word in (REPLACED | MOVING).items():
        printed = re.sub(pattern, word, printed, flags=re.MULTILINE)
    return sorted(line for line in printed.splitlines() if line)


@pytest.fixture(scope="module")
def recorded(
    java_peers: None, admin: java.Admin, java_client: Callable[..., java.Client], home: Callable[[str], Path]
) -> Iterator[Recorded]:
    with ExitStack() as stack:
        place = home("recorded")
        with tarfile.open(GOLDEN / "store-clean.tar.gz") as archive:
            archive.extractall(place, filter="data")
        servers = ours.NameServer(home("recorded-namesrv"))
        stack.callback(servers.kill)
        broker = ours.Broker(place, [servers.address], SETTINGS, name="broker-a")
        stack.callback(broker.kill)
        eventually(lambda: is_known(servers.address, "broker-a"), "the broker has registered")
        client = java_client("5.5.0")
        live = stack.enter_context(
            client.consuming("push", servers.address, "GoldenRoll", "GID_live", tags="TagA || TagB")
        )
        eventually(lambda: len(live.bodies()) >= 1667, "the consumer has what it wants of GoldenRoll")
        yield Recorded(admin, servers.address, broker.address, client_id(broker.address, "GID_live"))


def client_id(broker: str, group: str) -> str:
    answer = wire.ask(broker, GET_CONSUMER_CONNECTIONS, {"consumerGroup": group})
    (one,) = wire.json_with_bare_keys(answer.body)["connectionSet"]
    return str(one["clientId"])


def chosen(names: str, leave_out: Mapping[str, str]) -> list[Block]:
    """All recorded invocations of commands but those with one of these texts, for the reason beside it."""
    found = [block for name in names.split() for block in blocks(name)]
    for text in leave_out:
        assert any(text in block.command for block in found), f"{text} is in no recording"
    # A command without options ends mqadmin, and nothing was asked of the broker.
    return [block for block in found if "-" in block.command and not any(text in block.command for text in leave_out)]


READING = chosen(
    """
    topicList topicRoute topicStatus topicClusterList clusterList allocateMQ consumerProgress consumerConnection
    consumerStatus producerConnection brokerConsumeStats haStatus getBrokerEpoch queryMsgById queryMsgByKey
    queryMsgByUniqueKey queryMsgByOffset queryCq queryMsgTraceById printMsg printMsgByQueue consumeMessage
    exportConfigs exportMetadata
    """,
    {
        "queryCq -n 127.0.0.1:19876 -t GoldenRoll -q 0 -i 0 -c 3 -g": "ours says what its tags make of an entry",
        "consumerProgress": "other groups were online: compared with a Java broker beside ours",
        "GoldenStatic": "static topics are not there yet",
        "-d 192.0.2.2@GID_live": "mqadmin asks the address in the message, which was the recorded broker's",
        "consumerStatus -n 127.0.0.1:19876 -g GID_live -i": "tells of the client's JVM",
        "producerConnection -n 127.0.0.1:19876 -g PID_live": "compared with a Java broker beside ours",
    },
)


@pytest.mark.parametrize("block", READING, ids=lambda block: block.command.replace(f" -n {NAME_SERVER}", "")[:60])
def test_what_is_shown(recorded: Recorded, block: Block) -> None:
    assert masked(recorded.run(block)) == masked(block.printed)


# In the order of the recording where one depends on another: useServerSideResetOffset was switched off between resets.
RESETS = blocks("resetOffsetByTime")
CHANGING = [
    *chosen(
        "updateTopic updateTopicPerm deleteTopic updateSubGroup getConsumerConfig deleteSubGroup cloneGroupOffset",
        {
            "-t NoTarget": "ends mqadmin, which asks nothing of the broker",
            "message.type=MIXED": "our remark says in addition how to allow it",
            "'bad name'": "our remark is in other words",
            "TBW102": "our remark says in addition why",
            "updateTopicPerm -n 127.0.0.1:19876 -b": "the topic has another permission in the store",
        },
    ),
    *RESETS[:5],
    *chosen("updateBrokerConfig", {"brokerConfigPath": "our remark is in other words", "noSuchKey": "refused by ours"}),
    *RESETS[5:],
    *chosen(
        """
        skipAccumulatedMessage updateColdDataFlowCtrGroupConfig getColdDataFlowCtrInfo removeColdDataFlowCtrGroupConfig
        updateOrderConf cleanExpiredCQ cleanUnusedTopic deleteExpiredCommitLog sendMessage sendMsgStatus
        """,
        {"getColdDataFlowCtrInfo -n 127.0.0.1:19876 -b": "recorded before the group had a limit"},
    ),
]


@pytest.mark.parametrize("block", CHANGING, ids=lambda block: block.command.replace(f" -n {NAME_SERVER}", "")[:60])
def test_what_is_changed(recorded: Recorded, block: Block) -> None:
    """In this order: some depend on those before."""
    assert masked(recorded.run(block)) == masked(block.printed)
