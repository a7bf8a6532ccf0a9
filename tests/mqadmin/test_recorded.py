"""Our mqadmin prints of the recorded store what Java's printed, line by line; addresses, times and rates aside."""

from __future__ import annotations

import pytest

from .conftest import LIVE_CONSUMER, LIVE_PRODUCER, Stage
from .golden import TIMES, Block, blocks, chosen, masked

# What went on while it was recorded: a producer sent to GoldenRoll, mqadmin to GoldenPlain, transactions were checked.
# Our clients speak another language from other ports, and we name the broker that refused where Java does not always.
MOVING = {
    r"(Topic Put TPS: |Consume TPS: ).*": r"\1RATE",
    r"^(broker-a +0 +0 +)25\d\d +TIME": r"\1N TIME",
    r"(GoldenRoll +GID_\w+ +broker-a +0) .*": r"\1 N",
    r"(GoldenPlain +GID_\w+ +broker-a +\d) .*": r"\1 N",
    r"(RMQ_SYS_TRANS_\w+ +CID_RMQ_SYS_TRANS +broker-a +0) .*": r"\1 N",
    r"^(GoldenRoll +broker-a +0 +)25\d\d +25\d\d": r"\1N N",
    r"^%RETRY%GID_live +broker-a .*\n": "",  # Java's consumer commits 0 there
    r"^%RETRY%GID_rawpop2_GoldenPop\n": "",  # what it had popped was given again when the store was opened
    r"(?<!Consume )Diff Total: \d+": "Diff Total: N",
    r"max: \d+, min: 0": "max: N, min: 0",
    r"(MasterCommitLogMaxOffset).*": r"\1 NUMBER",
    r"(DefaultCluster +broker-a +0 +127.0.0.1:20911 +V5_5_0) .*": r"\1 LOAD",
    r"^(DefaultCluster +broker-a +0 +0) +\d+ +\d+$": r"\1 N N",
    r"(GoldenRoll +broker-a +0 +N N +)[\d.]+ ": r"\1IP ",
    rf"({LIVE_CONSUMER}|{LIVE_PRODUCER}) +127.0.0.1:\d+ +(JAVA|PYTHON) ": r"\1 PEER LANGUAGE ",
    r"spentTimeMills=\d+": "spentTimeMills=MS",
    r"( BROKER: \S+|(?<=controllerMode) )$": "",
    r"\](MessageTrack)": r"]\n\1",  # one behind the other in Java's line
}
READING = chosen(
    """
    topicList topicRoute topicStatus topicClusterList clusterList consumerProgress consumerConnection consumerStatus
    producerConnection brokerConsumeStats haStatus getBrokerEpoch queryMsgById queryMsgByKey queryMsgByUniqueKey
    queryMsgByOffset queryCq queryMsgTraceById printMsg printMsgByQueue consumeMessage updateTopicPerm
    """,
    {
        "GoldenStatic": "static topics are not there yet",
        "queryCq -n 127.0.0.1:19876 -t GoldenRoll -q 0 -i 0 -c 3 -g": "our broker says what its tags make of an entry",
        "consumerStatus -n 127.0.0.1:19876 -g GID_live -i": "tells of the client's own settings; see test_shown.py",
        "consumeMessage -n 127.0.0.1:19876 -t GoldenBatch -c 3": "Java takes queues in the order of a hash set",
        "updateTopicPerm -n 127.0.0.1:19876 -b": "the topic has another permission in the store",
        "updateTopicPerm -n 127.0.0.1:19876 -c": "changes it: below",
    },
)
# The overview shows groups that other commands made, and who was online then.
READING = [block for block in READING if block.words != ["consumerProgress", "-n", "127.0.0.1:19876"]]


@pytest.mark.parametrize("block", READING, ids=lambda block: block.short)
def test_what_is_shown(recorded: Stage, block: Block, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))  # consumerStatus writes a file
    assert masked(recorded.repeat(block).all, TIMES, MOVING) == masked(block.printed, TIMES, MOVING)


CHANGES = {
    r"update topic perm from [46] to": "update topic perm from OLD to",
    r"^broker-a +\d +SEND_OK .*": "broker-a QUEUE SEND_OK ID",
    r"rt=\d+ms": "rt=MS",
    r"msgId=\w+, offsetMsgId=\w+": "IDS",
    r"queueOffset=\d+, recall": "queueOffset=N, recall",
    r"^broker-a +0 +2[56]\d\d *$": "broker-a 0 N",
    r"(write perm of broker\[broker-a\] .* OK, ).*": r"\1TOPICS",
}
RESETS = blocks("resetOffsetByTime")
# In the order of the recording where one depends on another: useServerSideResetOffset was switched off between resets.
CHANGING = [
    *chosen(
        """
        updateTopic updateTopicPerm deleteTopic updateSubGroup getConsumerConfig deleteSubGroup cloneGroupOffset
        """,
        {
            "-t NoTarget": "prints the help: test_help.py",
            "message.type=MIXED": "our broker's remark says in addition how to allow it",
            "'bad name'": "our broker's remark is in other words",
            "TBW102": "our broker's remark says in addition why",
            "updateTopicPerm -n 127.0.0.1:19876 -b": "the topic has another permission in the store",
        },
    ),
    *RESETS[:5],
    *chosen(
        "updateBrokerConfig",
        {"brokerConfigPath": "our broker's remark is in other words", "noSuchKey": "refused by our broker"},
    ),
    *RESETS[5:],
    *chosen(
        """
        skipAccumulatedMessage updateColdDataFlowCtrGroupConfig getColdDataFlowCtrInfo removeColdDataFlowCtrGroupConfig
        updateOrderConf updateKvConfig deleteKvConfig updateNamesrvConfig wipeWritePerm addWritePerm
        setCommitLogReadAheadMode cleanExpiredCQ cleanUnusedTopic deleteExpiredCommitLog sendMessage sendMsgStatus
        """,
        {
            "getColdDataFlowCtrInfo -n 127.0.0.1:19876 -b": "recorded before the group had a limit",
            "-k kvConfigPath": "our name server's remark is in other words",
        },
    ),
]
CHANGING = [block for block in CHANGING if "-" in block.command]  # a bare command prints its help


@pytest.mark.parametrize("block", CHANGING, ids=lambda block: block.short)
def test_what_is_changed(recorded: Stage, block: Block) -> None:
    """In this order: some depend on those before."""
    masks = (TIMES, MOVING, CHANGES)
    assert masked(recorded.repeat(block).all, *masks) == masked(block.printed, *masks)
