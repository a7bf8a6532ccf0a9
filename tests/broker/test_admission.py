"""Overload: each limit refuses early and names itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.send.admission import TICK_S, Admission, LoopLag
from pyromq.errors import RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, virtual_broker


class Load:
    """A broker's load in numbers."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.lag = LoopLag(self.clock)
        self.unflushed = 0
        self.waiting = 0
        self.no_disk: str | None = None
        self.config = BrokerConfig(broker_name="broker-a", **settings)
        self._admit = Admission(
            self.clock, self.lag, lambda: self.unflushed, lambda: self.waiting, lambda: self.no_disk
        )

    def admit(self, waited_ms: int = 0) -> None:
        self._admit(self.config, self.clock.monotonic() - waited_ms / 1000)


def test_an_idle_broker_takes_everything() -> None:
    Load().admit()


@pytest.mark.parametrize(
    ("load", "waited", "mark", "key"),
    [
        ({}, 201, "[TIMEOUT_CLEAN_QUEUE]", "waitTimeMillsInSendQueue) is 200"),
        ({"unflushed": (512 << 20) + 1}, 0, "[OVERLOAD]", "maxUnflushedBytes"),
        ({"waiting": 100_000}, 0, "[OVERLOAD]", "maxWaitingReplies"),
    ],
)
def test_each_limit_names_itself(load: dict[str, int], waited: int, mark: str, key: str) -> None:
    broker = Load()
    for name, value in load.items():
        setattr(broker, name, value)
    with pytest.raises(RequestRefused) as refused:
        broker.admit(waited)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert str(refused.value).startswith(mark)
    assert key in str(refused.value)


async def test_a_late_loop_refuses_while_it_is_late() -> None:
    broker = Load(max_loop_lag_ms=50)
    broker.lag.last_ms = 51
    with pytest.raises(RequestRefused, match="osPageCacheBusyTimeOutMills"):
        broker.admit()
    broker.lag.last_ms = 0
    broker.admit()
    broker.clock._passed_us += round((TICK_S + 0.051) * 1e6)  # the tick is overdue, and nobody could run it
    with pytest.raises(RequestRefused, match="runs 51 ms late"):
        broker.admit()


def test_a_full_disk_is_not_an_overload_but_no_service() -> None:
    broker = Load()
    broker.no_disk = "95% of the disk are used"
    with pytest.raises(RequestRefused, match="95% of the disk") as refused:
        broker.admit()
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_sends_are_taken_seconds_after_there_is_room_again(tmp_path: Path) -> None:
    """The next round of retention, which looks at the disk too, is ten seconds away here, elsewhere up to a minute."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock) as life:
        assert (await life.send()).code == ResponseCode.SUCCESS
        disk.capacity = disk.usage().used * 100 // 95
        life.broker.storage.gate.measure()
        refused = await life.send()
        assert (refused.code, "of the disk" in (refused.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
        disk.capacity *= 3
        await life.advance(3)
        assert (await life.send()).code == ResponseCode.SUCCESS
