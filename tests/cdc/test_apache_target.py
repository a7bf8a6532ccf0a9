"""Apache's own broker as the target: each change at least once, in order, and the capture says which promise that is.

By hand (`pytest -m slow tests/cdc/test_apache_target.py`): it starts two JVMs.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from pyromq.cdc.outgoing.target import Target
from pyromq.cdc.rules import Rules
from pyromq.cdc.server import say_promise
from pyromq.client.client import connect
from tests.cdc.synthetic import EVENTS, Seams, Synthetic
from tests.cdc.test_every_step import KILL, messages
from tests.interop.peers import java

VERSION = "5.5.0"
STEPS = range(3, 90, 11)


@pytest.mark.slow
async def test_apaches_broker_stores_each_change_at_least_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = java.NameServer(VERSION, tmp_path / "names")
    broker = java.Broker(VERSION, tmp_path / "broker", [names.address], {"autoCreateTopicEnable": "true"})
    try:
        async with connect(names.address) as client:
            with caplog.at_level(logging.INFO, "pyromq.cdc"):
                await say_promise(Target(client, "cdc.test"), Rules())
            assert "each change is stored at least once" in caplog.text
            for step in STEPS:
                capture = Synthetic(tmp_path / str(step), client, f"s{step}")
                is_whole = await capture.run(Seams(KILL, fails_at=step))
                while not is_whole:
                    is_whole = await capture.run(Seams())
                found: dict[int, str] = {}
                for table in ("orders", "items"):
                    for queue in await messages(client, f"{capture.prefix}-shop-{table}"):
                        numbers = [int(properties["cdcNumber"]) for _, properties in queue]
                        assert list(dict.fromkeys(numbers)) == sorted(set(numbers)), f"step {step}: out of order"
                        for body, properties in queue:
                            event = json.dumps(json.loads(body), sort_keys=True)
                            number = int(properties["cdcNumber"])
                            assert found.setdefault(number, event) == event, "a number means one event"
                assert len(found) == EVENTS, f"step {step}: {len(found)} events"
    finally:
        broker.kill()
        names.kill()
