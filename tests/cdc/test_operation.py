"""A capture in production: its metrics, whether it is well, its snapshots on request, what a terminal shows of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from pyromq.admin.calls import Calls
from pyromq.admin.checkup.capture_checks import captures
from pyromq.admin.checkup.checked import GOOD, WARNING, CheckedCluster, CheckResult
from pyromq.admin.checkup.server_checks import brokers, name_servers
from pyromq.admin.checkup.topic_checks import routes
from pyromq.cdc.changes import Position
from pyromq.cdc.events import Op
from pyromq.cdc.state import CaptureState, Round
from pyromq.cdc.status import behind_ms
from pyromq.client.client import connect
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld
from tests.interop.waiting import eventually

LATER_MS = 3_600_000


def page(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
        return str(answer.read().decode())


async def test_metrics_doctor_snapshots_on_request_and_a_bar_on_a_terminal(mariadb: MariaDb, tmp_path: Path) -> None:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    mariadb.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1), (2), (3)")
    exporter = ("--metrics-exporter-type", "PROM", "--metrics-prom-exporter-port", "0")
    world = CaptureWorld(tmp_path, mariadb.url, more=("--heartbeat-s", "1", *exporter))
    try:
        found = world.start_capture().wait_for(r"metrics are served address=http://(\S+)/metrics")
        address = found[1]
        await world.status_once(lambda found: found["phase"] == "stream")
        mariadb.run("INSERT INTO shop.t VALUES (4)")
        stored = 'pyromq_cdc_changes_total{node_type="cdc",source="test",table="shop.t"} 4'
        eventually(lambda: stored in page(address, "/metrics"), "four changes are counted")
        text = page(address, "/metrics")
        assert 'pyromq_cdc_phase{node_type="cdc",phase="stream",source="test"} 1' in text
        assert 'pyromq_cdc_snapshot_rows_read{node_type="cdc",source="test",table="shop.t"} 3' in text
        for name in ("bytes_total", "lag_milliseconds", "position_age_milliseconds", "dead_letters_total"):
            assert f"\npyromq_cdc_{name}{{" in text
        assert page(address, "/-/ready") == "ready\n"

        asked = world.command("snapshot", "--wait", "--json", "shop.t")
        assert (asked.returncode, json.loads(asked.stdout)["state"]) == (0, "sent"), asked.stderr
        events = await world.settled("cdc-shop-t", lambda found: len(found) == 8)
        reads = Counter(event.key["id"] for event in events if event.op is Op.READ and event.key)
        assert reads == {1: 2, 2: 2, 3: 2, 4: 1}

        assert [each.state for each in await checked(world, 0)] == [GOOD]
        world.kill_capture()
        (late,) = await checked(world, LATER_MS)
        assert (late.state, "capture test of a database has sent no heartbeat for" in late.text) == (WARNING, True)
        assert "reading the rows" in on_a_terminal(world, tmp_path / "other")
    finally:
        world.close()


async def checked(world: CaptureWorld, later_ms: int) -> list[CheckResult]:
    """Return what doctor says of captures, so much later."""
    async with connect(world.namesrv_address) as client:
        cluster = CheckedCluster(Calls(client.session))
        for check in (name_servers, brokers, routes):
            _ = [each async for each in check(cluster)]
        now_ms = client.session.clock.now_ms
        client.session.clock = Later(client.session.clock, now_ms() + later_ms)  # type: ignore[assignment]
        return [each async for each in captures(cluster)]


class Later:
    """A clock whose wall shows another time."""

    def __init__(self, clock: object, now_ms: int) -> None:
        self._clock, self._now_ms = clock, now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def __getattr__(self, name: str) -> object:
        return getattr(self._clock, name)


def on_a_terminal(world: CaptureWorld, folder: Path) -> str:
    """Return what a capture that begins says on a terminal, up to its first bar."""
    ours, its = pty.openpty()
    words = [*world.words, "--name", "shown", "--state-dir", str(folder)]
    command = [sys.executable, "-m", "pyromq", "cdc", "run", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=its, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    )
    os.close(its)
    said = b""
    try:
        while b"reading the rows" not in said:
            said += os.read(ours, 4096)
    except OSError:  # it has ended
        pass
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return said.decode("utf-8", "replace")


@pytest.mark.parametrize("jump_ms", [-LATER_MS, LATER_MS])
def test_a_clock_that_jumps_shows_no_lag_of_a_quiet_source_and_never_less_than_none(jump_ms: int) -> None:
    now = 10 * LATER_MS
    quiet = CaptureState(source="s", position=Position(done="1"), ts_ms=now, saved_ms=now + jump_ms, is_caught_up=True)
    assert behind_ms(quiet, now + jump_ms) == 0
    busy = CaptureState(source="s", position=Position(done="1"), ts_ms=now, saved_ms=now + jump_ms)
    assert behind_ms(busy, now + jump_ms) == max(0, jump_ms)  # wrong by as much as the clock is, and never negative
    sending = CaptureState(source="s", open=Round(Position(done="2"), 0, (), (), (), {}, ts_ms=now))
    assert behind_ms(sending, now + jump_ms) == max(0, jump_ms)
