"""Every property, times hostile values, times kinds of messages: sent, come due, over a restart.

The broker's loops live, each message that was accepted is delivered, what was refused is told with a reason, and a
canary of each kind is delivered as ever. All cases of a kind share one life of the broker.
"""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.model.names import DLQ_PREFIX
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.hostile import KINDS, PROPERTIES, VALUES, command
from tests.broker.virtual import START_MS, Virtual, virtual_broker
from tests.kernel.twins import choose, native_module, ready
from tests.transport.support import raw_peer

BURST = 64
KERNELS = pytest.mark.parametrize("kernel", ["native", "python"])
SETTINGS: dict[str, Any] = {"commit_log_file_bytes": 8 << 20, "index_slots": 20_000, "index_entries": 100_000}
TOLD = (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL)
OTHERS = {"TRAN_MSG", "TIMER_DEL_UNIQKEY"}  # with them it is a half message or a recall, whatever it was meant to be
RECALLED = ("timed", "UNIQ_KEY")  # by a recall of the same value


class Case(NamedTuple):
    """One message. `name` "": a canary."""

    kind: str
    name: str
    value: str

    @property
    def mark(self) -> str:
        return f"{self.kind}/{self.name}/{self.value}"

    @property
    def group(self) -> str:
        """The producer's, as the broker reads it."""
        return VALUES[self.value].partition("\x02")[0] or "P" if self.name == "PGROUP" else "P"

    def command(self, opaque: int) -> Command:
        return command(self.kind, self.mark, {self.name: VALUES[self.value]} if self.name else {}, opaque)


def matrix(kind: str) -> list[Case]:
    return [Case(kind, name, value) for name in PROPERTIES for value in VALUES]


async def sent(life: Virtual, cases: list[Case]) -> dict[Case, Command]:
    """Through the server, as frames, so that a native kernel sees them first. Each must be answered."""
    peer = raw_peer(life.broker.servers[0], "127.0.0.1:50001")
    for start in range(0, len(cases), BURST):
        part = cases[start : start + BURST]
        peer.write(b"".join(encode_frame(case.command(start + at)) for at, case in enumerate(part)))
        await life.clock.settle()
        assert not peer.is_lost
    answers = {answer.opaque: answer for answer in peer.received}
    assert sorted(answers) == list(range(len(cases)))
    return {case: answers[number] for number, case in enumerate(cases)}


async def commit_all(life: Virtual, halves: dict[Case, Command]) -> None:
    for case, answer in halves.items():
        ended = await life.call(
            RequestCode.END_TRANSACTION,
            producerGroup=case.group,
            tranStateTableOffset=answer.fields["queueOffset"],
            commitLogOffset=int(answer.fields["msgId"][16:], 16),
            commitOrRollback=8,
            fromTransactionCheck=True,
            msgId=case.mark,
        )
        assert "internal error" not in str(ended.remark), (case, ended.remark)


def records(life: Virtual, topic: str) -> list[Record]:
    return [record for queue in range(4) for record in life.stored(topic, queue)]


async def give_back(life: Virtual, topic: str) -> None:
    for record in records(life, topic):
        back = await life.call(
            RequestCode.CONSUMER_SEND_MSG_BACK, offset=record.physical_offset, group="H", delayLevel=1, originTopic="A"
        )
        assert back.code in TOLD, back.remark


def came(life: Virtual) -> set[str]:
    topics = ("A", "%RETRY%G", DLQ_PREFIX + "G", "%RETRY%H")
    return {record.body.decode() for topic in topics for record in records(life, topic)}


def expected(answers: dict[Case, Command]) -> set[str]:
    """What was accepted and is to be delivered."""
    return {
        case.mark
        for case, answer in answers.items()
        if answer.code == 0 and case.name not in OTHERS and (case.kind, case.name) != RECALLED
    }


async def live_through(folder: Path, cases: list[Case], module: ModuleType | None) -> None:
    canaries = [Case(kind, "", "") for kind in KINDS]
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, module)
        async with virtual_broker(folder, disk, clock, **SETTINGS) as life:
            await ready(life)
            answers = await sent(life, [*canaries[:4], *cases, *canaries[4:]])
            for case, answer in answers.items():
                assert "internal error" not in str(answer.remark), (case, answer.remark)
                assert answer.code in TOLD or answer.remark, (case, answer)
                assert answer.code == 0 or case.name or case.kind == "reply", (case, answer.remark)
            assert (module is not None) == any(one.kernel.messages for one in life.broker.verdicts)
            await life.advance(40)  # levels and timers come due, halves are asked about
        async with virtual_broker(folder, disk, clock, **SETTINGS) as life:
            await life.advance(40)
            halves = {case: answer for case, answer in answers.items() if case.kind == "half" and answer.code == 0}
            await commit_all(life, halves)
            await give_back(life, "A")
            await life.advance(40)
            assert {case.mark for case in canaries if case.kind != "reply"} <= came(life)
            assert expected(answers) - came(life) == set()
            assert len(life.broker.storage.quarantine) == 0  # nothing that a client sends has to be put aside


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Tracebacks: nothing that a client sends may be worth one."""
    return [f"{record.getMessage()}: {record.exc_info[1]!r}" for record in caplog.records if record.exc_info]


@KERNELS
@pytest.mark.parametrize("kind", KINDS)
async def test_the_broker_lives_and_delivers(
    tmp_path: Path, kernel: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await live_through(tmp_path, matrix(kind), native_module() if kernel == "native" else None)
    assert faults(caplog) == []
