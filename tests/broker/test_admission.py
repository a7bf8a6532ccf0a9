"""Overload: each limit refuses early and names itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.send.admission import TICK_S, Admission, LoopLag
from pyromq.errors import RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.protocol.row import RequestClass
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.virtual import START_MS, virtual_broker
from tests.kernel.test_native_send import send
from tests.kernel.twins import PEER
from tests.transport.support import raw_peer


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

    def admit(self, waited_ms: int = 0, timeout_ms: int | None = None) -> None:
        self._admit(self.config, self.clock.monotonic() - waited_ms / 1000, timeout_ms)


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


@pytest.mark.parametrize(("timeout_ms", "limit"), [(3_000, "its client's time-out) is 3000"), (50, "time-out) is 50")])
def test_a_client_that_names_its_time_out_is_waited_for_as_long(timeout_ms: int, limit: str) -> None:
    broker = Load()
    broker.admit(timeout_ms - 1, timeout_ms)
    with pytest.raises(RequestRefused, match=re.escape(limit)):
        broker.admit(timeout_ms + 1, timeout_ms)


def test_without_fast_failure_no_wait_is_too_long_and_the_other_limits_stay() -> None:
    broker = Load(broker_fast_failure_enable=False)
    broker.admit(60_000)
    broker.admit(60_000, 100)
    broker.waiting = 100_000
    with pytest.raises(RequestRefused, match="maxWaitingReplies"):
        broker.admit()


@pytest.mark.parametrize(
    ("key", "extra", "code"),
    [
        ("brokerFastFailureEnable=true", {}, ResponseCode.SYSTEM_BUSY),
        ("brokerFastFailureEnable=true", {"timeoutMs": 3000}, ResponseCode.SUCCESS),
        ("brokerFastFailureEnable=true", {"timeoutMs": 400}, ResponseCode.SYSTEM_BUSY),
        ("brokerFastFailureEnable=false", {}, ResponseCode.SUCCESS),
    ],
)
async def test_a_send_that_waited_half_a_second(tmp_path: Path, key: str, extra: dict[str, Any], code: int) -> None:
    async with virtual_broker(tmp_path, clock=ManualClock(START_MS), wait_time_mills_in_send_queue=200) as life:
        life.broker.live.change(key)
        server = life.broker.servers[0]
        peer = raw_peer(server, PEER)
        peer.write(send(1, properties="TAGS\x01t", **extra))  # without an id: the handler's
        while not server.service.waiting(RequestClass.SEND):
            await life.clock.settle(1)
        life.clock._passed_us += 500_000  # it waits for its turn, and nobody could run
        await life.clock.settle()
        assert [one.code for one in peer.received] == [code]


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
