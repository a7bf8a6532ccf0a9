"""Delayed messages and halves of transactions that a kernel puts where they wait: the bytes that the handlers store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Encoding
from pyromq.store.config import FlushMode
from tests.kernel import twins
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import is_counted, lives, native_module

ID = "UNIQ_KEY\x01u{}\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02"
HALF = 4  # sysFlag of a prepared transaction


def delayed(number: int, level: object = 1, **more: Any) -> bytes:
    return send(number, properties=ID.format(number) + f"DELAY\x01{level}\x02", **more)


def half(number: int, **more: Any) -> bytes:
    return send(number, properties=ID.format(number) + "TRAN_MSG\x01true\x02PGROUP\x01P\x02", sysFlag=HALF, **more)


FIRST = delayed(1) + delayed(2, 2) + half(3)  # handlers take these: they make the queues


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("code", [10, 310])
@pytest.mark.parametrize("flush_mode", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_a_burst_of_each_kind(tmp_path: Path, encoding: Encoding, code: int, flush_mode: FlushMode) -> None:
    burst = b"".join(
        make(number, code=code, queue=number % 3, body=b"x" * number, encoding=encoding)
        for number in range(10, 40)
        for make in (delayed, half, send)
    )
    ours = await lives(tmp_path, [FIRST, burst], native_module(), flush_mode=flush_mode)
    theirs = await lives(tmp_path, [FIRST, burst], None, flush_mode=flush_mode)
    assert ours.by_kernel == 90
    assert ours[:3] == theirs[:3]


FEW = ID.format(9)


@pytest.mark.parametrize(
    ("frame", "taken"),
    [
        (delayed(9, 2), True),
        (delayed(9, 3), False),  # the queue of that level has to be made first
        (delayed(9, 99), False),  # the handlers write the highest level into the message
        (delayed(9, 0), False),
        (delayed(9, -1), False),
        (delayed(9, "01"), False),
        (delayed(9, "x"), False),
        (delayed(9, 1, sysFlag=HALF), False),
        (delayed(9, 1, topic="Typed"), False),  # of another type than its topic's, which is counted
        (delayed(9, 1, topic="Delayed"), True),
        (send(9, topic="Delayed"), False),
        (batch(9, BatchEntry(b"a"), topic="Delayed"), False),
        (half(9, topic="Delayed"), False),
        (half(9, topic="Transactions"), True),
        (delayed(9, 1, topic="Transactions"), False),
        (half(9), True),
        (send(9, properties=FEW + "TRAN_MSG\x01true\x02"), True),  # whatever its system flag says
        (half(9, flag=2), True),
        (send(9, properties=FEW + "TRAN_MSG\x01true\x02", sysFlag=12), True),
        (send(9, properties=FEW + "TRAN_MSG\x01true\x02", sysFlag=64), False),
        (send(9, properties=FEW + "TRAN_MSG\x01TRUE\x02", sysFlag=HALF), False),
        (send(9, properties=FEW + "TRAN_MSG\x01false\x02", sysFlag=HALF), False),
        (send(9, sysFlag=HALF), False),
        (send(9, properties=FEW + "DELAY\x011\x02TRAN_MSG\x01true\x02", sysFlag=HALF), False),
        (send(9, properties=FEW + "DELAY\x011"), False),  # stored with the mark that its last pair lacks
        (send(9, properties=FEW + "DELAY\x011\x02a\x01\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02a\x01b\x01c\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02a\x01b\x02a\x01c\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02DELAY\x012\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02a\x01REAL_TOPIC\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02TIMER_OUT_MS\x015\x02"), False),
        (send(9, properties=FEW + "DELAY\x011\x02TIMER_DELAY_SEC\x015\x02"), False),
        (
            send(9, properties=FEW + "DELAY\x011\x02n\x01" + "".join(f"\x02n{n}\x01v" for n in range(40)) + "\x02"),
            False,
        ),
        (send(9, properties=FEW + "DELAY\x011\x02n\x01" + "ü" * 900 + "\x02"), True),
        (send(9, properties=FEW + "DELAY\x011\x02n\x01" + "x" * 32_350 + "\x02"), True),
        (send(9, properties=FEW + "DELAY\x011\x02n\x01" + "x" * 32_500 + "\x02"), False),
        (send(9, properties=FEW + "TRAN_MSG\x01true\x02__transactionId__\x01x\x02", sysFlag=HALF), False),
        (batch(9, BatchEntry(b"a", 0, b"DELAY\x011\x02")), True),  # within a batch it says nothing
        (batch(9, BatchEntry(b"a"), properties=FEW + "DELAY\x011\x02"), False),
    ],
)
async def test_one_of_each_shape(tmp_path: Path, frame: bytes, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = TopicConfig(topic_name="Transactions", attributes={"message.type": "TRANSACTION"})
    monkeypatch.setattr(twins, "TOPICS", (*twins.TOPICS, transactions))
    first = [FIRST, delayed(4, 1, topic="Delayed"), half(5, topic="Transactions")]
    seen = [*first, *_to_each_topic(), frame]
    ours = await lives(tmp_path, seen, native_module())
    before = await lives(tmp_path, seen[:-1], native_module())
    assert ours[:3] == (await lives(tmp_path, seen, None))[:3]
    assert is_counted(ours.by_kernel - before.by_kernel, taken)


def _to_each_topic() -> list[bytes]:
    """A plain message for each topic, which is stored though it is of another type: then the topic has a queue."""
    return [send(6, topic="Delayed"), send(7, topic="Transactions"), send(8, topic="Typed")]


async def test_halves_are_refused_where_the_broker_rejects_them(tmp_path: Path) -> None:
    bursts = [FIRST, half(9)]
    ours = await lives(tmp_path, bursts, native_module(), reject_transaction_message=True)
    assert ours.by_kernel == 0
    assert ours[:3] == (await lives(tmp_path, bursts, None, reject_transaction_message=True))[:3]


async def test_a_file_that_becomes_full_among_them(tmp_path: Path) -> None:
    bursts = [FIRST] + [
        b"".join(make(100 * b + n, body=b"x" * 700) for n in range(6) for make in (delayed, send, half))
        for b in range(6)
    ]
    small: dict[str, Any] = {"commit_log_file_bytes": 16 << 10, "files_ahead": True}
    ours = await lives(tmp_path, bursts, native_module(), **small)
    assert ours[:3] == (await lives(tmp_path, bursts, None, **small))[:3]
    assert ours.by_kernel > 30


NAMES = st.sampled_from(["DELAY", "TRAN_MSG", "TIMER_DELAY_SEC", "a", "b", "REAL_QID", "KEYS", "", "ü", "WAIT"])
VALUES = st.sampled_from(["1", "2", "3", "true", "false", "", "x", "ü", "a\x01b", "99"])
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=4)
SENDS = st.builds(
    lambda number, pairs, end, encoding, code, flags: send(
        number,
        code,
        properties=ID.format(number) + "\x02".join(f"{name}\x01{value}" for name, value in pairs) + end,
        encoding=encoding,
        sysFlag=flags,
    ),
    st.integers(10, 1 << 20),
    PAIRS,
    st.sampled_from(["", "\x02"]),
    st.sampled_from(list(Encoding)),
    st.sampled_from([10, 310]),
    st.sampled_from([0, 4, 8, 12, 16]),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frames=st.lists(SENDS, min_size=1, max_size=12), waits=st.sampled_from(list(FlushMode)))
async def test_any_of_them_one_by_one(tmp_path: Path, frames: list[bytes], waits: FlushMode) -> None:
    ours = await lives(tmp_path, [FIRST, *frames], native_module(), flush_mode=waits)
    assert ours[:3] == (await lives(tmp_path, [FIRST, *frames], None, flush_mode=waits))[:3]
