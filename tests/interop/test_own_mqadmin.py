"""Our mqadmin drives Apache's broker 5.5.0, and prints of Java's name server and broker what Java's mqadmin prints.

The broker has the store of the recording, so that recorded invocations can be put to both tools. What changes the
cluster is done by ours alone and looked at by Java's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.mqadmin.conftest import SETTINGS, Stage, call
from tests.mqadmin.golden import TIMES, Block, blocks, chosen, masked
from tests.support import golden_store

from . import wire
from .conftest import registered
from .peers import java
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # a Java broker: make interop

AUTH = "org.apache.rocketmq.auth.{0}.provider.Local{1}MetadataProvider"
OF_APACHE = {
    key: value for key, value in SETTINGS.items() if key not in ("enabledAppendPropCRC", "traceTopicEnable")
} | {
    "traceTopicEnable": "true",
    "timerWheelEnable": "true",
    "authenticationMetadataProvider": AUTH.format("authentication", "Authentication"),
    "authorizationMetadataProvider": AUTH.format("authorization", "Authorization"),
}
MOVING = {
    r"(Topic Put TPS: |Consume TPS: ).*": r"\1RATE",
    r"(DefaultCluster +broker-a +0 +\S+ +V5_5_0) .*": r"\1 LOAD",
    r"(MasterCommitLogMaxOffset).*": r"\1 NUMBER",
    r"( BROKER: \S+|(?<=controllerMode) )$": "",
    r"\](MessageTrack)": r"]\n\1",
}


class Both:
    """The same invocation by Java's tool and by ours, on the same cluster."""

    def __init__(self, admin: java.Admin, stage: Stage) -> None:
        self.admin = admin
        self.stage = stage

    def java(self, *words: str) -> str:
        return _ours(self.admin.run(words[0], "-n", self.stage.servers, *words[1:]))

    def repeat(self, block: Block) -> tuple[list[str], list[str]]:
        ours = self.stage.repeat(block).all
        java_s = self.stage.as_recorded(_ours(self.admin.run(*self.stage.words(block))))
        return masked(ours, TIMES, MOVING), masked(java_s, TIMES, MOVING)


def _ours(printed: str) -> str:
    """Failures in our shape: one line with the cause."""
    printed = re.sub(r"(?m)^org\.\S+SubCommandException: \w+ command failed\n", "", printed)
    printed = re.sub(r"(?m)^(Caused by: )?(org|java)\.\S+Exception: ", "Caused by: ", printed)
    return re.sub(r"(?m)^(For more information, please visit|See https://rocketmq).*\n?", "", printed)


@pytest.fixture(scope="module")
def apache(java_peers: None, admin: java.Admin, home: Callable[[str], Path]) -> Iterator[Both]:
    with ExitStack() as stack:
        servers = java.NameServer("5.5.0", home("apache-namesrv"))
        stack.callback(servers.kill)
        place = home("apache")
        golden_store(place)
        broker = java.Broker("5.5.0", place, [servers.address], OF_APACHE)
        stack.callback(broker.kill)
        registered(servers.address, broker)
        yield Both(admin, Stage(servers.address, broker.address))


READING = chosen(
    """
    topicList topicRoute topicStatus topicClusterList clusterList consumerProgress consumerConnection
    producerConnection brokerConsumeStats haStatus getBrokerEpoch queryMsgById queryMsgByKey queryMsgByUniqueKey
    queryMsgByOffset queryCq queryMsgTraceById printMsg printMsgByQueue getConsumerConfig getColdDataFlowCtrInfo
    getBrokerLiteInfo statsAll getNamesrvConfig
    """,
    {
        "GoldenStatic": "not in the store",
        "GID_live": "nobody is online",
        "PID_live": "nobody is online",
        "queryMsgById -n 127.0.0.1:19876 -i 7F000001000051AF00000000000FE160": "nobody is online",
    },
)


@pytest.mark.parametrize("block", READING, ids=lambda block: block.short)
def test_both_show_the_same(apache: Both, block: Block) -> None:
    ours, java_s = apache.repeat(block)
    assert ours == java_s


# In this order; the recorded text is what must be printed, as on the broker of the recording.
CHANGING = chosen(
    """
    createUser updateUser listUser getUser copyUser createAcl updateAcl listAcl getAcl copyAcl deleteAcl deleteUser
    updateTopicPerm updateColdDataFlowCtrGroupConfig removeColdDataFlowCtrGroupConfig setCommitLogReadAheadMode
    setConsumeMode updateOrderConf updateKvConfig deleteKvConfig updateNamesrvConfig cleanExpiredCQ cleanUnusedTopic
    deleteExpiredCommitLog switchTimerEngine resetMasterFlushOffset rocksDBConfigToJson
    """,
    {"updateTopicPerm -n 127.0.0.1:19876 -b": "the topic has another permission in the store"},
)
LOOSE = {r"update topic perm from [46] to": "update topic perm from OLD to"}


@pytest.mark.parametrize("block", CHANGING, ids=lambda block: block.short)
def test_what_is_changed(apache: Both, block: Block) -> None:
    shown = apache.stage.repeat(block)
    assert masked(shown.all, TIMES, MOVING, LOOSE) == masked(block.printed, TIMES, MOVING, LOOSE)


# What prints figures of the moment, writes files or sends: each with what it must say. In this order.
OTHERS = {
    "updateTopicList -c DefaultCluster -f FOLDER/topics.json": "submit batch of topic config to .* success",
    "updateSubGroupList -c DefaultCluster -f FOLDER/groups.json": "submit batch of subscription group config",
    "cloneGroupOffset -s GID_pull -d GID_listed -t GoldenRoll -o true": "clone group offset success",
    "deleteSubGroup -c DefaultCluster -g GID_listed": r"delete subscription group \[GID_listed\] from broker",
    "brokerStatus -b BROKER": r"(?m)^commitLogMaxOffset +: +\d+$",
    "sendMsgStatus -b broker-a -s 16 -c 2": "rt=.*SEND_OK",
    "allocateMQ -t GoldenPlain -i 10.0.0.1,10.0.0.2": '{"result":{"10.0.0.1":.{"brokerName":"broker-a",',
    "producer -b BROKER": "",
    "wipeWritePerm -b broker-a": "wipe write perm of broker\\[broker-a\\] in name server.* OK",
    "addWritePerm -b broker-a": "add write perm of broker\\[broker-a\\] in name server.* OK",
    "checkMsgSendRT -t GoldenPlain -a 3 -s 64": "Avg RT: ",
    "consumeMessage -t GoldenBatch -c 3": "Consume ok",
    "exportMetadata -c DefaultCluster -f FOLDER": "export .*metadata.json success",
    "exportConfigs -c DefaultCluster -f FOLDER": "export .*configs.json success",
    "exportMetrics -c DefaultCluster -f FOLDER": "export .*metrics.json success",
    "exportPopRecord -b BROKER -d true": "Export broker records, brokerName=broker-a",
    "checkRocksdbCqWriteProgress -c DefaultCluster": "broker-a check",
}


@pytest.fixture(scope="module")
def folder(home: Callable[[str], Path]) -> Path:
    made = home("others")
    (made / "topics.json").write_text('[{"topicName":"Listed","readQueueNums":2,"writeQueueNums":2}]')
    (made / "groups.json").write_text('[{"groupName":"GID_listed"}]')
    return made


@pytest.mark.parametrize("line", OTHERS)
def test_the_others_are_served_by_apache_s_broker_too(apache: Both, folder: Path, line: str) -> None:
    words = line.replace("FOLDER", str(folder)).replace("BROKER", apache.stage.broker).split()
    shown = apache.stage.call(*words)
    assert shown.code == 0, shown.err
    assert re.search(OTHERS[line], shown.out), shown.out


def test_topics_and_groups_made_by_ours_are_seen_by_java_s(apache: Both) -> None:
    for line in (
        "updateTopic -c DefaultCluster -t FIFOTopic -o true -a +message.type=FIFO -r 2 -w 2",
        "updateSubGroup -c DefaultCluster -g FIFOGroup -o true -r 3",
    ):
        assert apache.stage.call(*line.split()).code == 0
    assert "FIFOTopic\n" in apache.java("topicList")
    assert "retryMaxTimes                           =  3\n" in apache.java("getConsumerConfig", "-g", "FIFOGroup")
    assert "orderConf=[broker-a:2]" in apache.java("updateOrderConf", "-t", "FIFOTopic", "-m", "get")
    assert apache.stage.call("deleteTopic", "-c", "DefaultCluster", "-t", "FIFOTopic").code == 0
    assert "FIFOTopic\n" not in apache.java("topicList")


def test_a_message_sent_by_ours_is_found_by_java_s(apache: Both) -> None:
    sent = apache.stage.call("sendMessage", "-t", "GoldenPlain", "-p", "from python", "-k", "py-key", "-c", "TagPy")
    assert sent.code == 0, sent.err
    (message_id,) = re.findall(r"SEND_OK +(\w+)", sent.out)
    shown = apache.java("queryMsgByKey", "-t", "GoldenPlain", "-k", "py-key")
    assert message_id in shown
    ours = apache.stage.call("queryMsgByKey", "-t", "GoldenPlain", "-k", "py-key")
    assert masked(ours.out) == masked(shown)


def test_offsets_are_reset_on_a_group_that_is_offline(apache: Both) -> None:
    for block in blocks("resetOffsetByTime"):
        if "GID_pull" in block.words:
            assert masked(apache.stage.repeat(block).all, TIMES) == masked(block.printed, TIMES)
    assert " 77 " in apache.java("consumerProgress", "-g", "GID_pull")
    skipped = apache.stage.call("skipAccumulatedMessage", "-g", "GID_pull", "-t", "GoldenRoll")
    assert skipped.code == 0, skipped.err
    assert "Consume Diff Total: 0\n" in apache.java("consumerProgress", "-g", "GID_pull", "-t", "GoldenRoll")


def test_settings_change_on_the_running_broker(apache: Both) -> None:
    shown = call(
        "updateBrokerConfig",
        "-n",
        apache.stage.servers,
        "-b",
        apache.stage.broker,
        "-k",
        "fileReservedTime",
        "-v",
        "71",
    )
    assert shown.out == f"update broker config success, {apache.stage.broker}\n"
    assert re.search(r"(?m)^fileReservedTime +=  71$", apache.java("getBrokerConfig", "-b", apache.stage.broker))


def test_a_static_topic_made_by_ours_is_one_for_java_s(
    brokers: dict[str, java.Broker], java_name_server: java.NameServer, admin: java.Admin
) -> None:
    servers = java_name_server.address

    def queues() -> dict[str, set[str]]:
        printed = admin.run("topicRoute", "-n", servers, "-t", "OwnStatic")
        mappings = wire.json_with_bare_keys(printed.encode()).get("topicQueueMappingByBroker", {})
        return {name: set(of["currIdMap"]) for name, of in mappings.items()}

    def ours(*words: str) -> None:
        shown = call(words[0], "-n", servers, "-t", "OwnStatic", *words[1:])
        assert shown.code == 0, shown.err

    ours("updateStaticTopic", "-b", "broker-a", "-qn", "4")
    eventually(lambda: queues().get("broker-a") == {"0", "1", "2", "3"}, "all queues are on one broker")
    ours("remappingStaticTopic", "-b", "broker-a,broker-b")
    eventually(lambda: sorted(map(len, queues().values())) == [2, 2], "two queues are moved")
    ours("remappingStaticTopic", "-b", "broker-b")
    eventually(lambda: queues().get("broker-b") == {"0", "1", "2", "3"}, "all queues are on the other")
    printed = admin.run("remappingStaticTopic", "-n", servers, "-t", "OwnStatic", "-b", "broker-a")  # checks all of it
    assert "Exception" not in printed, printed
    eventually(lambda: queues().get("broker-a") == {"0", "1", "2", "3"}, "Java's tool goes on from ours")
