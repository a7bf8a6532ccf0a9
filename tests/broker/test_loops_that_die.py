"""Each loop of a broker is made to fail: the broker serves on, tells of it, and the loop comes again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.admin.runtime import RuntimeInfo
from pyromq.broker.clients.filter_data import ConsumerFilters
from pyromq.broker.metadata.offsets import Offsets
from pyromq.broker.registration import BrokerRegistration
from pyromq.broker.stats.counters import Counters
from pyromq.broker.timing.level_delivery import LevelDelivery
from pyromq.broker.timing.progress import DelayProgress
from pyromq.broker.timing.timers import Timers
from pyromq.broker.transactions.check import TransactionChecks
from pyromq.broker.wiring.foundation import ClientParts
from pyromq.broker.wiring.serving import PullParts
from pyromq.protocol.requests import RequestCode
from pyromq.store.flushing import StoreFlusher
from pyromq.store.log.retention import Retention
from pyromq.testing.clock import ManualClock
from tests.broker.running import Running, running_broker

LOOPS: dict[str, tuple[type, str]] = {
    "flush": (StoreFlusher, "make_file_ahead"),
    "delay levels": (LevelDelivery, "round"),
    "timers": (Timers, "round"),
    "progress of delay levels": (DelayProgress, "store_changed"),
    "transaction checks": (TransactionChecks, "round"),
    "retention": (Retention, "round"),
    "statistics": (Counters, "sampling"),
    "runtime samples": (RuntimeInfo, "sample"),
    "silent clients": (ClientParts, "housekeep"),
    "groups far behind": (PullParts, "protect"),
    "filters": (ConsumerFilters, "clean"),
    "consumer offsets": (Offsets, "take_changed"),
    "registration": (BrokerRegistration, "_pause"),
}


async def faults(life: Running) -> dict[str, str]:
    return dict(json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["loopFaults"])


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_that_dies_is_told_of_and_the_broker_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, method = LOOPS[name]
    real: Callable[..., Any] = getattr(kind, method)
    calls = 0

    def fails_twice(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise KeyError("a fault of ours")
        return real(*arguments, **named)

    monkeypatch.setattr(kind, method, fails_twice)
    clock = ManualClock()
    async with running_broker(tmp_path, clock, namesrv_addr=("127.0.0.1:1",), max_loop_lag_ms=1 << 40) as life:
        for _ in range(50):
            if calls > 2:
                break
            await clock.advance(20)
        assert calls > 2
        assert await faults(life) == {name: "2 times, last " + _fault(name)}
        assert (await life.send(body=b"x")).code == 0


def _fault(name: str) -> str:
    """Loops of several tasks raise what has failed as a group."""
    grouped = "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
    return grouped if name in ("flush", "registration") else "KeyError: 'a fault of ours'"
