"""What goes wrong is said in a line or two, with what to do, and an exit code that scripts can use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyromq.mqadmin.main import FAILED, NO_ANSWER, USAGE
from pyromq.transport.dispatch import Reply

from .conftest import Stage, call
from .stand_in import StandIn, standing_in

NOWHERE = "127.0.0.1:1"


def test_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYROMQ_NAMESRV", raising=False)
    monkeypatch.setenv("NAMESRV_ADDR", NOWHERE)
    for words in (("topicList",), ("topicList", "-n", NOWHERE)):
        shown = call(*words)
        assert (shown.code, shown.out) == (NO_ANSWER, "")
        assert shown.err.startswith("mqadmin: topicList failed\nCaused by: no name server answers: ")
        assert NOWHERE in shown.err
        assert "Name others by -n or NAMESRV_ADDR" in shown.err


def test_a_name_server_of_several_is_enough(recorded: Stage) -> None:
    shown = call("topicClusterList", "-t", "GoldenPlain", "-n", f"{NOWHERE};{recorded.servers}")
    assert (shown.code, shown.out) == (0, "DefaultCluster\n")


def test_the_environment_names_the_server(recorded: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYROMQ_NAMESRV", raising=False)
    monkeypatch.setenv("NAMESRV_ADDR", recorded.servers)
    assert call("topicClusterList", "-t", "GoldenPlain").out == "DefaultCluster\n"


def test_what_is_no_address() -> None:
    shown = call("topicList", "-n", "nonsense")
    assert shown.code == FAILED
    assert "'nonsense' is no address" in shown.err


def test_no_broker_at_the_address(recorded: Stage) -> None:
    shown = recorded.call("brokerStatus", "-b", NOWHERE)
    assert (shown.code, shown.out) == (NO_ANSWER, "")
    assert f"cannot connect to {NOWHERE}" in shown.err


def test_an_unknown_cluster_is_told_beside_the_known_ones(recorded: Stage) -> None:
    shown = recorded.call("updateTopic", "-c", "DefaultClutser", "-t", "T")
    assert (shown.code, shown.out) == (FAILED, "")
    assert "[error] Make sure the specified clusterName exists" in shown.err
    assert "knows DefaultCluster, not DefaultClutser" in shown.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("updateSubGroup -g G", "say which: -b with a broker's address, or -c with a cluster's name"),
        ("updateTopic -c C -t T -r many", "-r many: a whole number is needed"),
        ("updateTopic -c C -t T -a message.type=FIFO", "message.type=FIFO is neither"),
        ("resetOffsetByTime -g G -t T -s yesterday", "yesterday: now, milliseconds since 1970, or yyyy-MM-dd#HH"),
        ("resetOffsetByTime -g G -t T -s 0 -q 1", "-b and -q go together"),
        ("setConsumeMode -c C -t T -g G -m PUSH", "-m PUSH: PULL or POP"),
        ("updateOrderConf -t T -m show", "-m show: put, get or delete"),
        ("consumeMessage -t T -i 0", "Please set the brokerName before queueId!"),
        ("consumeMessage -t T -c 0", "Please input a positive messageNumber!"),
        ("setCommitLogReadAheadMode -c C -m 2", "-m 2: 0 (as usual) or 1 (random places)"),
        ("switchTimerEngine -c C -e X", "-e X: F (time wheel in files) or R (RocksDB)"),
        ("queryMsgByKey -t T -k K -p X", "-p X: K (keys) or T (tags)"),
        ("rocksDBConfigToJson -t nothing", "Invalid configType: nothing"),
        ("resetMasterFlushOffset", "-b with the slave's address and -o with the position are needed"),
        ("dumpCompactionLog", "miss dump log file name"),
        ("cleanBrokerMetadata -a x:1 -bn b -b one", "ids are numbers"),
        ("exportMetadata", "say which"),
        ("printMsg -t T -c nonsense", "-c nonsense: no such charset"),
        ("queryMsgById -t T -i I -f nonsense", "-f nonsense: no such charset"),
    ],
)
def test_wrong_values_are_named_with_the_help(line: str, text: str) -> None:
    shown = call(*line.split(), "-n", NOWHERE)
    assert shown.code == USAGE, shown.err
    assert text in shown.out.splitlines()[0]
    assert "\nusage: mqadmin " in shown.out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("updateTopicList -c C -f /nowhere", "the file path /nowhere does not exists"),
        ("dumpCompactionLog -f /nowhere", "file /nowhere not exist."),
        ("updateOrderConf -t T -m put", "please set orderConf with option -v."),
        ("sendMessage -t T -p x -i 0", "the broker and queue must be set together"),
        ("getUser -b x:1", "-u with the user's name is needed"),
    ],
)
def test_what_cannot_be_done_is_said_before_anybody_is_asked(line: str, text: str) -> None:
    shown = call(*line.split(), "-n", NOWHERE)
    assert (shown.code, shown.out) == (FAILED, "")
    assert text in shown.err


def test_words_of_no_option_are_told_and_ignored(recorded: Stage) -> None:
    shown = recorded.call("topicClusterList", "-t", "GoldenPlain", "DefaultCluster")
    assert shown.out == "DefaultCluster\n"
    assert shown.err == "mqadmin: ignored, as no option takes it: DefaultCluster\n"


def test_a_refusal_shows_code_remark_and_broker(recorded: Stage) -> None:
    shown = recorded.call("deleteTopic", "-c", "DefaultCluster", "-t", "TBW102")
    assert shown.code == FAILED
    assert "Caused by: CODE: 29  DESC: " in shown.err
    assert shown.err.rstrip().endswith(f"BROKER: {recorded.broker}")


def test_an_answer_that_cannot_be_read() -> None:
    """A peer that is no RocketMQ broker."""
    with standing_in(StandIn({206: Reply(body=b"<html>")})) as odd:
        shown = call("topicList", "-n", odd.address)
    assert shown.code == FAILED
    assert "the body is no TopicList" in shown.err


def test_the_console_script_and_a_closed_pipe(recorded: Stage) -> None:
    command = [sys.executable, "-c", "from pyromq.mqadmin.main import main; main()"]
    done = subprocess.run(
        [*command, "topicClusterList", "-n", recorded.servers, "-t", "GoldenPlain"], capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"DefaultCluster\n", b"")
    listing = subprocess.Popen([*command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    listing.stderr.close()
    assert listing.wait() == 0
