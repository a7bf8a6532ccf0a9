"""Signed requests through a kernel's guard and through the handlers: the same pass, and the same are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.access.directory import Directory
from pyromq.access.signatures import SIGNATURE
from pyromq.access.users import UserStatus
from pyromq.protocol.batch import BatchEntry
from pyromq.protocol.command import Encoding
from pyromq.protocol.frame import FrameLimits, decode_frames
from tests.broker.virtual import Virtual
from tests.kernel.guard_frames import (
    BOSS,
    GONE,
    SECRET,
    SHOP,
    Outcome,
    Step,
    allow,
    codes,
    outcome,
    same,
    shuffled,
    signed,
    unsigned,
    users,
)
from tests.kernel.pop_frames import pop
from tests.kernel.pull_frames import HOLD, pull
from tests.kernel.test_native_send import batch, send
from tests.kernel.twins import native_module

REFUSED = 16
ENCODINGS = pytest.mark.parametrize("encoding", list(Encoding))


def sends(*numbers: int, name: str = SHOP, topic: str = "A") -> bytes:
    return b"".join(signed(send(number, topic=topic), name) for number in numbers)


def not_canonical(frame: bytes) -> str:
    """A signature's text with the last one of its unused bits set: a lax reader makes the same digest of it."""
    (command,), _, _ = decode_frames(signed(frame), FrameLimits())
    text = command.fields[SIGNATURE]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    changed = text[:-2] + alphabet[alphabet.index(text[-2]) + 1] + text[-1]
    assert base64.b64decode(changed) == base64.b64decode(text)
    return changed


def is_taken(by_kernel: int, expected: int, kernel: str) -> bool:
    """Tell whether the kernel took so many. Its twin leaves batches and pops to the handlers."""
    return by_kernel == expected or kernel == "python"


# --- who may, and who may not -------------------------------------------------------------------------------------


@ENCODINGS
@pytest.mark.parametrize("code", [10, 310])
async def test_signed_sends_are_the_kernels(tmp_path: Path, encoding: Encoding, code: int, kernel: str) -> None:
    burst = b"".join(signed(send(n, code, queue=n % 3, encoding=encoding)) for n in range(1, 30))
    seen = await same(tmp_path, [burst], native_module())
    assert seen.sent_by_kernel == 29
    assert set(codes(seen).values()) == {0}


@ENCODINGS
async def test_what_signing_clients_add(tmp_path: Path, encoding: Encoding) -> None:
    """A token, the channel of old clients, other orders of the fields, and texts of more than ASCII."""
    wide = "UNIQ_KEY\x01u\x02Ключ\x01значение😀\x02"
    burst = b"".join(
        [
            signed(send(1, encoding=encoding), token="a token"),
            signed(send(2, encoding=encoding, OnsChannel="ALIYUN")),
            *(shuffled(signed(send(3 + seed, encoding=encoding)), seed) for seed in range(5)),
            signed(send(8, encoding=encoding, properties=wide)),
            signed(send(9, encoding=encoding), BOSS),
            signed(send(10, encoding=encoding, topic="B"), BOSS),
        ]
    )
    seen = await same(tmp_path, [burst], native_module())
    assert set(codes(seen).values()) == {0}
    assert seen.sent_by_kernel == 10


async def test_a_signed_batch(tmp_path: Path, kernel: str) -> None:
    entries = [BatchEntry(b"%d" % n, n, f"KEYS\x01k{n}\x02".encode()) for n in range(5)]
    seen = await same(tmp_path, [signed(batch(1, *entries))], native_module())
    assert is_taken(seen.sent_by_kernel, 5, kernel)


WRONG = {
    "nobody": send(),
    "no signature": unsigned(signed(send()), "Signature"),
    "no name": unsigned(signed(send()), "AccessKey"),
    "another secret": signed(send(), secret="guessed"),
    "an empty secret": signed(send(), secret=""),
    "a stranger": signed(send(), "stranger"),
    "an empty name": signed(send(), ""),
    "a disabled user": signed(send(), GONE),
    "another topic": signed(send(topic="B")),
    "a topic that is not there": signed(send(topic="New")),
    "added later": signed(send(), l="5"),
    "changed later": signed(send(), b="B"),
    "a short signature": signed(send(), Signature="AAAA"),
    "a long signature": signed(send(), Signature="A" * 28),
    "a signature with a blank": signed(send(), Signature="A" * 27 + " "),
    "another text for the same digest": signed(send(), Signature=not_canonical(send())),
    "another's name": signed(send(), AccessKey=BOSS),
    "a dead letter topic": signed(send(topic="%DLQ%X")),
    "a system topic": signed(send(topic="SCHEDULE_TOPIC_XXXX")),
}


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG)
async def test_what_may_not_pass_is_refused(tmp_path: Path, frame: bytes, kernel: str) -> None:
    seen = await same(tmp_path, [frame, sends(7)], native_module())
    assert codes(seen) == {1: REFUSED, 7: 0}
    assert seen.sent_by_kernel == 1


async def test_one_that_is_refused_holds_up_no_other(tmp_path: Path, kernel: str) -> None:
    """What comes behind it is served in its order, and then by the kernel again."""
    burst = sends(1, 2) + signed(send(3), secret="guessed") + sends(4, 5) + pull(6) + sends(8)
    seen = await same(tmp_path, [burst, sends(9, 10)], native_module())
    assert codes(seen) == {1: 0, 2: 0, 3: REFUSED, 4: 0, 5: 0, 6: REFUSED, 8: 0, 9: 0, 10: 0}
    assert seen.sent_by_kernel == 4


async def test_who_is_not_judged_may_everything(tmp_path: Path) -> None:
    seen = await same(tmp_path, [sends(1) + sends(2, topic="B")], native_module(), authorization_enabled=False)
    assert seen.sent_by_kernel == 2


async def test_codes_that_need_not_be_signed(tmp_path: Path) -> None:
    white = {"authentication_whitelist": "310", "authorization_whitelist": "310"}
    frames = send(1) + signed(send(2), "stranger") + sends(3) + sends(4, topic="B")
    seen = await same(tmp_path, [frames], native_module(), **white)
    assert set(codes(seen).values()) == {0}


@pytest.mark.parametrize(("source", "code"), [("127.0.0.1", 0), ("10.0.0.0/8", REFUSED)])
async def test_verdicts_are_for_an_address(tmp_path: Path, source: str, code: int) -> None:
    def change(life: Virtual) -> None:
        users(life).remove(SHOP)
        allow(users(life), SHOP, "Topic:A Pub", sources=[source])

    seen = await same(tmp_path, [sends(1), change, sends(2)], native_module())
    assert codes(seen) == {1: 0, 2: code}
    assert seen.sent_by_kernel == 2 - bool(code)


# --- what changes -------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Directory], None]] = {
    "disabled": lambda directory: directory.update(SHOP, None, None, UserStatus.DISABLED),
    "another secret": lambda directory: directory.update(SHOP, "another", None, None),
    "no policies": lambda directory: directory.remove(SHOP),
    "denied": lambda directory: allow(directory, SHOP, "Topic:A Pub Deny"),
    "deleted": lambda directory: directory.delete(SHOP),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_counts_for_the_next_byte(tmp_path: Path, name: str) -> None:
    steps: list[Step] = [sends(1, 2), lambda life: CHANGES[name](users(life)), sends(3) + sends(4, name=BOSS)]
    seen = await same(tmp_path, steps, native_module())
    assert codes(seen) == {1: 0, 2: 0, 3: REFUSED, 4: 0}


async def test_two_secrets_are_valid_while_one_is_changed(tmp_path: Path) -> None:
    both = signed(send(1)) + signed(send(2), secret="new") + signed(send(3), secret="newer")
    steps: list[Step] = [
        sends(9),
        lambda life: users(life).update(SHOP, "new", None, None, keep_old=True),
        both,
        lambda life: users(life).drop_old_secret(SHOP),
        signed(send(4)) + signed(send(5), secret="new"),
    ]
    seen = await same(tmp_path, steps, native_module())
    assert codes(seen) == {9: 0, 1: 0, 2: 0, 3: REFUSED, 4: REFUSED, 5: 0}
    assert seen.sent_by_kernel == 4 - 1  # the one behind a refused send waits for it in Python


async def test_a_user_of_another_name_on_the_same_connection(tmp_path: Path) -> None:
    frames = sends(1) + sends(2, name=BOSS, topic="B") + sends(3) + sends(4, topic="B") + sends(5, name=BOSS, topic="B")
    seen = await same(tmp_path, [frames], native_module())
    assert codes(seen) == {1: 0, 2: 0, 3: 0, 4: REFUSED, 5: 0}


# --- pulls and pops -----------------------------------------------------------------------------------------------


async def test_pulls(tmp_path: Path) -> None:
    frames = signed(pull(1)) + signed(pull(2, code=361), BOSS)
    others = signed(pull(3, topic="B")) + signed(pull(4, consumerGroup="H")) + pull(5)
    seen = await same(tmp_path, [frames, others], native_module())
    assert codes(seen) == {1: 0, 2: 0, 3: REFUSED, 4: REFUSED, 5: REFUSED}
    assert seen.given_by_kernel == 2


async def test_a_held_pull_is_judged_again(tmp_path: Path) -> None:
    held = signed(pull(1, offset=1, flags=4 | HOLD))
    steps: list[Step] = [held, lambda life: users(life).remove(SHOP), sends(2, name=BOSS), held]
    seen = await same(tmp_path, steps, native_module())
    assert seen.held == 0
    commands = codes(seen)
    assert commands[2] == 0
    assert commands[1] in (REFUSED, 19)
    assert all(b"hello" not in answer for answer in seen.answers)  # no message reaches who may not read


async def test_a_held_pull_gets_nothing_that_came_as_rights_were_taken(tmp_path: Path) -> None:
    held = signed(pull(1, offset=1, flags=4 | HOLD))

    def take_rights(life: Virtual) -> None:
        def once(_: object) -> None:
            if SHOP in users(life).policies:
                users(life).remove(SHOP)

        life.broker.store.on_arrival("A", once)

    seen = await same(tmp_path, [held, take_rights, sends(2, name=BOSS)], native_module())
    assert (seen.held, codes(seen)) == (0, {1: codes(seen)[1], 2: 0})
    assert all(b"hello" not in answer for answer in seen.answers)


async def test_pops(tmp_path: Path, kernel: str) -> None:
    steps: list[Step] = [signed(pop(1)), signed(pop(2, consumerGroup="H")), signed(pop(3, topic="B")), pop(4)]
    seen = await same(tmp_path, steps, native_module())
    assert codes(seen) == {1: 0, 2: REFUSED, 3: REFUSED, 4: REFUSED}


# --- bytes of anybody ---------------------------------------------------------------------------------------------


def passed(seen: Outcome) -> set[int]:
    return {opaque for opaque, code in codes(seen).items() if code == 0}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 700), by=st.integers(1, 255), encoding=st.sampled_from(list(Encoding)))
async def test_a_changed_byte(tmp_path_factory: pytest.TempPathFactory, at: int, by: int, encoding: Encoding) -> None:
    frame = bytearray(signed(send(1, encoding=encoding), token="t"))
    frame[8 + at % (len(frame) - 8)] ^= by
    steps: list[Step] = [bytes(frame), sends(7)]
    folder = tmp_path_factory.mktemp("changed")
    ours = await outcome(folder / "kernel", steps, native_module())
    theirs = await outcome(folder / "handlers", steps, None)
    assert ours[:4] == theirs[:4]


@pytest.mark.parametrize("in_c", [False, True], ids=["as this processor can", "in plain C"])
def test_signatures_are_those_of_openssl(in_c: bool, kernel: str) -> None:
    if kernel == "python":
        return  # it has no other
    sign = native_module().signature
    for size in [*range(301), 1000, 4095, 4096, 100_001, *random.sample(range(301, 20_000), 50)]:
        content = os.urandom(size)
        for key in (0, 1, 20, 63, 64, 65, 200):
            secret = os.urandom(key)
            assert sign(secret, content, in_c) == hmac.digest(secret, content, "sha1"), (secret, content)
    assert sign(SECRET.encode(), b"", in_c) != sign(b"", b"", in_c)


@pytest.mark.parametrize("in_c", [False, True], ids=["as this processor can", "in plain C"])
def test_sha1_is_that_of_openssl(in_c: bool, kernel: str) -> None:
    if kernel == "python":
        return  # it has no other
    for size in [*range(301), *random.sample(range(301, 200_000), 100)]:
        content = os.urandom(size)
        assert native_module().sha1(content, in_c) == hashlib.sha1(content).digest(), content
