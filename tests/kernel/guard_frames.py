"""Signed requests, and two brokers with users and policies that get the same ones, one behind a kernel's guard."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.access.signatures import ACCESS_KEY, SIGNATURE, Signer
from pyromq.access.users import User, UserStatus, UserType
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameLimits, decode_frames, encode_frame
from pyromq.testing.clock import ManualClock
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.twins import PEER, choose, contents, know_everybody, ready, split
from tests.transport.support import BytesPeer, raw_peer

SECRET = "a secret of the guard"
BOSS, SHOP, GONE = "boss", "shop", "gone"
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": f'{{"username":"{BOSS}","password":"{SECRET}"}}',
}


class Outcome(NamedTuple):
    """What can be told from outside."""

    answers: list[bytes]
    files: dict[str, bytes]
    is_lost: bool
    held: int
    sent_by_kernel: int
    given_by_kernel: int
    acked_by_kernel: int


Step = bytes | float | Callable[[Virtual], object]


def signed(frame: bytes, name: str = SHOP, secret: str = SECRET, token: str = "", **added: str) -> bytes:
    """A frame with its signature. `added` comes in afterwards."""
    (command,), _, _ = decode_frames(frame, FrameLimits())
    Signer(name, secret, token).sign(command)
    command.fields.update(added)
    return encode_frame(command)


def unsigned(frame: bytes, *without: str) -> bytes:
    """A signed frame that lacks a field."""
    (command,), _, _ = decode_frames(frame, FrameLimits())
    for name in without or (ACCESS_KEY, SIGNATURE):
        del command.fields[name]
    return encode_frame(command)


def shuffled(frame: bytes, seed: int) -> bytes:
    """The same with its fields in another order: what is signed is the same."""
    (command,), _, _ = decode_frames(frame, FrameLimits())
    items = list(command.fields.items())
    random.Random(seed).shuffle(items)
    changed = Command(
        code=command.code,
        opaque=command.opaque,
        flag=command.flag,
        version=command.version,
        fields=dict(items),
        body=command.body,
        encoding=command.encoding,
    )
    return encode_frame(changed)


def allow(directory: Directory, name: str, *rules: str, sources: Sequence[str] = ()) -> None:
    """Add rules like `Topic:A Pub,Sub` or `Topic:B Pub Deny`."""
    entries = []
    for rule in rules:
        resource, actions, *decision = rule.split()
        entries.append(
            PolicyEntryInfo(
                resource=resource,
                actions=actions.split(","),
                decision=decision[0] if decision else "Allow",
                source_ips=list(sources) or None,
            )
        )
    directory.put(name, policies_of(AclInfo(policies=[PolicyInfo(entries=entries)])))


def make_users(directory: Directory) -> None:
    """`shop` may send to A and read it with group G; `gone` is disabled."""
    directory.create(User(SHOP, (SECRET,)))
    directory.create(User(GONE, (SECRET,), UserType.SUPER, UserStatus.DISABLED))
    allow(directory, SHOP, "Topic:A Pub,Sub", "Group:G Sub")


def users(life: Virtual) -> Directory:
    return life.broker.base.access.table.directory


async def outcome(folder: Path, steps: Sequence[Step], module: ModuleType | None, **settings: Any) -> Outcome:
    """Steps one after the other: bytes are written, seconds pass, and calls change something in the broker."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        know_everybody(patch)
        clock = ManualClock(1_700_000_000_000)
        async with virtual_broker(folder, clock=clock, **(ON | settings)) as life:
            life.sign = Signer(BOSS, SECRET).sign
            await ready(life)
            make_users(users(life))
            peer = raw_peer(life.broker.servers[0], PEER, BytesPeer)
            for step in steps:
                if isinstance(step, bytes):
                    if not peer.is_lost:
                        peer.write(step)
                elif isinstance(step, float):
                    await clock.advance(step)
                else:
                    step(life)
                await clock.settle(30)
            held = len(life.broker.pulls.suspended)
            await life.broker.store.flush_all()
            broker = life.broker
            return Outcome(
                sorted(split(peer.raw)),
                contents(life.disk),
                peer.is_lost,
                held,
                sum(one.kernel.messages for one in broker.verdicts),
                sum(one.kernel.messages for one in broker.pull_verdicts),
                sum(one.kernel.acks for one in broker.listeners.pop_verdicts),
            )


async def same(folder: Path, steps: Sequence[Step], module: ModuleType, **settings: Any) -> Outcome:
    """Both answer and store the same; what the one with a kernel did."""
    ours = await outcome(folder / "kernel", steps, module, **settings)
    theirs = await outcome(folder / "handlers", steps, None, **settings)
    assert ours[:4] == theirs[:4]
    assert theirs[4:] == (0, 0, 0)
    return ours


def codes(outcome: Outcome) -> dict[int, int]:
    """The answers' codes by their opaque."""
    commands, _, _ = decode_frames(b"".join(outcome.answers), FrameLimits())
    return {one.opaque: one.code for one in commands}
