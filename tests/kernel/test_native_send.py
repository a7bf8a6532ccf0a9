"""Plain sends through the native kernel and through Python: the same bytes on disk, the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.headers.send import LONG_NAMES
from pyromq.store.config import FlushMode
from tests.kernel.twins import Seen, is_counted, lives, native_module

PLAIN = "UNIQ_KEY\x01{}\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02"


def send(
    number: int = 1,
    code: int = 310,
    topic: str = "A",
    queue: object = 0,
    body: bytes = b"hello",
    properties: str | None = None,
    encoding: Encoding = Encoding.JSON,
    flag: int = 0,
    **extra: Any,
) -> bytes:
    """A frame as a client writes it."""
    fields: dict[str, str] = {
        "producerGroup": "P",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue),
        "sysFlag": "0",
        "bornTimestamp": "1700000000123",
        "flag": "0",
        "properties": PLAIN.format(f"U{number}") if properties is None else properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "true" if code == 320 else "false",
    } | {name: str(value) for name, value in extra.items()}
    if code != 10:
        fields = {LONG_NAMES.get(name, name): value for name, value in fields.items()}
    return encode_frame(
        Command(code=code, opaque=number, flag=flag, version=401, fields=fields, body=body, encoding=encoding)
    )


def escaped(text: str) -> bytes:
    """A property as clients write it that escape everything beyond ASCII."""
    raw = send(properties="UNIQ_KEY\x01u\x02n\x01MARK\x02")
    header = raw[8 : 8 + int.from_bytes(raw[5:8], "big")].replace(b"MARK", text.encode())
    body = b"hello"
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def batch(number: int, *entries: BatchEntry, **extra: Any) -> bytes:
    return send(number, 320, body=encode_batch(entries), **extra)


BOTH = pytest.mark.parametrize("encoding", list(Encoding))


@BOTH
@pytest.mark.parametrize("code", [10, 310])
@pytest.mark.parametrize("waits", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_burst_of_plain_sends(tmp_path: Path, encoding: Encoding, code: int, waits: str) -> None:
    mode = FlushMode(waits)
    burst = b"".join(send(n, code, queue=n % 3, body=b"x" * n, encoding=encoding) for n in range(1, 40))
    ours = await lives(tmp_path, [burst], native_module(), flush_mode=mode)
    theirs = await lives(tmp_path, [burst], None, flush_mode=mode)
    assert ours.by_kernel == 39
    assert ours[:3] == theirs[:3]


@BOTH
async def test_a_batch_becomes_records_of_its_own(tmp_path: Path, encoding: Encoding) -> None:
    entries = [BatchEntry(b"%d" % n, n, f"KEYS\x01k{n}\x02TAGS\x01t".encode()) for n in range(10)]
    burst = batch(1, *entries, encoding=encoding) + batch(2, BatchEntry(b""), encoding=encoding)
    ours = await lives(tmp_path, [burst], native_module())
    theirs = await lives(tmp_path, [burst], None)
    assert ours[:3] == theirs[:3]
    assert is_counted(ours.by_kernel, 11)


@pytest.mark.parametrize(
    ("frame", "taken"),
    [
        (send(), True),
        (send(flag=2), True),
        (send(queue=3), False),  # the queue has to be made first
        (send(queue=4), False),
        (send(queue=-1), False),
        (send(queue="1 "), False),
        (send(queue="01"), False),
        (send(queue=1 << 40), False),
        (send(flag=1), False),
        (send(topic="Typed"), True),
        (send(topic="Typed", properties="UNIQ_KEY\x01u\x02__SHARDINGKEY\x01s\x02"), False),
        (send(topic="Typed", properties="UNIQ_KEY\x01u\x02a\x01\x02a\x01b\x02a\x01c"), True),
        (send(topic="Kept", properties="UNIQ_KEY\x01u\x02__SHARDINGKEY\x01s\x02"), False),
        (send(topic="Kept"), True),
        (send(topic="Compacted"), False),
        (send(topic="Delayed"), False),
        (send(topic="ReadOnly"), False),
        (send(topic="Many"), False),
        (send(topic="New"), False),
        (send(topic="B"), True),
        (send(topic="B", queue=1), False),
        (send(topic="%RETRY%G"), False),
        (send(topic="SCHEDULE_TOPIC_XXXX"), False),
        (send(topic="rmq_sys_wheel_timer"), False),
        (send(topic="rmq_sys_REVIVE_LOG_DefaultCluster"), False),
        (send(topic="T" * 200), False),
        (send(body=b""), False),
        (send(sysFlag=1), True),
        (send(sysFlag=4), False),
        (send(sysFlag=192), False),
        (send(sysFlag=16 + 32 + 1), True),
        (send(flag_=1), False),
        (send(reconsumeTimes=-7), True),
        (send(bornTimestamp=-1), True),
        (send(bornTimestamp=1 << 63), False),
        (send(maxReconsumeTimes="x"), False),
        (send(timeoutMs=3000), True),
        (send(code=10, timeoutMs=3000), True),
        (send(encoding=Encoding.ROCKETMQ, timeoutMs=3000, AccessKey="a", Signature="s", SecurityToken="t"), True),
        (send(timeoutMs="x"), False),
        (send(timeoutMs=-1), False),
        (send(timeoutMs=1 << 63), False),
        (send(unitMode="TRUE"), False),
        (send(batch="1"), False),
        (send(bname="broker-a", code=10), True),
        (send(ns="x"), False),
        (send(Signature="s", AccessKey="a"), True),
        (send(Signature="s", AccessKey="a", SecurityToken="t"), True),
        (send(Signature="ß", AccessKey="a"), False),
        (send(properties=""), False),
        (send(properties="TAGS\x01a"), False),
        (send(properties="UNIQ_KEY\x01u"), True),
        (send(properties="UNIQ_KEY\x01"), False),
        (send(properties="UNIQ_KEY\x01u\x02UNIQ_KEY\x01v"), False),
        (send(properties="UNIQ_KEY\x01u\x02\x02x\x02y\x01z"), True),
        (send(properties="UNIQ_KEY\x01u\x02KEYS\x01  a  b \x02"), True),
        (send(properties="UNIQ_KEY\x01u\x02KEYS\x01\x02TAGS\x01\x02"), True),
        (send(properties="UNIQ_KEY\x01u\x02WAIT\x01false\x02"), True),
        (send(properties="UNIQ_KEY\x01u\x02DELAY\x013\x02"), False),  # the queue has to be made first
        (send(properties="UNIQ_KEY\x01u\x02XDELAY\x013\x02"), True),
        (send(properties="UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02TIMER_DELAY_SEC\x011\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02CLUSTER\x01c\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02POP_CK\x01c\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02__CRC32#\x01123\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02__SEND_ID\x01p/1/1\x02"), False),
        (send(properties="UNIQ_KEY\x01ü\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02TAGS\x01ü\x02"), False),
        (send(properties="UNIQ_KEY\x01u\x02n\x01ü€\U0001f600\x02"), True),
        (send(properties="UNIQ_KEY\x01u\x02näme\x01x\x02", code=10, encoding=Encoding.ROCKETMQ), True),
        (send(properties="UNIQ_KEY\x01u\x02n\x01\x7f\x02"), False),
        (send(topic="Tä"), False),
        (send(producerGroup="Grüppe"), False),
        (escaped("\\u00fc\\u20ac\\ud83d\\ude00"), True),
        (escaped("\\ud83d"), False),
        (escaped("\\ude00\\ud83d"), False),
        (escaped("\\u00g0"), False),
        (send(properties='UNIQ_KEY\x01a"b\\c\x02'), False),
        (send(properties='UNIQ_KEY\x01u\x02name\x01\t\n\r\b\f"\\/\x02'), True),
        (send(properties="UNIQ_KEY\x01u\x02n\x01" + "x" * 32_600), True),
        (send(properties="UNIQ_KEY\x01u\x02n\x01" + "x" * 32_700), False),
        (send(code=325), False),
        (batch(1), False),
        (batch(1, BatchEntry(b"a", 0, b"__CRC32#\x01123\x02")), False),
        (batch(1, BatchEntry(b"a", 0, "TAGS\x01ü".encode())), False),
        (batch(1, BatchEntry(b"a", 0, "other\x01ü".encode())), True),
        (batch(1, BatchEntry(b"a"), properties="TAGS\x01x"), False),
        (send(code=320, body=b"no batch"), False),
    ],
)
async def test_one_of_each_kind(tmp_path: Path, frame: bytes, taken: bool) -> None:
    """What the kernel does not take, Python serves; either way the outcome is the same."""
    ours = await lives(tmp_path, [frame], native_module())
    assert ours[:3] == (await lives(tmp_path, [frame], None))[:3]
    assert is_counted(ours.by_kernel, taken)


@pytest.mark.parametrize(("most", "taken"), [(18, False), (19, True)])
async def test_a_limit_of_fields_counts_time_out_and_signature(tmp_path: Path, most: int, taken: bool) -> None:
    signature: dict[str, Any] = {"AccessKey": "a", "Signature": "s", "SecurityToken": "t", "OnsChannel": "ALIYUN"}
    signature["timeoutMs"] = 3000
    frame = send(code=10, bname="broker-a", maxReconsumeTimes=3, **signature)
    ours = await lives(tmp_path, [frame], native_module(), header_max_fields=most)
    assert (ours.by_kernel, ours.is_lost) == (taken, not taken)
    assert ours[:3] == (await lives(tmp_path, [frame], None, header_max_fields=most))[:3]


async def test_the_timer_s_topic_is_refused_also_once_its_queue_is_there(tmp_path: Path) -> None:
    bursts = [
        send(properties="UNIQ_KEY\x01u\x02TIMER_DELAY_SEC\x0190\x02"),
        send(2, topic="rmq_sys_wheel_timer"),
        batch(3, BatchEntry(b"a"), topic="rmq_sys_wheel_timer"),
    ]
    ours = await lives(tmp_path, bursts, native_module())
    assert ours.by_kernel == 0
    assert ours[:3] == (await lives(tmp_path, bursts, None))[:3]


async def test_a_full_file_is_rolled_by_python_and_the_kernel_goes_on(tmp_path: Path) -> None:
    bursts = [b"".join(send(100 * b + n, body=b"x" * 900) for n in range(10)) for b in range(6)]
    small = {"commit_log_file_bytes": 16 << 10}
    ours = await lives(tmp_path, bursts, native_module(), **small)
    assert 30 < ours.by_kernel < 60
    assert ours[:3] == (await lives(tmp_path, bursts, None, **small))[:3]


@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_a_full_file_is_rolled_by_the_kernel_where_the_next_one_is_there(
    tmp_path: Path, flush_mode: FlushMode
) -> None:
    bursts = [b"".join(send(100 * b + n, body=b"x" * 900) for n in range(10)) for b in range(6)]
    small: dict[str, Any] = {"commit_log_file_bytes": 16 << 10, "files_ahead": True, "flush_mode": flush_mode}
    ours = await lives(tmp_path, bursts, native_module(), **small)
    assert len([name for name in ours.files if name.startswith("commitlog/")]) >= 5
    assert ours[:3] == (await lives(tmp_path, bursts, None, **small))[:3]
    assert is_counted(ours.by_kernel, 60)


async def test_what_is_for_python_around_the_end_of_a_file_keeps_its_place(tmp_path: Path) -> None:
    odd = "UNIQ_KEY\x01u\x02DELAY\x010\x02"
    for at in range(12):
        bursts = [
            b"".join(send(100 * b + n, body=b"x" * 900, properties=odd if n == at else None) for n in range(30))
            for b in range(2)
        ]
        small: dict[str, Any] = {"commit_log_file_bytes": 16 << 10, "files_ahead": True}
        ours = await lives(tmp_path, bursts, native_module(), **small)
        theirs = await lives(tmp_path, bursts, None, **small)
        assert len(ours.answers) == len(theirs.answers) == 60
        assert entries_of(ours) == entries_of(theirs)


def entries_of(seen: Seen) -> dict[str, bytes]:
    """Positions, sizes and tags of what the queues of topic A hold."""
    return {name: data for name, data in seen.files.items() if name.startswith("consumequeue/A/")}


async def test_an_index_file_that_is_full_in_the_middle_of_a_burst(tmp_path: Path) -> None:
    burst = b"".join(send(n) for n in range(1, 60))
    small = {"index_slots": 7, "index_entries": 50}
    ours = await lives(tmp_path, [burst], native_module(), **small)
    assert ours.by_kernel == 59
    assert ours[:3] == (await lives(tmp_path, [burst], None, **small))[:3]


names = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "CLUSTER", "TRACE_ON", "x", "", "__CRC32#", "INNER_NUM", "ü"]
)
values = st.text(st.sampled_from('ab 1\x01"\\/ü😀\t'), max_size=6)
pairs = st.lists(st.tuples(names, values), max_size=4)
texts = pairs.map(lambda them: "\x02".join(f"{name}\x01{value}" for name, value in them))
plain_texts = texts.map(lambda text: "UNIQ_KEY\x01u\x02" + text)
entries = st.lists(
    st.builds(BatchEntry, st.binary(max_size=9), st.integers(-5, 5), texts.map(str.encode)), min_size=1, max_size=4
)
sends = st.builds(
    send,
    st.integers(1, 1 << 20),
    st.sampled_from([10, 310]),
    st.sampled_from(["A", "B", "Typed", "New"]),
    st.integers(-1, 4),
    st.binary(max_size=40),
    st.one_of(texts, plain_texts, st.none()),
    st.sampled_from(list(Encoding)),
    st.sampled_from([0, 2]),
    sysFlag=st.sampled_from([0, 1, 4, 16]),
)
batches = st.builds(
    lambda number, them, encoding: batch(number, *them, encoding=encoding),
    st.integers(1, 1 << 20),
    entries,
    st.sampled_from(list(Encoding)),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frames=st.lists(st.one_of(sends, batches), min_size=1, max_size=8), crc=st.booleans())
async def test_any_sends_one_by_one(tmp_path: Path, frames: list[bytes], crc: bool) -> None:
    ours = await lives(tmp_path, frames, native_module(), whole_record_crc=crc)
    assert ours[:3] == (await lives(tmp_path, frames, None, whole_record_crc=crc))[:3]
