"""One task of a read, without Spark: what brokers may answer to a pull, and what becomes of it."""

from __future__ import annotations

import json
from collections import deque
from copy import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq.ambient import SystemClock, pause
from pyromq.errors import ConnectionLost, ProtocolError, PyroError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record, encode_record
from pyromq.protocol.requests import RequestCode
from pyromq.spark.codec.bad_records import BadRecord
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.connect.connection import BlockingConnection, ReceiveBuffer
from pyromq.spark.options import Use, connection_options, read_options
from pyromq.spark.read.offsets import DataLoss, OffsetRange, Queue
from pyromq.spark.read.pulling import QueuePull, read_range
from pyromq.spark.read.stream_read import StreamReader
from pyromq.spark.schema import arrow_schema
from tests.spark.reading import BODY, numbers, rows, tasks
from tests.spark.servers import Servers

QUEUE = Queue("orders", "broker-a", 0)
Reply = Command | Exception


def answer(code: int, next_offset: int, low: int = 0, high: int = 100, body: bytes = b"") -> Command:
    fields = {"nextBeginOffset": str(next_offset), "minOffset": str(low), "maxOffset": str(high)}
    return Command(code=code, flag=1, fields=fields, body=body)


def found(begin: int, end: int) -> Command:
    records = [
        encode_record(Record(topic="orders", queue_id=0, body=b"x", queue_offset=at)) for at in range(begin, end)
    ]
    return answer(ResponseCode.SUCCESS, end, body=b"".join(records))


class Scripted:
    """A broker's connection: each request gets the next answer."""

    def __init__(self, script: list[Reply]) -> None:
        self._script = script
        self.address = "127.0.0.1:1"
        self.asked: list[int] = []
        self.outstanding = 0
        self._unanswered: deque[int] = deque()

    def send(self, command: Command, body: bytes = b"") -> int:
        self.asked.append(int(command.fields["queueOffset"]))
        self._unanswered.append(len(self.asked))
        return len(self.asked)

    def send_together(self, commands: list[Command]) -> list[int]:
        return [self.send(command) for command in commands]

    def receive(self, landing: ReceiveBuffer | None = None) -> Command:
        reply = self._script.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if landing is not None:
            landing.reserve(len(reply.body))[:] = reply.body
            landing.used += len(reply.body)
        answer = copy(reply)
        answer.opaque = self._unanswered.popleft()
        return answer

    def is_fresh(self) -> bool:
        return False  # used once: the next test has its own

    def close(self) -> None:
        self._unanswered.clear()


class Passing(SystemClock):
    """A clock that goes on while somebody waits, and not otherwise."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def pulled(script: list[Reply], end: int, **options: str) -> tuple[list[int], list[int]]:
    """Where bodies ended, and what was asked for."""
    given = {"nameServer": "127.0.0.1:1", "topic": "orders", "fetchOffset.numRetries": "0"} | options
    connection = Scripted(script)
    clock = Passing()
    pull = QueuePull(
        OffsetRange(QUEUE, 0, end),
        "127.0.0.1:1",
        read_options(given, Use.BATCH),
        clock,
        clock.pass_by,
        connect=lambda address, options: connection,  # type: ignore[arg-type, return-value]
    )
    with patch.object(QueuePull, "_find_broker"):
        return [offset for _, offset in pull.bodies()], connection.asked


class Answering(Scripted):
    """A queue of records, some of them with a wrong size in their first bytes."""

    def __init__(self, records: list[bytes]) -> None:
        super().__init__([])
        self._records = records

    def send(self, command: Command, body: bytes = b"") -> int:
        begin, most = int(command.fields["queueOffset"]), int(command.fields["maxMsgNums"])
        found = self._records[begin : begin + most]
        self._script.append(answer(ResponseCode.SUCCESS, begin + len(found), body=b"".join(found)))
        return super().send(command, body)


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
def test_where_sizes_do_not_add_up_records_are_pulled_alone_and_the_broken_one_goes_the_way_of_the_mode(
    mode: str,
) -> None:
    records = [encode_record(Record(topic="orders", queue_id=0, body=b"x", queue_offset=at)) for at in range(6)]
    records[2] = (1 << 20).to_bytes(4, "big") + records[2][4:]
    given = {"nameServer": "127.0.0.1:1", "topic": "orders", "mode": mode}
    with patch.object(QueuePull, "_connection", lambda self: Answering(records)):
        made = read_range(
            OffsetRange(QUEUE, 0, 6),
            "127.0.0.1:1",
            read_options(given, Use.BATCH),
            arrow_schema(["queueOffset", "body"]),
        )
        if mode == "FAILFAST":
            with pytest.raises(BadRecord, match=r"orders.*the record at offset 2 .*Set mode=DROPMALFORMED"):
                list(made)
            return
        rows = [row for batch in made for row in batch.to_pylist()]
    expected = [(at, None if at == 2 else b"x") for at in range(6) if at != 2 or mode == "PERMISSIVE"]
    assert [(row["queueOffset"], row["body"]) for row in rows] == expected


def test_a_range_is_pulled_in_pieces_whose_answers_may_end_anywhere() -> None:
    assert pulled([found(0, 7), found(7, 12)], 10) == ([7, 12], [0, 7])


def test_a_filter_that_leaves_nothing_is_progress_too() -> None:
    script: list[Reply] = [answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 5), found(5, 10)]
    assert pulled(script, 10) == ([10], [0, 5])


def test_what_retention_took_is_a_failure_or_left_out() -> None:
    def script() -> list[Reply]:
        return [answer(ResponseCode.PULL_OFFSET_MOVED, 6, low=6), found(6, 10)]

    with pytest.raises(DataLoss, match=r"offsets 0 to 6 were removed \(retention\).*Set failOnDataLoss=false"):
        pulled(script(), 10)
    assert pulled(script(), 10, failOnDataLoss="false") == ([10], [0, 6])


def test_a_queue_that_lost_its_end_is_a_failure_or_ends_there() -> None:
    def script() -> list[Reply]:
        return [found(0, 4), answer(ResponseCode.PULL_OFFSET_MOVED, 3, high=3)]

    with pytest.raises(DataLoss, match="offsets 4 to 10 are not there: the queue ends at 3"):
        pulled(script(), 10)
    assert pulled(script(), 10, failOnDataLoss="false") == ([4], [0, 4])


def test_a_busy_broker_and_a_lost_connection_are_asked_again_from_the_same_offset() -> None:
    script: list[Reply] = [
        found(0, 4),
        answer(ResponseCode.SYSTEM_BUSY, 0),
        ConnectionLost("gone"),
        ConnectionLost("gone"),
        found(4, 10),
    ]
    assert pulled(script, 10) == ([4, 10], [0, 4, 4, 4, 4])


def test_without_progress_a_task_ends_by_pull_timeout() -> None:
    with pytest.raises(PyroError, match="no progress for pullTimeoutMs = 900: gone"):
        pulled([ConnectionLost("gone") for _ in range(9)], 10, pullTimeoutMs="900")


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (answer(ResponseCode.SUCCESS, 0, body=b"x"), ProtocolError, "with messages and next offset 0"),
        (answer(ResponseCode.NO_PERMISSION, 0), PyroError, "127.0.0.1:1"),
    ],
)
def test_answers_that_make_no_sense_are_told(reply: Command, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        pulled([reply], 10)


def test_a_body_of_anything_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    options = read_options({"nameServer": "127.0.0.1:1", "topic": "orders"}, Use.BATCH)
    for body in (b"\0" * 200, found(0, 3).body[:-1], b"\xff" * 91):
        # Asked for once more, a record at a time, it is the same.
        connection = Scripted([answer(ResponseCode.SUCCESS, 3, body=bytes(body))] * 2)
        monkeypatch.setattr(QueuePull, "_connection", lambda self, of=connection: of)
        with pytest.raises(ProtocolError):
            list(read_range(OffsetRange(QUEUE, 0, 3), "127.0.0.1:1", options, arrow_schema(["body"])))


def test_many_answers_share_one_memory_and_their_rows_are_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    options = read_options({"nameServer": "127.0.0.1:1", "topic": "orders", "arrowBatchRows": "4"}, Use.BATCH)
    steps = [found(0, 3), answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 3, body=b"none"), found(3, 5), found(5, 9)]
    connection = Scripted([*steps, found(9, 12)])
    monkeypatch.setattr(QueuePull, "_connection", lambda self: connection)
    batches = list(read_range(OffsetRange(QUEUE, 1, 11), "127.0.0.1:1", options, arrow_schema(["queueOffset", "body"])))
    assert [batch.column("queueOffset").to_pylist() for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert {body for batch in batches for body in batch.column("body").to_pylist()} == {b"x"}


# --- with a cluster of its own -----------------------------------------------------------------------------------


def test_a_broker_is_killed_and_restarted_in_the_middle_of_a_batch(own: Servers, topic: str) -> None:
    own.start()
    own.send(topic, 300)

    def crash() -> None:
        own.kill()
        own.start()

    assert numbers(rows(own, topic, ["body"], between=crash, pullBatchSize=5, arrowBatchRows=5)) == list(range(300))


def make_topic(servers: Servers, broker: str, topic: str, queues: int = 2) -> None:
    fields = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    connection = BlockingConnection(
        servers.brokers[broker].address, connection_options({"nameServer": servers.namesrv}, Use.BATCH)
    )
    made = connection.call(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, fields=fields))
    connection.close()
    assert made.code == ResponseCode.SUCCESS, made.remark


def delete_topic(servers: Servers, broker: str, topic: str) -> None:
    """At the broker and, as administration does, at the name server."""
    for address, code in (
        (servers.brokers[broker].address, RequestCode.DELETE_TOPIC_IN_BROKER),
        (servers.namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV),
    ):
        connection = BlockingConnection(address, connection_options({"nameServer": servers.namesrv}, Use.BATCH))
        gone = connection.call(Command(code=code, fields={"topic": topic}))
        connection.close()
        assert gone.code == ResponseCode.SUCCESS, gone.remark


def test_a_new_broker_joins_a_stream(own: Servers, topic: str) -> None:
    own.start()
    own.send(topic, 40)
    given = {"nameServer": own.namesrv, "topic": topic, "startingOffsets": "earliest"}
    reader = StreamReader(read_options(given, Use.STREAM), BODY)
    try:
        first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert set(first[topic]) == {"broker-a"}
        own.start("broker-b")
        make_topic(own, "broker-b", topic)
        with Cluster(read_options(given, Use.STREAM)) as cluster:
            while "broker-b" not in cluster.route(topic).addresses:
                pause(0.05)
        own.send(topic, 200, first=40)
        second = first
        while "broker-b" not in second[topic]:
            pause(0.2)
            second = reader.latestOffset(first, ReadAllAvailable())
        seen: list[Any] = []
        for part in reader.partitions(first, second):
            seen += [(row["body"], part.part.queue.broker) for b in reader.read(part) for row in b.to_pylist()]
        assert sorted(int(body[1:]) for body, _ in seen) == list(range(40, 240))
        assert {broker for _, broker in seen} == {"broker-a", "broker-b"}
    finally:
        reader.stop()


def test_retention_passes_the_start(own: Servers, topic: str) -> None:
    own.start(mappedFileSizeCommitLog=1 << 16)
    own.send(topic, 300, size=500)
    own.kill()
    oldest = sorted((Path(own.store()) / "commitlog").iterdir())
    for file in oldest[:2]:  # as the broker removes what is too old
        file.unlink()
    own.start()
    everything = json.dumps({topic: {"broker-a": {str(queue): 0 for queue in range(4)}}})
    with pytest.raises(DataLoss, match=r"were removed \(retention\) before they were read.*failOnDataLoss=false"):
        tasks(own, topic, startingOffsets=everything)
    rest = numbers(rows(own, topic, ["body"], startingOffsets=everything, failOnDataLoss=False))
    assert rest == numbers(rows(own, topic, ["body"]))
    assert 0 < len(rest) < 300
    assert rest == list(range(300 - len(rest), 300))


def test_a_task_planned_while_its_broker_was_away_looks_for_it(servers: Servers, topic: str) -> None:
    servers.send(topic, 10)
    (task,) = tasks(servers, topic)
    options = read_options({"nameServer": servers.namesrv, "topic": topic}, Use.BATCH)
    bodies = QueuePull(task.part, "", options, SystemClock()).bodies()
    assert [offset for _, offset in bodies] == [10]


def test_an_empty_topic_has_no_tasks_and_a_skewed_one_is_split(servers: Servers, topic: str) -> None:
    make_topic(servers, "broker-a", topic, queues=4)
    assert tasks(servers, topic) == []
    servers.send(topic, 10)  # one request: all of them in one queue
    assert [task.part.size for task in tasks(servers, topic)] == [10]
    assert [task.part.size for task in tasks(servers, topic, minPartitions=4)] == [2, 3, 2, 3]
    assert numbers(rows(servers, topic, ["body"], minPartitions=4)) == list(range(10))
