"""Filters: SQL92 over stored records, and against Java's: evaluations per second on one core, a pull where few match.

    python bench/filters.py [--messages 1000000] [--every 1000] [--skip-pulls]

Ratios of one run are what to compare; CPU seconds of the broker bear a busy machine, wall time does not. Java is
RocketMQ 5.5.0: its filter module in a loop, and its broker. Ours is `pyromq broker` with the kernel that it chooses.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pyromq.broker.filters.filters import RecordFilter
from pyromq.kernel.choice import kernel_name
from pyromq.model.filters.sql92 import Sql92
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.messages import read_messages
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.record import Record, encode_record, property_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tests.interop
from tests.interop import wire
from tests.interop.peers import java, ours
from tests.interop.sql92.asking import ask_java

ROUNDS = 200_000
BATCH = 500
SYSTEM_BUSY = 2
WALKS = 5
Fields = Mapping[str, str]
HEADER = {"a": "P", "b": "Sparse", "c": "TBW102", "d": "1", "e": "0", "f": "0"}
HEADER |= {"g": "1700000000000", "h": "0", "i": "", "m": "true"}
SAMPLES = (
    ("a > 5", {"a": "6"}),
    ("a = 'blue' AND b > 5 OR c IS NOT NULL", {"a": "blue", "b": "6"}),
    ("a IN ('x', 'y', 'z') AND b BETWEEN 1 AND 100 AND NOT (c = TRUE)", {"a": "z", "b": "50", "c": "false"}),
    ("price > 9.5 AND name CONTAINS 'ph'", {"price": "12.5", "name": "alphabet"}),
)


def evaluations() -> None:
    theirs = ask_java(SAMPLES, "speed", str(5 * ROUNDS))
    for (text, properties), java_rate in zip(SAMPLES, theirs, strict=True):
        expression = Sql92(text)
        best = 0.0
        for _ in range(5):
            began = time.process_time()
            for _ in range(ROUNDS):
                expression.matches(properties)
            best = max(best, ROUNDS / (time.process_time() - began))
        print(
            f"{best / 1e6:7.2f} M/s ours {java_rate / 1e6:7.2f} M/s Java {best / java_rate:6.3f}x  {text}", flush=True
        )


def over_records() -> None:
    """Stored messages asked, by the generated loop and by decoding all properties of each."""
    for text, properties in SAMPLES:
        pairs = properties | {
            "UNIQ_KEY": "C0A8000100002A139A55000000000001",
            "CLUSTER": "DefaultCluster",
            "TRACE_ON": "true",
        }
        record = Record(topic="T", queue_id=0, body=bytes(100), properties=encode_properties(pairs))
        raw, expression = encode_record(record, with_crc=True), Sql92(text)
        looped = _rate(partial(_by_loop, RecordFilter(expression)), raw)
        decoded = _rate(partial(_by_decoding, expression), raw)
        print(
            f"{looped / 1e6:7.2f} M/s by loop {decoded / 1e6:7.2f} M/s by decoding {looped / decoded:6.2f}x  {text}",
            flush=True,
        )


def _by_loop(record_filter: RecordFilter, records: list[bytes]) -> int:
    return sum(1 for _ in record_filter.accepted(records))


def _by_decoding(expression: Sql92, records: list[bytes]) -> int:
    return sum(expression.matches(decode_properties(property_bytes(raw))) for raw in records)


def _rate(ask: Callable[[list[bytes]], int], raw: bytes) -> float:
    records, best = [raw] * (ROUNDS // 4), 0.0
    for _ in range(3):
        began = time.process_time()
        assert ask(records) == len(records)
        best = max(best, len(records) / (time.process_time() - began))
    return best


def fill(address: str, messages: int, every: int) -> None:
    wire.create_topic(address, "Sparse", 1)
    with wire.Client(address) as client:
        for first in range(0, messages, BATCH):
            entries = [
                BatchEntry(b"x" * 100, 0, encode_properties({"TAGS": "rare" if number % every == 0 else "common"}))
                for number in range(first, min(first + BATCH, messages))
            ]
            while (answer := client.call(320, HEADER, encode_batch(entries))).code == SYSTEM_BUSY:
                time.sleep(0.1)  # as clients do
            assert answer.code == 0, answer.remark


def cpu_s(pid: int) -> float:
    """Of a process and its threads, in user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pull_all(broker: ours.Broker | java.Broker, messages: int, every: int, filter_by: Fields) -> tuple[float, float]:
    """Seconds, and the broker's CPU seconds, to walk the topic from its beginning."""
    with wire.Client(broker.address) as client:
        fields = {"consumerGroup": "G", "topic": "Sparse", "queueId": "0", "maxMsgNums": "32", "sysFlag": "4"}
        fields |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", **filter_by}
        offset = pulls = got = 0
        began, before = time.perf_counter(), cpu_s(broker.program.pid)
        while offset < messages:
            answer = client.call(11, fields | {"queueOffset": str(offset)})
            assert "nextBeginOffset" in answer.fields, answer.remark
            pulls += 1
            got += sum(message.queue_offset < messages for message in read_messages(bytes(answer.body)).messages)
            offset = int(answer.fields["nextBeginOffset"])
        took, cpu = time.perf_counter() - began, cpu_s(broker.program.pid) - before
    assert got == (messages + every - 1) // every, f"{got} messages came"
    print(f"  {took:6.3f} s, {cpu:5.2f} s CPU, {pulls} pulls, {messages / took / 1e6:.2f} M messages/s passed")
    return took, cpu


def compare(brokers: Mapping[str, ours.Broker | java.Broker], messages: int, every: int, filter_by: Fields) -> None:
    """Ours first. The first walks warm Java's compiler up."""
    best = []
    for name, broker in brokers.items():
        print(f"{name}, by {filter_by['subscription']}: {messages} messages, 1 in {every} matches", flush=True)
        walks = [pull_all(broker, messages, every, filter_by) for _ in range(WALKS)]
        best.append((min(took for took, _ in walks), sum(cpu for _, cpu in walks) / WALKS))
    (wall, cpu), (java_wall, java_cpu) = best
    print(f"ours: {java_wall / wall:.2f}x Java's speed, {java_cpu / max(cpu, 0.001):.2f}x by CPU", flush=True)


def pulls(messages: int, every: int) -> None:
    settings = {"mappedFileSizeCommitLog": str(256 << 20), "mappedFileSizeConsumeQueue": str(20 * 300_000)}
    settings |= {"enablePropertyFilter": "true"}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        names = ours.NameServer(home / "names")
        stack.callback(names.kill)
        own = ours.Broker(home / "ours", [names.address], settings)
        stack.callback(own.kill)
        theirs = java.Broker("5.5.0", home / "java", [names.address], settings, jvm=("-Xms1g", "-Xmx1g"))
        stack.callback(theirs.kill)
        brokers: dict[str, ours.Broker | java.Broker] = {f"ours ({kernel_name()} kernel)": own, "Java": theirs}
        for broker in brokers.values():
            fill(broker.address, messages, every)
        compare(brokers, messages, every, {"subscription": "rare"})
        part = messages // 10 // every * every  # records are read for it, so a part is enough
        compare(brokers, part, every, {"subscription": "TAGS = 'rare'", "expressionType": "SQL92"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--skip-pulls", action="store_true")
    wanted = parser.parse_args()
    over_records()
    evaluations()
    if not wanted.skip_pulls:
        pulls(wanted.messages, wanted.every)


if __name__ == "__main__":
    main()
