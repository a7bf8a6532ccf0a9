"""Commands that only Apache's servers serve today: the right request, and the recorded answer as it was printed."""

from __future__ import annotations

import json

import pytest

from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.lite import (
    GetBrokerLiteInfoResponseBody,
    GetLiteClientInfoResponseBody,
    GetLiteGroupInfoResponseBody,
    GetLiteTopicInfoResponseBody,
    GetParentTopicInfoResponseBody,
    LiteLagInfo,
)
from pyromq.protocol.bodies.offsets import ConsumeStats, OffsetWrapper, TopicOffset
from pyromq.protocol.bodies.replication import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
)
from pyromq.protocol.bodies.route import BrokerMemberGroup
from pyromq.protocol.headers.offsets import OffsetAnswer
from pyromq.protocol.headers.replication import ElectedMaster, GetMetadataInfoAnswer
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.dispatch import Reply

from .conftest import Shown, Stage, call
from .golden import BROKER, NAME_SERVER, TIMES, Block, chosen, masked
from .stand_in import Answers, StandIn, standing_in

USERS = chosen(
    "createUser updateUser listUser getUser createAcl updateAcl listAcl getAcl deleteAcl deleteUser",
    {"-u none": "not among the recorded frames", "-u boss": "not among the recorded frames"},
)
ONE_ADDRESS = {NAME_SERVER: BROKER, r" BROKER: \S+$": ""}  # the stand-in is name server and broker


@pytest.mark.parametrize("block", USERS, ids=lambda block: block.short)
def test_users_and_permissions_as_recorded(block: Block) -> None:
    """Each request is one that Java's mqadmin sent too, else the stand-in has no answer."""
    with standing_in(StandIn(None, *range(3001, 3011))) as apache:
        shown = Stage(apache.address, apache.address).repeat(block)
    assert masked(shown.all, TIMES, ONE_ADDRESS) == masked(block.printed, TIMES, ONE_ADDRESS)


def test_users_and_permissions_are_copied() -> None:
    with standing_in(
        StandIn({Code.AUTH_CREATE_USER: Reply(), Code.AUTH_CREATE_ACL: Reply()}, 3004, 3005, 3010)
    ) as from_a:
        answers = {Code.AUTH_GET_USER: Reply(), Code.AUTH_CREATE_USER: Reply(), Code.AUTH_CREATE_ACL: Reply()}
        with standing_in(StandIn({**answers, Code.AUTH_LIST_ACL: Reply()})) as to_b:
            common = ("-n", from_a.address, "-f", from_a.address, "-t", to_b.address)
            users = call("copyUser", *common, "-u", "golden")
            acls = call("copyAcl", *common)
    assert users.out == f"copy user of golden from {from_a.address} to {to_b.address} success.\n"
    assert acls.out == f"copy acl of User:golden from {from_a.address} to {to_b.address} success.\n"
    created = {code: json.loads(body) for code, _, body in to_b.asked if body}
    assert created[Code.AUTH_CREATE_USER]["username"] == "golden"
    assert created[Code.AUTH_CREATE_ACL]["policies"][0]["entries"][1]["sourceIps"] == ["127.0.0.1"]


def with_answers(answers: Answers, *words: str) -> tuple[Shown, StandIn]:
    """The command against a stand-in; `@` in its words is the stand-in's address."""
    with standing_in(StandIn(answers)) as apache:
        shown = call(*(apache.address if word == "@" else word for word in words), "-n", apache.address)
    shown.out = shown.out.replace(apache.address, "@")
    return shown, apache


LEADER = GetMetadataInfoAnswer(
    group="group1", controller_leader_id="n0", controller_leader_address="@", is_leader=True, peers="n0:@;n1:x:1"
)


def test_get_controller_metadata() -> None:
    shown, _ = with_answers(
        {Code.CONTROLLER_GET_METADATA_INFO: Reply(header=LEADER)}, "getControllerMetaData", "-a", "@"
    )
    assert shown.out == (
        "\n#ControllerGroup\tgroup1\n#ControllerLeaderId\tn0\n#ControllerLeaderAddress\t@\n#Peer:\tn0:@\n#Peer:\tn1:x:1\n"
    )


def test_controller_settings_are_shown_and_changed() -> None:
    shown, _ = with_answers({Code.GET_CONTROLLER_CONFIG: Reply(body=b"a=b\n")}, "getControllerConfig", "-a", "@")
    assert shown.out == f"============@============\n{'a':<50}=  b\n"
    words = ("updateControllerConfig", "-a", "@", "-k", "a", "-v", "c")
    shown, apache = with_answers({Code.UPDATE_CONTROLLER_CONFIG: Reply()}, *words)
    assert shown.out == "update controller config success![@]\na : c\n"
    assert apache.asked == [(Code.UPDATE_CONTROLLER_CONFIG, {}, "a=c\n")]


def test_elect_master_and_clean_broker_metadata_ask_the_leader() -> None:
    members = BrokerMemberGroup(broker_name="broker-a", cluster="C", broker_addrs={0: "x:1", 2: "x:2"})
    elected = ElectedMaster(master_broker_id=2, master_address="x:2", master_epoch=3, sync_state_set_epoch=4)
    answers = {
        Code.CONTROLLER_GET_METADATA_INFO: Reply(header=LEADER),
        Code.CONTROLLER_ELECT_MASTER: Reply(
            header=elected, body=encode_body(ElectMasterResponseBody(broker_member_group=members))
        ),
        Code.CLEAN_BROKER_DATA: Reply(),
    }
    with standing_in(StandIn(answers)) as apache:
        assert LEADER.controller_leader_address == "@"
        LEADER.controller_leader_address = apache.address
        try:
            elect = call("electMaster", "-a", apache.address, "-b", "2", "-bn", "broker-a", "-c", "C")
            clean = call("cleanBrokerMetadata", "-a", apache.address, "-bn", "broker-a", "-c", "C", "-b", "1;2")
        finally:
            LEADER.controller_leader_address = "@"
    assert elect.out == (
        "\n#ClusterName\tC\n#BrokerName\tbroker-a\n#BrokerMasterAddr\tx:2\n#MasterEpoch\t3\n#SyncStateSetEpoch\t4\n"
        "\t#Broker\t0\tx:1\n\t#Broker\t2\tx:2\n"
    )
    assert clean.out == "clear broker broker-a metadata from controller success! \n"
    (wanted,) = [fields for code, fields, _ in apache.asked if code == Code.CLEAN_BROKER_DATA]
    assert wanted["brokerControllerIdsToClean"] == "1;2"
    assert wanted["isCleanLivingBroker"] == "false"


def test_get_sync_state_set_and_epochs() -> None:
    one = ReplicaIdentity(broker_name="broker-a", broker_id=1, broker_address="x:1", alive=True)
    two = ReplicaIdentity(broker_name="broker-a", broker_id=2, broker_address="x:2", alive=False)
    of = ReplicasInfo(
        master_broker_id=1, master_address="x:1", master_epoch=2, sync_state_set_epoch=3,
        in_sync_replicas=[one], not_in_sync_replicas=[two],
    )  # fmt: skip
    body = encode_body(BrokerReplicasInfo(replicas_info_table={"broker-a": of}))
    words = ("getSyncStateSet", "-a", "@", "-b", "broker-a")
    shown, apache = with_answers({Code.CONTROLLER_GET_SYNC_STATE_DATA: Reply(body=body)}, *words)
    assert shown.out == (
        "\n#brokerName\tbroker-a\n#MasterBrokerId\t1\n#MasterAddr\tx:1\n#MasterEpoch\t2\n#SyncStateSetEpoch\t3\n"
        "#SyncStateSetNums\t1\n"
        "\nInSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=1, brokerAddress='x:1', alive=true}\n"
        "\nNotInSyncReplica:\tReplicaIdentity{brokerName='broker-a', brokerId=2, brokerAddress='x:2', alive=false}\n"
    )
    assert apache.asked[0][2] == '["broker-a"]'
    cache = EpochEntryCache(
        broker_id=0, broker_name="broker-a", cluster_name="C", max_offset=900,
        epoch_list=[EpochEntry(epoch=1, start_offset=0, end_offset=500), EpochEntry(epoch=2, start_offset=500)],
    )  # fmt: skip
    answers = {Code.GET_BROKER_EPOCH_CACHE: Reply(body=encode_body(cache))}
    shown, _ = with_answers(answers, "getBrokerEpoch", "-b", "broker-a")
    assert shown.out == (
        "\n#clusterName\tC\n#brokerName\tbroker-a\n#brokerAddr\t@\n#brokerId\t0\n"
        "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=500}\n"
        "#Epoch: EpochEntry{epoch=2, startOffset=500, endOffset=900}\n"
    )


def test_containers() -> None:
    shown, apache = with_answers({Code.ADD_BROKER: Reply()}, "addBroker", "-c", "@", "-b", "/conf/b.conf")
    assert (shown.out, apache.asked[0][1]) == ("add broker to @ success\n", {"configPath": "/conf/b.conf"})
    shown, apache = with_answers({Code.REMOVE_BROKER: Reply()}, "removeBroker", "-c", "@", "-b", "C:broker-a:1")
    assert shown.out == "remove broker from @ success\n"
    assert apache.asked[0][1] == {"brokerClusterName": "C", "brokerName": "broker-a", "brokerId": "1"}
    wrong, _ = with_answers({}, "removeBroker", "-c", "@", "-b", "broker-a")
    assert "clusterName:brokerName:brokerId is needed" in wrong.out


@pytest.mark.parametrize(("command", "found"), [("resetOffsetByTime", 3), ("skipAccumulatedMessage", 9)])
def test_an_older_broker_resets_only_groups_that_are_online(command: str, found: int) -> None:
    """206: then the offsets are looked up and committed one by one."""
    queue = MessageQueue(topic="T", broker_name="broker-a", queue_id=2)
    known = ConsumeStats(offset_table=ByQueue({queue: OffsetWrapper(broker_offset=9, consumer_offset=7)}))
    answers = {
        Code.INVOKE_BROKER_TO_RESET_OFFSET: Reply(206, remark="the consumer group not online"),
        Code.GET_CONSUME_STATS: Reply(body=encode_body(known)),
        Code.SEARCH_OFFSET_BY_TIMESTAMP: Reply(header=OffsetAnswer(offset=3)),
        Code.GET_MAX_OFFSET: Reply(header=OffsetAnswer(offset=9)),
        Code.UPDATE_CONSUMER_OFFSET: Reply(),
    }
    time = ["-s", "1000"] if command == "resetOffsetByTime" else []
    shown, apache = with_answers(answers, command, "-g", "G", "-t", "T", *time)
    assert shown.out.splitlines()[-1].split() == ["broker-a", "2", "9", "7", str(found), str(found)]
    committed = {"consumerGroup": "G", "topic": "T", "queueId": "2", "commitOffset": str(found)}
    assert apache.asked[-1][:2] == (Code.UPDATE_CONSUMER_OFFSET, committed)
    forward, apache = with_answers(answers, command, "-g", "G", "-t", "T", *time, "-f", "false")
    moved = [code for code, *_ in apache.asked].count(Code.UPDATE_CONSUMER_OFFSET)
    assert moved == (found <= 7)
    assert forward.out.splitlines()[-1].split()[-1] == str(min(found, 7))


@pytest.mark.parametrize("block", chosen("addBroker removeBroker", {}), ids=lambda block: block.short)
def test_a_broker_that_is_no_container_refuses(block: Block) -> None:
    with standing_in(StandIn()) as apache:
        shown = Stage(apache.address, apache.address).repeat(block)
    refusal, waiting = shown.err.removeprefix(f"mqadmin: {block.words[0]} failed\n").splitlines()
    assert masked(refusal, ONE_ADDRESS) == masked(block.printed)
    assert "waits for broker containers" in waiting


SIMPLE = chosen(
    "setConsumeMode switchTimerEngine resetMasterFlushOffset rocksDBConfigToJson checkRocksdbCqWriteProgress",
    {"-e R": "refused: test_waiting.py"},
)


@pytest.mark.parametrize("block", SIMPLE, ids=lambda block: block.short)
def test_what_has_no_answer_but_success(block: Block) -> None:
    answers: Answers = dict.fromkeys((401, 5001, 908, 355), Reply()) | {354: Reply(body=b'{"checkStatus":2}')}
    with standing_in(StandIn(answers)) as apache:
        shown = Stage(apache.address, apache.address).repeat(block)
    assert masked(shown.all, ONE_ADDRESS) == masked(block.printed, ONE_ADDRESS)
    assert len(apache.asked) == 1


def test_pop_records_are_moved_unless_it_is_a_dry_run() -> None:
    answers = {Code.POP_ROLLBACK: Reply(), Code.GET_BROKER_CONFIG: Reply(body=b"brokerName=broker-a\n")}
    shown, apache = with_answers(answers, "exportPopRecord", "-b", "@")
    assert shown.out == "Export broker records, brokerName=broker-a, brokerAddr=@, dryRun=false\n"
    assert apache.asked[-1][0] == Code.POP_ROLLBACK
    shown, apache = with_answers(answers, "exportPopRecord", "-c", "DefaultCluster", "-d", "true")
    assert shown.out == "Export broker records, brokerName=broker-a, brokerAddr=@, dryRun=true\n"
    assert apache.asked == []


LITE = chosen("getParentTopicInfo getLiteTopicInfo getLiteClientInfo getLiteGroupInfo triggerLiteDispatch", {})


@pytest.mark.parametrize("block", LITE, ids=lambda block: block.short)
def test_lite_topics_that_a_broker_does_not_have(block: Block) -> None:
    with standing_in(StandIn()) as apache:
        shown = Stage(apache.address, apache.address).repeat(block)
    assert masked(shown.out, TIMES) == masked(block.printed, TIMES)
    assert shown.code == 1
    assert "waits for lite topics" in shown.err


def test_lite_topics_of_a_broker_that_has_them() -> None:
    info = GetBrokerLiteInfoResponseBody(
        store_type="default", max_lmq_num=20000, cq_table_size=31, offset_table_size=31
    )
    shown, _ = with_answers({Code.GET_BROKER_LITE_INFO: Reply(body=encode_body(info))}, "getBrokerLiteInfo", "-b", "@")
    (recorded,) = chosen("getBrokerLiteInfo", {})
    assert masked(shown.out) == masked(recorded.printed.replace("127.0.0.1:20911", "@"))
    parent = GetParentTopicInfoResponseBody(topic="P", ttl=5, lite_topic_count=2, lmq_num=3, groups=["g1", "g2"])
    answers = {
        Code.GET_PARENT_TOPIC_INFO: Reply(body=encode_body(parent)),
        Code.GET_LITE_TOPIC_INFO: Reply(
            body=encode_body(GetLiteTopicInfoResponseBody(topic_offset=TopicOffset(min_offset=1, max_offset=9)))
        ),
        Code.GET_LITE_CLIENT_INFO: Reply(body=encode_body(GetLiteClientInfoResponseBody(lite_topic_count=7))),
        Code.GET_LITE_GROUP_INFO: Reply(
            body=encode_body(
                GetLiteGroupInfoResponseBody(
                    total_lag_count=4, lag_count_top_k=[LiteLagInfo(lite_topic="l1", lag_count=4)]
                )
            )
        ),
        Code.TRIGGER_LITE_DISPATCH: Reply(),
    }
    lines = {
        ("getParentTopicInfo", "-p", "P"): "broker-a 5 2 3 g1, g2",
        ("getLiteTopicInfo", "-p", "P", "-l", "l1"): "broker-a 1 9 TIME false 0",
        ("getLiteClientInfo", "-p", "P", "-g", "g1", "-c", "c"): "broker-a 7 TIME TIME",
        ("getLiteGroupInfo", "-p", "P", "-g", "g1"): "1 l1 4 -1",
        ("triggerLiteDispatch", "-p", "P", "-g", "g1"): "broker-a dispatched",
    }
    for words, line in lines.items():
        shown, _ = with_answers(answers, *words)
        assert line in masked(shown.out, TIMES), words
        assert shown.code == 0
