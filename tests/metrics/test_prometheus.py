"""The real Prometheus scrapes broker, name server and proxy; boards and alert rules find what they ask for."""

from __future__ import annotations

import asyncio
import json
import random
import re
import runpy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.alerts.rules import RULES
from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.gateway.config import GatewayConfig
from pyromq.gateway.server import Gateway
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from tests.broker.metrics.usage import PROM, use
from tests.broker.running import Running, running_broker
from tests.metrics.prometheus import Prometheus
from tests.support import ROOT

TABLES = runpy.run_path(str(ROOT / "scripts" / "grafana_boards.py"))
BOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))


class Demo(NamedTuple):
    broker: Running
    prometheus: Prometheus


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Demo]:
    """A small cluster in which a bit of everything has happened, scraped by Prometheus."""
    clock, rng = SystemClock(), random.Random(3)
    async with AsyncExitStack() as stack:
        own: dict[str, Any] = {"listen_port": 0, **PROM}
        namesrv = NameServer(Loaded(NamesrvConfig(kv_config_path=tmp_path / "kv.json", **own)), clock=clock, rng=rng)
        stack.push_async_callback(namesrv.stop)
        address = await namesrv.listen()
        settings: dict[str, Any] = {**PROM, "namesrv_addr": (address,)}
        broker = await stack.enter_async_context(running_broker(tmp_path / "store", **settings))
        gateway = Gateway(GatewayConfig(namesrv_addr=(address,), remoting_listen_port=0, **own), clock=clock, rng=rng)
        stack.push_async_callback(gateway.stop)
        await gateway.listen()
        assert namesrv.exporting is not None
        assert gateway.exporting is not None
        jobs = {
            "pyromq-broker": [broker.broker.metering.exporting.address],
            "pyromq-namesrv": [namesrv.exporting.address],
            "pyromq-proxy": [gateway.exporting.address],
        }
        prometheus = Prometheus(tmp_path, jobs)
        stack.push_async_callback(prometheus.stop)
        yield Demo(broker, prometheus)


def expressions() -> dict[str, str]:
    """Return every expression of every board, with all variables open."""
    found = {}
    for file in BOARDS:
        for panel in json.loads(file.read_text("utf-8"))["panels"]:
            for target in panel["targets"]:
                text = re.sub(r"\$(cluster|broker|topic|group)", ".*", target["expr"]).replace("$__rate_interval", "1m")
                found[f"{file.name}: {panel['title']}: {target['refId']}"] = text
    return found


async def test_prometheus_scrapes_all_daemons_and_boards_find_their_rows(demo: Demo) -> None:
    await use(demo.broker)
    await demo.prometheus.until("count(up == 1) == 3")
    rows = await demo.prometheus.until('rocketmq_messages_in_total{topic="T",message_type="fifo"}')
    assert float(rows[0]["value"][1]) == 1
    missing = expressions()
    for _ in range(100):
        found = await asyncio.gather(*(demo.prometheus.query(text) for text in missing.values()))
        missing = {name: text for (name, text), rows in zip(missing.items(), found, strict=True) if not rows}
        if not missing:
            break
        await asyncio.sleep(0.1)
    assert missing == {}
    rules = (await demo.prometheus.ask("/api/v1/rules"))["groups"][0]["rules"]
    assert [rule["name"] for rule in rules] == [rule.name for rule in RULES]
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
    targets = (await demo.prometheus.ask("/api/v1/targets"))["activeTargets"]
    assert [target["lastError"] for target in targets if target["lastError"]] == []


def test_boards_are_the_tables_written_out() -> None:
    assert [file.stem for file in BOARDS] == sorted(board.name for board in TABLES["BOARDS"])
    for board in TABLES["BOARDS"]:
        file = ROOT / "deploy" / "grafana" / f"{board.name}.json"
        assert file.read_text("utf-8") == TABLES["rendered"](board), "type: python scripts/grafana_boards.py"


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_boards_have_what_grafana_wants(file: Path) -> None:
    board = json.loads(file.read_text("utf-8"))
    assert board["schemaVersion"] >= 36  # Grafana 9
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) > 5
    names = {variable["name"] for variable in board["templating"]["list"]}
    text = file.read_text("utf-8")
    assert set(re.findall(r"\$\{?(\w+)", text)) <= names | {"__rate_interval", "__all"}
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
