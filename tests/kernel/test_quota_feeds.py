"""Quotas as kernels count them: answers, files and tokens are those of the handlers, and a refusal never gets there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.access.directory import Directory
from pyromq.access.users import User
from pyromq.broker.quotas.limits import QuotaKind
from pyromq.kernel.python.quotas.buckets import Bucket as PythonBucket
from pyromq.model.codes import ResponseCode
from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.command import Encoding
from pyromq.store.config import FlushMode
from pyromq.transport.dispatch import Answer, Handler, Request
from tests.broker.virtual import Virtual
from tests.kernel.guard_frames import ON, SECRET, SHOP, allow, signed
from tests.kernel.pop_frames import pop
from tests.kernel.pull_frames import BY_ITSELF, HOLD, pull
from tests.kernel.quota_frames import Step, counted, no_quota, quota, same
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import is_counted, native_module

OK, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY
ENCODINGS = pytest.mark.parametrize("encoding", list(Encoding))
OTHER = "other"


# --- buckets --------------------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait_s", "take", "used", "give_back"]),
        st.floats(0, 1e12, allow_nan=False) | st.integers(0, 1 << 40),
        st.floats(0, 10) | st.just(0.0),
    ),
    max_size=40,
)


@given(rate=st.integers(0, 1 << 62), steps=_STEPS)
@settings(deadline=None, max_examples=300)
def test_a_native_bucket_is_its_twin_to_the_last_bit(rate: int, steps: list[tuple[str, float, float]]) -> None:
    ours, theirs, now = native_module().Bucket(rate, 5.0), PythonBucket(rate, 5.0), 5.0
    for name, amount, passed in steps:
        now += passed
        given_to: tuple[float, ...] = (now,)
        if name == "take":
            given_to = amount, now
        elif name == "give_back":
            given_to = (amount,)
        assert getattr(ours, name)(*given_to) == getattr(theirs, name)(*given_to)
        assert (ours.tokens, ours.filled) == (theirs.tokens, theirs.filled)


FORMS: list[tuple[int, dict[str, Any]]] = [(1, {}), (2, {}), (3, {}), (4, {"code": 10})]

# --- sends ----------------------------------------------------------------------------------------------------------


def sends(first: int, count: int, **given: Any) -> bytes:
    return b"".join(send(number, **given) for number in range(first, first + count))


@ENCODINGS
@pytest.mark.parametrize("whose", ["topic:A", "group:P", "address:127.0.0.1", "topic:*", "address:*"])
async def test_sends_beyond_a_quota_are_refused_alike(
    tmp_path: Path, encoding: Encoding, whose: str, kernel: str
) -> None:
    steps: list[Step] = [
        quota(f"{whose} sendMessages=7 sendBytes=1000"),
        sends(1, 5, encoding=encoding),
        sends(10, 5, encoding=encoding) + sends(20, 2, encoding=encoding, code=10) + send(30, topic="B", flag=2),
        0.3,
        sends(40, 4, encoding=encoding, body=b"x" * 300),
        2.0,
        sends(50, 4, encoding=encoding, body=b"x" * 700),
        no_quota(whose),
        sends(60, 20, encoding=encoding),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes.count(BUSY) == seen.refused_by_kernel - (whose in ("group:P", "address:127.0.0.1", "address:*"))
    assert seen.codes.count(BUSY) > 5
    told = next(one for one in seen.commands if one.code == BUSY)
    name = whose.replace("topic:*", "topic:A").replace("*", "127.0.0.1")
    assert f"the quota of {name} is 7 messages sent a second (sendMessages)" in str(told.remark)
    assert told.fields["retryAfterMs"] in str(told.remark)
    assert seen.codes[-20:] == [OK] * 20


async def test_a_quota_of_nothing_says_so(tmp_path: Path, kernel: str) -> None:
    steps: list[Step] = [
        quota("topic:A sendMessages=0"),
        sends(1, 3) + send(9, encoding=Encoding.ROCKETMQ),
        60.0,
        send(10),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes == [BUSY] * 5
    assert seen.refused_by_kernel == 5
    assert all("until it is changed nothing is taken" in str(one.remark) for one in seen.commands)


async def test_long_names_are_not_kept(tmp_path: Path, kernel: str) -> None:
    """Such a group is the handlers' to count, and all that begin alike are one."""
    groups = ("P" * 300, "P" * 2000, "P" * 1999)
    burst = b"".join(send(number, producerGroup=name) for number, name in enumerate(groups))
    seen = await same(tmp_path, [quota("group:* sendMessages=2"), burst], native_module())
    assert seen.codes == [OK, OK, BUSY]
    assert seen.used == {f"group:{'P' * 255} sendMessages": 2}
    assert seen.sent_by_kernel == 1


@ENCODINGS
@pytest.mark.parametrize("name", ['"opaque":1999999999' * 4, "\ue000\ue001" * 9, "\ue000 \ue002 \\ 1999999999"])
async def test_a_name_forges_no_value_of_a_refusal(tmp_path: Path, encoding: Encoding, name: str, kernel: str) -> None:
    sends_of = [send(number, producerGroup=name, encoding=encoding, **fields) for number, fields in FORMS]
    seen = await same(tmp_path, [quota("group:* sendMessages=1"), *sends_of], native_module())
    assert (seen.codes, seen.is_lost) == ([OK] + [BUSY] * (len(FORMS) - 1), False)
    assert all(f"the quota of group:{name} is 1 messages" in str(one.remark) for one in seen.commands if one.code)


async def test_batches_count_as_their_messages(tmp_path: Path, kernel: str) -> None:
    entries = [BatchEntry(b"%d" % number) for number in range(6)]
    steps: list[Step] = [
        quota("topic:A sendMessages=10"),
        batch(1, *entries),
        batch(2, *entries),
        batch(3, *entries) + send(4),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes == [OK, OK, BUSY, BUSY]
    assert seen.used == {"topic:A sendMessages": 12}
    assert is_counted(seen.refused_by_kernel, 2)


async def test_what_a_kernel_leaves_is_counted_once(tmp_path: Path, kernel: str) -> None:
    """Messages that are not plain, and those behind them, are the handlers'; both draw from the same bucket."""
    steps: list[Step] = [
        quota("topic:A sendMessages=6"),
        sends(1, 2) + send(3, queue=3) + sends(4, 2) + send(6, topic="Typed"),
        send(7) + send(8),
    ]
    seen = await counted(tmp_path, steps, native_module())
    assert 0 < seen.sent_by_kernel < 7
    assert seen.used == {"topic:A sendMessages": 6}
    assert sorted(seen.codes) == [OK] * 7 + [BUSY]


async def test_what_could_not_be_stored_is_given_back(tmp_path: Path, kernel: str) -> None:
    """The handlers get the whole buffer then, refusals among it, and count it."""

    def ended(life: Virtual) -> None:
        life.broker.store.appender.stopped = "a test ended writing"

    steps: list[Step] = [quota("topic:A sendMessages=4"), quota("topic:B sendMessages=1"), ended]
    steps += [sends(1, 3) + sends(10, 3, topic="B")]
    seen = await same(tmp_path, steps, native_module())
    assert seen.used == {"topic:A sendMessages": 3, "topic:B sendMessages": 1}
    assert seen.codes.count(BUSY) == 2
    assert seen.sent_by_kernel == 0


@pytest.mark.parametrize("waits", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_refusal_waits_for_no_disk(tmp_path: Path, waits: str, kernel: str) -> None:
    steps: list[Step] = [quota("topic:A sendMessages=2"), sends(1, 5), sends(6, 3), 5.0, sends(10, 3)]
    seen = await same(tmp_path, steps, native_module(), flush_mode=FlushMode(waits))
    assert seen.codes == [OK, OK, *[BUSY] * 6, OK, OK, BUSY]


async def test_refusals_are_held_back_and_hold_nobody_up(tmp_path: Path, kernel: str) -> None:
    """The other topic is answered at once, on the same connection."""
    burst = sends(1, 4) + send(5, topic="B")
    steps: list[Step] = [quota("topic:A sendMessages=1"), burst, 0.4, send(6, topic="B"), 0.2]
    seen = await same(tmp_path, steps, native_module(), held_s=0.5)
    assert seen.codes == [OK, BUSY, BUSY, BUSY, OK, OK]
    assert seen.came == [1, 5, 6, 2, 3, 4]
    assert seen.refused_by_kernel == 3


async def test_stored_bytes_are_looked_at_each_second(tmp_path: Path, kernel: str) -> None:
    steps: list[Step] = [
        quota("topic:A storedBytes=3000"),
        *(each for n in range(12) for each in (send(n, body=b"x" * 500), 1.1)),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes[:3] == [OK] * 3
    assert seen.codes[-1] == BUSY
    assert seen.sent_by_kernel >= 3


async def test_connections_are_counted_where_a_kernel_serves(tmp_path: Path, kernel: str) -> None:
    def first(life: Virtual) -> None:
        use = life.broker.base.quotas.use(QuotaKind.ADDRESS, "127.0.0.1")
        assert use is not None
        use.connections["127.0.0.1:1"] = life.clock.monotonic()  # another connection was there before

    steps: list[Step] = [
        quota("address:127.0.0.1 connections=1"),
        first,
        sends(1, 3) + pull(4),
        119.0,
        pull(5),
        2.0,
        sends(6, 3),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes == [*[BUSY] * 5, *[OK] * 3]
    assert (seen.sent_by_kernel, seen.refused_by_kernel) == (3, 0)


HALF: dict[str, Any] = {"properties": "UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02", "sysFlag": 4}


@pytest.mark.parametrize("limit", ["sendMessages=3", "halfMessages=3"])
async def test_half_messages_are_the_kernels_unless_they_are_counted(tmp_path: Path, limit: str, kernel: str) -> None:
    steps: list[Step] = [send(1, **HALF), quota(f"topic:A {limit}"), *(send(number, **HALF) for number in range(2, 7))]
    steps += [send(8, topic="B")]
    seen = await same(tmp_path, steps, native_module())
    assert seen.codes.count(BUSY) == (3 if limit == "halfMessages=3" else 2)
    assert seen.refused_by_kernel == (0 if limit == "halfMessages=3" else 2)


# --- reads ----------------------------------------------------------------------------------------------------------


def filled() -> bytes:
    return b"".join(send(1000 + number, queue=0, body=b"x" * 90) for number in range(30))


@ENCODINGS
@pytest.mark.parametrize("whose", ["topic:A", "group:G", "address:*"])
async def test_what_is_pulled_is_paid_for(tmp_path: Path, encoding: Encoding, whose: str, kernel: str) -> None:
    steps: list[Step] = [
        filled(),
        quota(f"{whose} readMessages=8 readBytes=100000"),
        pull(1, 0, maxMsgNums=4, encoding=encoding),
        pull(2, 4, maxMsgNums=6, encoding=encoding),
        pull(3, 10, encoding=encoding),
        0.5,
        pull(4, 10, maxMsgNums=3, encoding=encoding),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert [one for one in seen.codes if one != OK] == [BUSY]
    assert (seen.read_by_kernel, seen.refused_by_kernel) == (13, 1)


async def test_a_pull_that_waited_pays(tmp_path: Path, kernel: str) -> None:
    steps: list[Step] = [
        quota("group:G readBytes=10"),
        pull(1, 1, flags=BY_ITSELF | HOLD),
        send(500, body=b"x" * 100),
        pull(2, 0),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.used["group:G readBytes"] > 200
    assert seen.codes == [OK, BUSY, OK]
    assert seen.read_by_kernel == 1


async def test_a_pull_that_waited_and_is_the_handlers_in_the_end_pays(tmp_path: Path, kernel: str) -> None:
    def changed(life: Virtual) -> None:
        life.broker.pull_parts.parts.changes.end_all()  # the kernel may not answer it any more

    steps: list[Step] = [
        quota("group:G readBytes=10"),
        pull(1, 1, flags=BY_ITSELF | HOLD),
        changed,
        send(500, body=b"x" * 100),
        pull(2, 0),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert seen.used["group:G readBytes"] > 200
    assert seen.read_by_kernel == 0


async def test_what_is_popped_is_paid_for(tmp_path: Path) -> None:
    opened = pop(1, count=1, queue=0)  # opens the lane, which is Python's
    steps: list[Step] = [
        opened,
        filled(),
        quota("group:G readMessages=5"),
        pop(2, count=4, queue=0),
        pop(3, count=4, queue=0),
        pop(4, count=4, queue=0),
    ]
    seen = await counted(tmp_path / "kernel", steps, native_module())
    theirs = await counted(tmp_path / "handlers", steps, None)
    assert seen.used == theirs.used == {"group:G readMessages": 8}
    assert seen.codes[:4] == theirs.codes[:4] == [OK, OK, OK, BUSY]
    assert [one for one in seen.commands if one.code == BUSY] == [one for one in theirs.commands if one.code == BUSY]
    assert seen.refused_by_kernel == 1


async def test_a_pop_that_waited_pays(tmp_path: Path) -> None:
    steps: list[Step] = [
        pop(1, count=32, queue=0),
        quota("group:G readBytes=10"),
        pop(2, count=4, queue=0, pollTime=20_000),
        send(500, body=b"x" * 100),
        pop(3, count=4, queue=0),
    ]
    seen = await counted(tmp_path / "kernel", steps, native_module())
    theirs = await counted(tmp_path / "handlers", steps, None)
    assert seen.used == theirs.used
    assert seen.used["group:G readBytes"] > 200
    assert seen.codes[:3] == theirs.codes[:3]
    assert seen.codes[2] == BUSY
    assert seen.refused_by_kernel == 1


# --- a neighbour -----------------------------------------------------------------------------------------------------


async def test_a_neighbour_at_ten_times_its_quota_costs_no_handler_anything(tmp_path: Path, kernel: str) -> None:
    """All that is sent and refused stays with the kernel, and who has no quota is answered in the same turn."""
    handled: list[int] = []

    def count(life: Virtual) -> None:
        for dispatcher in life.broker.listeners.dispatchers.values():
            handlers = dispatcher.handlers
            dispatcher.handlers = {code: counting(handler) for code, handler in handlers.items()}

    def counting(handler: Handler) -> Handler:
        def handle(request: Request) -> Answer:
            handled.append(request.command.code)
            return handler(request)

        return handle

    steps: list[Step] = [quota("topic:A sendMessages=40"), count]
    for turn in range(10):
        steps += [sends(100 * turn + 1, 50) + send(100 * turn + 99, topic="B"), 0.125]
    seen = await counted(tmp_path, [*steps, 1.0], native_module(), held_s=0.125)
    taken = 40 + 9 * 5
    assert (seen.sent_by_kernel, seen.refused_by_kernel, handled) == (taken + 10, 500 - taken, [])
    assert len(seen.answers) == 510
    for turn in range(10):
        own = [each for each in seen.came if each // 100 == turn]
        refused = {one.opaque for one in seen.commands if one.code == BUSY}
        assert refused.isdisjoint(own[: own.index(100 * turn + 99)])  # nobody waits for refusals


# --- users ----------------------------------------------------------------------------------------------------------


def with_other(life: Virtual) -> None:
    directory: Directory = life.broker.base.access.table.directory
    directory.create(User(OTHER, (SECRET,)))
    allow(directory, OTHER, "Topic:A Pub,Sub", "Group:G Sub")


async def test_each_user_of_a_connection_has_his_own(tmp_path: Path, kernel: str) -> None:
    """Frames of two users in one buffer, one behind the other."""
    mixed = b"".join(signed(send(number), SHOP if number % 3 else OTHER) for number in range(1, 25))
    known = signed(send(100))  # until then the connection is a stranger's, and Python's
    steps: list[Step] = [known, with_other, quota(f"user:{SHOP} sendMessages=5"), quota("user:* sendMessages=6")]
    steps.append(mixed)
    seen = await same(tmp_path, steps, native_module(), **ON)
    assert seen.used == {f"user:{SHOP} sendMessages": 5, f"user:{OTHER} sendMessages": 6}
    assert seen.codes.count(BUSY) == seen.refused_by_kernel == 24 - 11


async def test_a_new_password_does_not_fill_a_bucket(tmp_path: Path, kernel: str) -> None:
    def renewed(life: Virtual) -> None:
        directory: Directory = life.broker.base.access.table.directory
        allow(directory, SHOP, "Topic:A Pub,Sub", "Group:G Sub")  # whatever changes him has the guard ask anew

    first, second = (b"".join(signed(send(n)) for n in range(at, at + 4)) for at in (1, 10))
    seen = await same(tmp_path, [quota("user:* sendMessages=5"), first, renewed, second], native_module(), **ON)
    assert seen.codes == [OK] * 5 + [BUSY] * 3


# --- by chance ------------------------------------------------------------------------------------------------------

_FRAMES = st.builds(
    lambda topic, group, size, encoding, flag: {
        "topic": topic,
        "producerGroup": group,
        "body": b"x" * size,
        "encoding": encoding,
        "flag": flag,
    },
    st.sampled_from(["A", "B", "Typed"]),
    st.sampled_from(["P", "Q"]),
    st.integers(1, 60),
    st.sampled_from(list(Encoding)),
    st.sampled_from([0, 0, 0, 2]),
)
_LIMITS = st.lists(
    st.builds(
        "{} sendMessages={} sendBytes={}".format,
        st.sampled_from(["topic:A", "topic:*", "group:Q", "address:*"]),
        st.integers(0, 9),
        st.integers(1, 300),
    ),
    max_size=3,
)


@given(
    st.lists(
        st.one_of(_LIMITS.map(lambda texts: [quota(text) for text in texts]), st.floats(0.01, 2.0)).flatmap(
            lambda step: st.lists(_FRAMES, min_size=1, max_size=12).map(lambda frames: (step, frames))
        ),
        min_size=1,
        max_size=5,
    )
)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_sends_under_any_quotas(tmp_path_factory: pytest.TempPathFactory, rounds: Any) -> None:
    steps: list[Any] = []
    number = 0
    for step, frames in rounds:
        steps += step if isinstance(step, list) else [step]
        burst = b""
        for frame in frames:
            number += 1
            burst += send(number, **frame)
        steps.append(burst)
    await same(tmp_path_factory.mktemp("quotas"), steps, native_module())
