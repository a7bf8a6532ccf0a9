"""Signed pops, acks, changes and batches of acks over remoting: nobody ends or defers what another group was handed.

`shop` may consume A with group G. Group H, topic B and what they were handed are others'; receipts are known to all
here, so that a receipt alone must not be enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.access.directory import Directory
from pyromq.access.signatures import Signer
from pyromq.access.users import User
from pyromq.protocol.frame import FrameLimits, decode_frames
from tests.broker.virtual import Virtual
from tests.kernel.guard_frames import BOSS, GONE, ON, SECRET, SHOP, allow, make_users, signed, unsigned, users
from tests.kernel.pop_frames import (
    ACK,
    BATCH,
    CHANGE,
    Popped,
    Step,
    Told,
    ack,
    acks,
    change,
    entry,
    filled,
    frame,
    pop,
    pops,
)
from tests.kernel.test_guard import CHANGES
from tests.kernel.test_native_send import send
from tests.kernel.twins import SERVES, know_everybody, native_module, split

REFUSED = 16
OTHER = "other"  # may read with H what shop reads with G
OURS, THEIRS, THEIR_TOPIC = 2, 3, 4  # numbers of pops: by G of A, by H of A, by H of B
COUNT = 8


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    native_module()
    know_everybody(monkeypatch)


def by_boss(frames: bytes) -> bytes:
    return b"".join(signed(one, BOSS) for one in split(frames))


POPPED: list[Step] = [
    by_boss(send(1999, queue=3)),  # it makes the queue
    by_boss(filled(80) + b"".join(send(2000 + number, topic="B") for number in range(COUNT))),
    signed(pop(1, count=4)),  # it opens the lanes, by Python
    signed(pop(OURS, count=COUNT)),
    signed(pop(THEIRS, count=COUNT, consumerGroup="H"), BOSS),
    signed(pop(THEIR_TOPIC, count=COUNT, consumerGroup="H", topic="B"), BOSS),
]


def begin(life: Virtual) -> None:
    life.sign = Signer(BOSS, SECRET).sign
    make_users(users(life))
    users(life).create(User(OTHER, (SECRET,)))
    allow(users(life), OTHER, "Topic:A Sub", "Group:H Sub")


async def same(folder: Path, steps: Sequence[Step]) -> Told:
    """Both answer, note and store the same; what the one with a kernel did."""
    ours = await pops(folder / "kernel", steps, native_module(), begin, **ON)
    theirs = await pops(folder / "handlers", steps, None, begin, **ON)
    assert ours[:6] == theirs[:6]
    assert theirs[6:] == (0, 0, 0, 0)
    return ours


def answered(told: Told, number: int) -> list[int]:
    """The codes of the answers to all requests of this number."""
    commands, _, _ = decode_frames(b"".join(told.answers), FrameLimits())
    return [one.code for one in commands if one.opaque == number]


def by_kernel(told: Told) -> int:
    """Acks and changes; the twin in Python leaves them to the handlers."""
    assert SERVES[0] == "native" or told.acks + told.changes == 0
    return told.acks + told.changes


def of(found: Iterable[Popped], pop_number: int) -> list[Popped]:
    return [one for one in found if one.asked == pop_number]


class Kind(NamedTuple):
    """A request about a message that was handed out. `make` takes the message, a number, and fields."""

    code: int
    make: Callable[..., bytes]


def batch(one: Popped, number: int, **extra: str) -> bytes:
    return acks(number, entry([one], c=extra.get("consumerGroup", "G"), t=extra.get("topic", "A")))


KINDS = {"ack": Kind(ACK, ack), "change": Kind(CHANGE, change), "batch": Kind(BATCH, batch)}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def retyped(raw: bytes, old: bytes, new: bytes) -> bytes:
    """A frame whose body was changed, to something as long."""
    assert old in raw
    assert len(old) == len(new)
    return raw.replace(old, new)


# --- who may, and who may not -------------------------------------------------------------------------------------


@kinds
async def test_who_may_is_served_by_the_kernel(tmp_path: Path, kind: Kind, kernel: str) -> None:
    def each(life: Virtual, found: list[Popped]) -> bytes:
        return b"".join(signed(kind.make(one, 10)) for one in of(found, OURS))

    told = await same(tmp_path, [*POPPED, 1.0, each])
    assert answered(told, 10) == [0] * COUNT
    assert by_kernel(told) == (COUNT if kernel == "native" else 0)


WRONG: dict[str, Callable[[Kind, list[Popped]], bytes]] = {
    "nobody": lambda kind, found: kind.make(of(found, OURS)[0], 10),
    "no signature": lambda kind, found: unsigned(signed(kind.make(of(found, OURS)[0], 10)), "Signature"),
    "no name": lambda kind, found: unsigned(signed(kind.make(of(found, OURS)[0], 10)), "AccessKey"),
    "another secret": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), secret="guessed"),
    "an empty secret": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), secret=""),
    "a stranger": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), "stranger"),
    "a disabled user": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), GONE),
    "another's name": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), AccessKey=BOSS),
    "who has another group": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), OTHER),
    "added later": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10), bname="broker-b"),
    "changed later": lambda kind, found: (
        retyped(signed(kind.make(of(found, OURS)[0], 10)), b"broker-a", b"broker-b")
        if kind.code == BATCH
        else signed(kind.make(of(found, OURS)[0], 10), extraInfo=of(found, OURS)[1].receipt)
    ),
    "another group": lambda kind, found: signed(kind.make(of(found, THEIRS)[0], 10, consumerGroup="H")),
    "a longer name": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10, consumerGroup="GG")),
    "another topic": lambda kind, found: signed(kind.make(of(found, THEIR_TOPIC)[0], 10, topic="B")),
    "another group and topic": lambda kind, found: signed(
        kind.make(of(found, THEIR_TOPIC)[0], 10, topic="B", consumerGroup="H")
    ),
    "the other group's retries": lambda kind, found: signed(kind.make(of(found, OURS)[0], 10, topic="%RETRY%H_A")),
}


@kinds
async def test_nobody_ends_or_defers_what_is_anothers(tmp_path: Path, kind: Kind, kernel: str) -> None:
    """Nor does it count for the next one what was said of one before: each comes twice, around one that may."""

    def by(wrong: Callable[[Kind, list[Popped]], bytes]) -> Step:
        return lambda life, found: wrong(kind, found)

    steps = [by(wrong) for wrong in (*WRONG.values(), *WRONG.values())]
    steps.insert(len(WRONG), lambda life, found: signed(kind.make(of(found, OURS)[-1], 11)))
    told = await same(tmp_path, [*POPPED, 1.0, *steps])
    assert answered(told, 10) == [REFUSED] * len(WRONG) * 2
    assert answered(told, 11) == [0]
    only = await pops(tmp_path / "only", [*POPPED, 1.0, steps[len(WRONG)]], None, begin, **ON)
    assert told.table == only.table  # nothing but that one has changed
    assert told.offsets == only.offsets


async def test_pops(tmp_path: Path, kernel: str) -> None:
    """What is refused hands nothing out: it is there for the next one who may."""
    wrong = [
        pop(10),
        signed(pop(10), secret="guessed"),
        signed(pop(10), "stranger"),
        signed(pop(10), GONE),
        signed(pop(10), OTHER),
        signed(pop(10, consumerGroup="H")),
        signed(pop(10, topic="B")),
        signed(pop(10, topic="%RETRY%H_A")),
        signed(pop(10), topic="B"),
    ]
    told = await same(tmp_path, [*POPPED, *wrong, b"".join(wrong), signed(pop(11, count=4))])
    assert answered(told, 10) == [REFUSED] * len(wrong) * 2
    assert answered(told, 11) == [0]
    only = await pops(tmp_path / "only", [*POPPED, signed(pop(11, count=4))], None, begin, **ON)
    assert told.table == only.table
    assert told.offsets == only.offsets


# --- batches ------------------------------------------------------------------------------------------------------


def mixed(found: list[Popped]) -> dict[str, list[dict[str, Any]]]:
    """Batches of which one part is another's, as entries."""
    own, theirs, elsewhere = of(found, OURS), of(found, THEIRS), of(found, THEIR_TOPIC)
    ours = [entry([one]) for one in own[:3]]
    group, topic = entry([theirs[0]], c="H"), entry([elsewhere[0]], t="B")
    both = entry([elsewhere[0]], c="H", t="B")
    return {
        "a second group": [ours[0], group],
        "a first group": [group, ours[0]],
        "a group between": [ours[0], group, ours[1]],
        "a group far behind": [*ours, *ours, group],
        "a second topic": [ours[0], topic],
        "a first topic": [topic, ours[0]],
        "a topic between": [ours[0], topic, ours[1]],
        "group and topic": [ours[0], both],
    }


@pytest.mark.parametrize("name", mixed([Popped("A", "0", 0, 0, 0, 0, 0, 0, asked) for asked in (2, 2, 2, 3, 4)]))
async def test_a_batch_is_judged_by_each_part(tmp_path: Path, name: str, kernel: str) -> None:
    """All of it is refused, even where the same user's batches have passed before."""

    def own(at: int) -> Step:
        return lambda life, found: signed(acks(11, entry([of(found, OURS)[at]]), entry([of(found, OURS)[at + 1]])))

    steps: list[Step] = [own(3), lambda life, found: signed(acks(10, *mixed(found)[name])), own(5)]
    told = await same(tmp_path, [*POPPED, *steps])
    assert answered(told, 10) == [REFUSED]
    assert answered(told, 11) == [0, 0]
    only = await pops(tmp_path / "only", [*POPPED, steps[0], steps[2]], None, begin, **ON)
    assert told.table == only.table


def theirs(told: Told) -> list[Any]:
    """What is open of what H was handed."""
    found = [one[1:] for one in told.table.lanes if one[1][0] == "H"]
    assert found
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"c":"G"', b'"c":"G", "c":"H"'),
        (b'"c":"G"', b'"c":"H", "c":"G"'),
        (b'"c":"G"', rb'"c":"G", "\u0063":"H"'),
        (b'"c":"G"', rb'"c":"\u0048"'),
        (b'"c":"G"', b'"c":"G", "consumerGroup":"H"'),
        (b'"t":"A"', b'"t":"A", "t":"B"'),
        (b'"acks":[', b'"acks":[], "acks":['),
    ],
    ids=["twice", "first", "escaped name", "escaped value", "long name", "topic twice", "two lists"],
)
async def test_a_body_that_could_be_read_in_two_ways(tmp_path: Path, old: bytes, new: bytes, kernel: str) -> None:
    """However it is read, and by whichever kernel: what H was handed stays H's."""

    def odd(life: Virtual, found: list[Popped]) -> bytes:
        (command,), _, _ = decode_frames(acks(10, entry([of(found, THEIRS)[0]], c="G")), FrameLimits())
        return signed(frame(BATCH, 10, {}, bytes(command.body).replace(old, new)))

    told = await same(tmp_path, [*POPPED, odd])
    untouched = await pops(tmp_path / "untouched", POPPED, None, begin, **ON)
    assert theirs(told) == theirs(untouched)


# --- what changes -------------------------------------------------------------------------------------------------

CHANGED = CHANGES | {
    "denied the topic": lambda directory: allow(directory, SHOP, "Topic:A Sub Deny"),
    "denied the group": lambda directory: allow(directory, SHOP, "Group:G Sub Deny"),
}
del CHANGED["denied"]  # of sends


@kinds
@pytest.mark.parametrize("name", CHANGED)
async def test_what_is_taken_back_between_two_frames_counts_for_the_second(
    tmp_path: Path, kind: Kind, name: str, kernel: str
) -> None:
    change_rights: Callable[[Directory], None] = CHANGED[name]

    def one(at: int, number: int, who: str = SHOP) -> Step:
        return lambda life, found: signed(kind.make(of(found, OURS)[at], number), who)

    steps = [one(0, 10), lambda life, found: change_rights(users(life)), one(1, 11), one(2, 12, BOSS)]
    told = await same(tmp_path, [*POPPED, 1.0, *steps])
    assert [answered(told, number) for number in (10, 11, 12)] == [[0], [REFUSED], [0]]
    assert by_kernel(told) == (2 if kernel == "native" else 0)


@pytest.mark.parametrize("name", CHANGED)
async def test_a_pop_after_it_hands_nothing_out(tmp_path: Path, name: str, kernel: str) -> None:
    change_rights: Callable[[Directory], None] = CHANGED[name]
    steps: list[Step] = [lambda life, found: change_rights(users(life)), signed(pop(10)), signed(pop(11), BOSS)]
    told = await same(tmp_path, [*POPPED, *steps])
    assert [answered(told, number) for number in (10, 11)] == [[REFUSED], [0]]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
async def test_a_pop_that_waits_gets_nothing_any_more(tmp_path: Path, moment: str, kernel: str) -> None:
    """Rights are taken while it waits, or in the moment when a message has come and it is not woken yet."""

    def take(life: Virtual) -> None:
        if SHOP in users(life).policies:
            users(life).remove(SHOP)

    def arrange(life: Virtual, found: list[Popped]) -> None:
        assert len(life.broker.pop_parts.handler.held) == 1
        if moment == "before":
            take(life)
        else:
            life.broker.store.on_arrival("A", lambda _: take(life))

    emptied = [signed(pop(number, count=32)) for number in (5, 6, 7)]
    steps: list[Step] = [*emptied, signed(pop(10, pollTime=60_000)), arrange, by_boss(send(3000, body=b"for who may"))]
    told = await same(tmp_path, [*POPPED, *steps, signed(pop(11)), signed(pop(12), BOSS)])
    assert told.held == 0
    assert 0 not in answered(told, 10)
    assert answered(told, 11) == [REFUSED]
    holding = [one for one in told.answers if b"for who may" in one]
    assert len(holding) == 1
    assert answered(told._replace(answers=holding), 12) == [0]
