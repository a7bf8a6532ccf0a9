"""Lines of RocketMQ's own documentation, verbatim but for the name server's address, against `pyromq up`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pyromq import sync
from pyromq.client.received import Received
from pyromq.client.subscription import Filter
from pyromq.model.group import ConsumeFromWhere
from tests.interop.waiting import eventually

from .conftest import Stage, call


def run(stage: Stage, line: str) -> str:
    """What it printed; it must have worked. `NS` and `BROKER` are the addresses."""
    addresses = {"NS": stage.servers, "BROKER": stage.broker}
    words = [addresses.get(word, word) for word in line.split()]
    assert words[0] == "mqadmin"
    shown = call(*words[1:])
    assert shown.code == 0, shown.err + shown.out
    return shown.out


def test_topics_of_each_message_type(up: Stage) -> None:
    for name, kind in [("NormalTopic", "NORMAL"), ("DelayTopic", "DELAY"), ("TransactionTopic", "TRANSACTION")]:
        out = run(up, f"mqadmin updateTopic -n NS -t {name} -c DefaultCluster -a +message.type={kind}")
        assert out == (
            f"create topic to {up.broker} success.\n"
            f"TopicConfig [topicName={name}, readQueueNums=8, writeQueueNums=8, perm=RW-, topicFilterType=SINGLE_TAG, "
            f"topicSysFlag=0, order=false, attributes={{+message.type={kind}}}]\n"
        )


def test_fifo_topic_and_group(up: Stage) -> None:
    out = run(up, "mqadmin updateTopic -n NS -c DefaultCluster -t FIFOTopic -o true -a +message.type=FIFO")
    assert "set cluster orderConf. isOrder=true, orderConf=[broker-a:8]\n" in out
    assert "attributes={+message.type=FIFO}]\n" in out
    assert run(up, "mqadmin updateOrderConf -n NS -t FIFOTopic -m get").endswith("orderConf=[broker-a:8] \n")
    out = run(up, "mqadmin updateSubGroup -c DefaultCluster -n NS -g FIFOGroup -o true")
    assert out.startswith(f"create subscription group to {up.broker} success.\nSubscriptionGroupConfig{{groupName=FIFO")
    assert "consumeMessageOrderly                   =  true\n" in run(
        up, "mqadmin getConsumerConfig -n NS -g FIFOGroup"
    )


def test_the_lines_that_our_page_opens_with_run_in_their_order(up: Stage) -> None:
    opening = (Path(__file__).parents[2] / "docs" / "mqadmin.md").read_text("utf-8").split("```")[1]
    *lines, last = re.findall(r"^mqadmin (\w+ -.*?)(?:  .*)?$", opening, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        eventually(lambda line=line: up.call(*line.split()).code == 0, line)  # type: ignore[misc]
    assert "CODE: 17  DESC: No topic route info" in up.call(*last.split()).err  # as the page says: nobody consumed yet


def test_a_compaction_topic_is_refused_by_name(up: Stage) -> None:
    asked = ["-a", "+cleanup.policy=COMPACTION", "-o", "true"]
    made = up.call("updateTopic", "-c", "DefaultCluster", "-t", "ctopic", *asked)
    assert (made.code, "cleanup.policy=COMPACTION is refused: nothing is compacted yet" in made.err) == (1, True)
    assert up.call("topicRoute", "-t", "ctopic").code == 1
    assert "orderConf" not in up.call("updateOrderConf", "-t", "ctopic", "-m", "get").out


def test_a_lite_topic_is_refused_by_name(up: Stage) -> None:
    made = up.call("updateTopic", "-c", "DefaultCluster", "-t", "ltopic", "-a", "+message.type=LITE")
    assert (made.code, "message.type=LITE is refused: lite topics are not there yet" in made.err) == (1, True)
    assert up.call("topicRoute", "-t", "ltopic").code == 1


def test_one_broker_s_part_of_an_order_and_of_a_permission(up: Stage) -> None:
    run(up, "mqadmin updateOrderConf -n NS -t PartTopic -m put -v broker-b:3")
    out = run(up, "mqadmin updateTopic -n NS -b BROKER -t PartTopic -o true -r 2 -w 2")
    assert out.startswith("set broker orderConf. isOrder=true, orderConf=[broker-a:2]\n")
    assert "orderConf=[broker-b:3;broker-a:2]" in run(up, "mqadmin updateOrderConf -n NS -t PartTopic -m get")
    same = "mqadmin updateTopicPerm -n NS -b BROKER -t PartTopic -p 6"
    eventually(lambda: up.call("topicRoute", "-t", "PartTopic").code == 0, "the name server knows it")
    assert run(up, same) == "new perm equals to the old one!\n"
    changed = run(up, "mqadmin updateTopicPerm -n NS -b BROKER -t PartTopic -p 4").splitlines()
    assert changed[0] == f"update topic perm from 6 to 4 in {up.broker} success."
    assert changed[1].startswith("TopicConfig [topicName=PartTopic, readQueueNums=2, writeQueueNums=2, perm=R--,")
    wrong = up.call("updateTopicPerm", "-b", "127.0.0.1:1", "-t", "PartTopic", "-p", "6")
    assert (wrong.code, "broker is not master" in wrong.err) == (1, True)


def test_who_has_consumed_a_message(up: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(up, "mqadmin updateTopic -n NS -c DefaultCluster -t TrackTopic -r 1 -w 1")
    for tag in ("TagA", "TagB"):
        run(up, f"mqadmin sendMessage -n NS -t TrackTopic -p x -c {tag}")

    def tracks() -> list[str]:
        query = "mqadmin queryMsgByOffset -n NS -t TrackTopic -b broker-a -i 0 -o"
        shown = "".join(run(up, f"{query} {offset}") for offset in (0, 1))
        return re.findall(r"consumerGroup=TrackGroup, trackType=(\w+), exceptionDesc=null", shown)

    options: dict[str, Any] = {"commit_s": 0.1, "begin": ConsumeFromWhere.FIRST_OFFSET, "group": "TrackGroup"}
    wanted = Filter(tags=frozenset(("TagA",)))
    with (
        sync.connect(up.servers) as client,
        client.push_consumer("TrackTopic", _handle, filter=wanted, **options),
    ):
        eventually(lambda: tracks() == ["CONSUMED", "CONSUMED_BUT_FILTERED"], "the group has passed both")


def test_a_message_from_its_sending_to_its_topic_s_end(
    up: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(up, "mqadmin updateTopic -n NS -b BROKER -t TopicTest -r 1 -w 1")
    sent = run(up, "mqadmin sendMessage -n NS -t TopicTest -p hello -k key1 -c TagA")
    (message_id,) = re.findall(r"SEND_OK +(\w+)", sent)
    for line in ("queryMsgByKey -k key1", f"queryMsgByUniqueKey -i {message_id}", f"queryMsgById -i {message_id}"):
        assert message_id in run(up, f"mqadmin {line.replace(' ', ' -n NS -t TopicTest ', 1)}")
    shown = run(up, "mqadmin queryMsgByOffset -n NS -t TopicTest -b broker-a -i 0 -o 0 -f UTF-8")
    assert re.search(r"(?m)^Message Body: +hello$", shown)
    assert (tmp_path / "rocketmq" / "msgbodys" / message_id).read_bytes() == b"hello"
    offset_id = re.findall(r"OffsetID: +(\w+)", shown)[0]
    assert message_id in run(up, f"mqadmin queryMsgById -n NS -t TopicTest -i {offset_id}")
    assert message_id in run(up, "mqadmin printMsg -n NS -t TopicTest")
    assert message_id in run(up, "mqadmin printMsgByQueue -n NS -t TopicTest -a broker-a -i 0 -p true -d true")
    assert message_id in run(up, "mqadmin consumeMessage -n NS -t TopicTest")
    assert run(up, "mqadmin topicStatus -n NS -t TopicTest").splitlines()[1].split()[:4] == ["broker-a", "0", "0", "1"]
    assert run(up, "mqadmin topicClusterList -n NS -t TopicTest") == "DefaultCluster\n"
    assert "TopicTest\n" in run(up, "mqadmin topicList -n NS")
    again = run(up, f"mqadmin queryMsgById -n NS -t TopicTest -i {message_id} -s true")
    assert again.startswith(f"prepare resend msg. originalMsgId={message_id}SendResult [sendStatus=SEND_OK, msgId=")
    assert run(up, "mqadmin queryMsgByKey -n NS -t TopicTest -k key1").count("@TopicTest@K@key1@") == 2
    run(up, "mqadmin deleteTopic -n NS -c DefaultCluster -t TopicTest")
    assert "TopicTest\n" not in run(up, "mqadmin topicList -n NS")


def _handle(message: Received) -> None:
    """Good."""


def test_a_group_online_and_reset_to_a_time(up: Stage) -> None:
    run(up, "mqadmin updateTopic -n NS -c DefaultCluster -t ResetTopic -r 1 -w 1")
    for number in range(3):
        run(up, f"mqadmin sendMessage -n NS -t ResetTopic -p {number}")
    run(up, "mqadmin updateSubGroup -n NS -c DefaultCluster -g ResetGroup")
    progress = "mqadmin consumerProgress -n NS -g ResetGroup -t ResetTopic"
    with sync.connect(up.servers) as client:
        options: dict[str, Any] = {"commit_s": 0.1, "begin": ConsumeFromWhere.FIRST_OFFSET}
        with client.push_consumer("ResetTopic", _handle, group="ResetGroup", **options):
            done = r"ResetTopic .*\n\nConsume TPS: .*\nConsume Diff Total: 0\n"
            eventually(lambda: re.search(done, up.call("consumerProgress", "-g", "ResetGroup").out), "all are done")
            status = run(up, f"mqadmin consumerStatus -n NS -g ResetGroup -i {client.client_id}")
            for title in ("Properties", "Subscription", "Offset", "MQ Detail", "Pop Detail", "RT&TPS"):
                assert f"#Consumer {title}#\n" in status
            assert re.search(r"(?m)^001 Topic: \S+ +ClassFilter: false +SubExpression: \*$", status)
            overview = run(up, "mqadmin consumerProgress -n NS")
            assert re.search(r"(?m)^ResetGroup +1 +V5_5_0 +PUSH +CLUSTERING +\d+ +0$", overview)
    out = run(up, "mqadmin resetOffsetByTime -n NS -g ResetGroup -t ResetTopic -s 0")
    assert out.splitlines()[2].split() == ["broker-a", "0", "0"]
    assert "Consume Diff Total: 3\n" in run(up, progress)
    run(up, "mqadmin skipAccumulatedMessage -n NS -g ResetGroup -t ResetTopic")
    assert "Consume Diff Total: 0\n" in run(up, progress)
    run(up, "mqadmin updateSubGroup -n NS -c DefaultCluster -g CloneGroup")
    run(up, "mqadmin cloneGroupOffset -n NS -s ResetGroup -d CloneGroup -t ResetTopic -o true")
    assert "Consume Diff Total: 0\n" in run(up, progress.replace("ResetGroup", "CloneGroup"))
    run(up, "mqadmin deleteSubGroup -n NS -c DefaultCluster -g ResetGroup -r true")


def test_the_cluster_at_a_glance(up: Stage) -> None:
    line = run(up, "mqadmin clusterList -n NS").splitlines()[1].split()
    assert line[:5] == ["DefaultCluster", "broker-a", "0", up.broker, "V5_5_0"]
    assert "brokerActive                    : true\n" in run(up, "mqadmin brokerStatus -n NS -b BROKER")
    assert f"{up.broker:<24} brokerActive" in run(up, "mqadmin brokerStatus -n NS -c DefaultCluster")
    assert run(up, "mqadmin getBrokerConfig -n NS -c DefaultCluster").startswith(f"============Master: {up.broker}====")
    assert re.search(r"(?m)^listenPort +=  \d+$", run(up, "mqadmin getNamesrvConfig -n NS"))
    run(up, "mqadmin updateBrokerConfig -n NS -b BROKER -k fileReservedTime -v 71")
    assert re.search(r"(?m)^fileReservedTime +=  71$", run(up, "mqadmin getBrokerConfig -n NS -b BROKER"))


def test_metadata_goes_out_and_comes_in_again(up: Stage, tmp_path: Path) -> None:
    run(up, "mqadmin updateTopic -n NS -c DefaultCluster -t Exported -r 3 -w 5")
    run(up, "mqadmin updateSubGroup -n NS -c DefaultCluster -g ExportedGroup -r 7")
    assert run(up, f"mqadmin exportMetadata -n NS -c DefaultCluster -f {tmp_path}") == (
        f"export {tmp_path}/metadata.json success\n"
    )
    content = json.loads((tmp_path / "metadata.json").read_text())
    assert content["topicConfigTable"]["Exported"]["writeQueueNums"] == 5
    assert content["subscriptionGroupTable"]["ExportedGroup"]["retryMaxTimes"] == 7
    assert not [name for name in content["topicConfigTable"] if name.startswith(("%", "rmq_sys", "RMQ_SYS"))]
    for table, name, command in [
        ("topicConfigTable", "Exported", "updateTopicList"),
        ("subscriptionGroupTable", "ExportedGroup", "updateSubGroupList"),
    ]:
        (tmp_path / "list.json").write_text(json.dumps([content[table][name]]))
        out = run(up, f"mqadmin {command} -n NS -c DefaultCluster -f {tmp_path}/list.json")
        assert out.startswith("submit batch of ")
    run(up, f"mqadmin exportMetadata -n NS -b BROKER -t -f {tmp_path}")
    assert "subscriptionGroupTable" not in json.loads((tmp_path / "topic.json").read_text())
    run(up, f"mqadmin exportMetadata -n NS -b BROKER -g -f {tmp_path}")
    assert "topicConfigTable" not in json.loads((tmp_path / "subscriptionGroup.json").read_text())
