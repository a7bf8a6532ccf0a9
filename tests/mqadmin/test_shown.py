"""What is shown of the recorded store where the recording cannot be repeated line by line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock, system_random
from pyromq.client.config import ClientConfig
from pyromq.client.connect.session import Session
from pyromq.mqadmin import catalogue
from pyromq.mqadmin.command import Run
from pyromq.mqadmin.groups import connections
from pyromq.mqadmin.options import Chosen, parse
from pyromq.protocol.record import Record, encode_record

from .conftest import LIVE_PRODUCER, Stage, call
from .golden import GOLDEN, TIMES, blocks, masked

EXPORT = GOLDEN / "mqadmin" / "export"


def test_queues_are_shared_as_consumers_share_them(recorded: Stage) -> None:
    (block,) = blocks("allocateMQ")
    ours, java = (json.loads(text)["result"] for text in (recorded.repeat(block).out, block.printed))
    assert {ip: len(queues) for ip, queues in ours.items()} == {ip: len(queues) for ip, queues in java.items()}
    every = [sorted(json.dumps(queue) for queues in shares.values() for queue in queues) for shares in (ours, java)]
    assert every[0] == every[1]


def test_producers_of_a_broker(recorded: Stage) -> None:
    (block,) = blocks("producer")
    mask = {r"127\.0\.0\.1:\d+": "PEER", "JAVA|PYTHON": "LANGUAGE"}
    (line,) = [line for line in masked(block.printed, TIMES, mask) if "(PID_live)" in line]
    assert LIVE_PRODUCER in line
    assert line in masked(recorded.repeat(block).out, TIMES, mask)


def test_statistics_of_topics(recorded: Stage) -> None:
    block, active = blocks("statsAll")
    numbers = {r" +[\d.]+ +[\d.]+ +[\d.]+ +\d+ +\d+$": " N"}
    assert masked(recorded.repeat(block).out, numbers) == masked(block.printed, numbers)
    counts = numbers | {r" +[\d.]+ +[\d.]+ +\d+ +NO_CONSUMER *$": " N"}  # delayed messages go on arriving
    assert set(masked(recorded.repeat(active).out, counts)) <= set(masked(recorded.call("statsAll").out, counts))


def test_an_overview_of_all_groups(recorded: Stage) -> None:
    block = blocks("consumerProgress")[0]
    rates = {r"( +)\d+( +)(\d+)$": r"\1RATE\2\3"}
    ours, java = (masked(text, rates) for text in (recorded.repeat(block).out, block.printed))
    fixed = ("GID_retry", "GID_dlq", "GID_pop", "GID_reply", "GID_broadcast", "GID_litepull", "#Group")
    assert [line for line in ours if line.startswith(fixed)] == [line for line in java if line.startswith(fixed)]
    (live,) = [line for line in ours if line.startswith("GID_live ")]
    assert live.rpartition(" ")[0] == "GID_live 1 V5_5_0 PUSH CLUSTERING RATE"


def test_settings_in_java_s_columns(recorded: Stage) -> None:
    for name, common in (("getBrokerConfig", 200), ("getNamesrvConfig", 20)):
        block = blocks(name)[0]
        ours, java = recorded.repeat(block).out.splitlines(), block.printed.splitlines()
        assert ours[0] == java[0]
        keys = [{line.split()[0] for line in lines[1:] if line} for lines in (ours, java)]
        assert len(keys[0] & keys[1]) > common
        assert {line for line in ours if line} >= {line for line in java if line.startswith("brokerClusterName ")}


def test_what_a_broker_measures(recorded: Stage) -> None:
    block = blocks("brokerStatus")[0]
    ours, java = (
        {line.partition(":")[0].strip() for line in text.splitlines() if line}
        for text in (recorded.repeat(block).out, block.printed)
    )
    missing = {key for key in java - ours if not key.startswith("commitLogDiskRatio_")}
    assert missing == set()


def test_exported_files(recorded: Stage, tmp_path: Path) -> None:
    for name in ("configs", "metadata", "metrics"):
        command = f"export{name.capitalize()}"
        shown = recorded.call(command, "-c", "DefaultCluster", "-f", str(tmp_path))
        assert shown.out == f"export {tmp_path}/{name}.json success\n"
    ours, java = (json.loads((folder / "configs.json").read_text()) for folder in (tmp_path, EXPORT))
    assert ours["clusterScale"] == java["clusterScale"]
    assert java["brokerConfigs"]["broker-a"].keys() - ours["brokerConfigs"]["broker-a"].keys() == {"useTLS"}  # Netty's
    ours, java = (json.loads((folder / "metadata.json").read_text()) for folder in (tmp_path, EXPORT))
    for topic in ("GoldenRoll", "GoldenBcq", "GoldenPop", "GoldenMixed"):
        assert ours["topicConfigTable"][topic] == java["topicConfigTable"][topic]
    assert ours["subscriptionGroupTable"]["GID_rawpop"] == java["subscriptionGroupTable"]["GID_rawpop"]
    ours, java = (json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path, EXPORT))
    assert shape(ours) == shape(java)


def shape(value: Any) -> Any:
    """The names in it, and whether there are numbers or texts."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return type(value).__name__


@pytest.mark.parametrize(
    ("command", "listed"),
    [("updateTopicList", [{"topicName": "GoldenList1"}]), ("updateSubGroupList", [{"groupName": "GID_list1"}])],
)
def test_lists_of_topics_and_groups(
    recorded: Stage, tmp_path: Path, command: str, listed: list[dict[str, str]]
) -> None:
    """Java prints its help behind the line, as if something were wrong."""
    (block,) = blocks(command)
    (tmp_path / "list.json").write_text(json.dumps(listed))
    words = block.command.replace(block.words[-1], str(tmp_path / "list.json"))
    assert recorded.repeat(block._replace(command=words)).out == block.printed.splitlines(keepends=True)[0]


def test_sending_to_each_queue_in_turn(recorded: Stage) -> None:
    (block,) = blocks("checkMsgSendRT")
    mask = {r"(true|false) +\d+$": "RESULT", r"Avg RT: .*": "MEAN"}
    assert masked(recorded.repeat(block).out, mask) == masked(block.printed, mask)


def on(stage: Stage, name: str, words: list[str], work: Callable[[Run], Any]) -> str:
    """What `work` prints with the options of a command."""
    out: list[str] = []

    async def run() -> None:
        clock = SystemClock()
        session = Session(ClientConfig(name_servers=(stage.servers,)), clock=clock, rng=system_random())
        chosen: Chosen = parse(catalogue.find(name).options, words)
        await work(Run(chosen, session, clock, out.append, out.append))
        await session.stop()

    asyncio.run(run())
    return "".join(out)


def test_the_times_of_a_cluster_again_and_again(recorded: Stage) -> None:
    """It runs for ever: ended after its first round."""
    (block,) = blocks("clusterRT")

    async def first_round(run: Run) -> None:
        shown: list[str] = []
        say = run.print

        def watched(text: str) -> None:
            shown.append(text)
            say(text)

        run.print = watched
        task = asyncio.ensure_future(catalogue.find("clusterRT").run(run))
        while not any("broker-a" in line for line in shown):
            await asyncio.sleep(0.01)
            assert not task.done(), task
        task.cancel()

    out = on(recorded, "clusterRT", block.words[3:], first_round)
    mask = {r"(broker-a +)[\d.]+": r"\1MEAN"}
    assert masked(out, mask)[:2] == masked(block.printed.replace("[stopped after 25 s]", ""), mask)[:2]


def test_a_watch_over_all_groups(recorded: Stage) -> None:
    lines = on(recorded, "startMonitoring", [], connections.watch).splitlines()
    (of_live,) = [line for line in lines if "consumerGroup=GID_live, topic=GoldenRoll," in line]
    assert re.fullmatch(
        r"reportUndoneMsgs: UndoneMsgs \[consumerGroup=GID_live, topic=GoldenRoll, undoneMsgsTotal=\d+, "
        r"undoneMsgsSingleMQ=\d+, undoneMsgsDelayTimeMills=\d+\]",
        of_live,
    )
    assert not [line for line in lines if "GID_retry" in line]  # offline


def test_a_compaction_log_is_a_file_of_messages(tmp_path: Path) -> None:
    record = Record(topic="T", queue_id=3, body=b"hi", properties=b"KEYS\x01k\x02", queue_offset=7)
    (tmp_path / "log").write_bytes(encode_record(record) * 2 + bytes(100))
    shown = call("dumpCompactionLog", "-f", str(tmp_path / "log"))
    assert shown.code == 0
    assert len(shown.out.splitlines()) == 2
    assert "queueId=3," in shown.out
    assert "toString()=Message{topic='T', flag=0, properties={KEYS=k}, body=[104, 105]" in shown.out
    record.sys_flag = 769  # compressed by zlib, which it is not
    (tmp_path / "bad").write_bytes(encode_record(record) * 2)
    bad = call("dumpCompactionLog", "-f", str(tmp_path / "bad"))
    assert "the record at byte 0 cannot be read: ZLIB body of 2 bytes" in bad.err
    assert len(bad.out.splitlines()) == 2
    (tmp_path / "torn").write_bytes(encode_record(record)[:-3])
    assert "ends at byte 0" in call("dumpCompactionLog", "-f", str(tmp_path / "torn")).err


def test_messages_of_a_stretch_of_time(recorded: Stage) -> None:
    """GoldenRoll's were stored within seconds: the end cuts inside of a page."""
    all_of_it = recorded.call("printMsg", "-t", "GoldenRoll", "-d", "false").out
    stored = [int(ms) for ms in re.findall(r"storeTimestamp=(\d+)", all_of_it)]
    begin, end = stored[100], stored[1010]
    part = recorded.call("printMsg", "-t", "GoldenRoll", "-d", "false", "-b", str(begin), "-e", str(end)).out
    times = [int(ms) for ms in re.findall(r"storeTimestamp=(\d+)", part)]
    assert times == [ms for ms in stored if begin <= ms < end]


def test_a_message_is_handed_to_a_member(recorded: Stage) -> None:
    missing = recorded.call("queryMsgById", "-t", "GoldenRoll", "-i", "0" * 32, "-g", "GID_live", "-d", "nobody")
    assert (missing.code, "CODE: 208" in missing.err) == (1, True)


@pytest.mark.parametrize("body", ["é", "\N{GRINNING FACE}"])
def test_bodies_are_signed_bytes_as_in_java(recorded: Stage, body: str) -> None:
    recorded.call("sendMessage", "-t", "GoldenMixed", "-p", body, "-k", f"of-{body.encode().hex()}")
    shown = recorded.call("printMsg", "-t", "GoldenMixed")
    signed = ", ".join(str(byte - 256) for byte in body.encode())
    assert f"body=[{signed}], " in shown.out
    assert f"BODY: {body}\n" in shown.out
