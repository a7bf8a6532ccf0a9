"""A name server, a broker and a capture as processes of their own, each of which may be killed and started again."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.ambient import SystemClock
from pyromq.cdc.events import ChangeEvent, Op, decode_event
from pyromq.client.client import connect
from tests.interop.peers.process import Program
from tests.support import free_ports

PATIENCE_S = 60.0


@dataclass
class CaptureWorld:
    """Of one test. `events` reads what is in the topics, `settled` waits until they are as they should be."""

    folder: Path
    url: str
    include: Sequence[str] = ("shop.*",)
    more: Sequence[str] = ()
    broker_settings: Sequence[str] = ("duplicate_window_enable = true",)
    namesrv_port: int = 0
    broker_port: int = 0
    namesrv: Program | None = None
    broker: Program | None = None
    capture: Program | None = None
    password: str = "secret"
    _all: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.namesrv_port, self.broker_port = free_ports(2)
        try:
            self._start_servers()
        except BaseException:
            self.close()
            raise

    def _start_servers(self) -> None:
        self.namesrv = self._program("namesrv", "--listen", self.namesrv_address)
        self.namesrv.wait_for("ready")
        lines = [
            f"store_path_root_dir = {str(self.folder / 'store')!r}",
            *self.broker_settings,
        ]  # fmt: skip
        (self.folder / "broker.toml").write_text("\n".join(lines))
        self.start_broker()

    @property
    def namesrv_address(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    def _program(self, *words: str | Path) -> Program:
        program = Program([sys.executable, "-m", "pyromq", *words], name=f"pyromq {words[0]}")
        self._all.append(program)
        return program

    def start_broker(self) -> None:
        self.broker = self._program(
            "broker", "-c", self.folder / "broker.toml", "--listen", f"127.0.0.1:{self.broker_port}",
            "--namesrv-addr", self.namesrv_address,
        )  # fmt: skip
        self.broker.wait_for("ready")

    def kill_broker(self) -> None:
        assert self.broker is not None
        self.broker.kill()

    @property
    def words(self) -> list[str]:
        return [
            "--name", "test", "--database-url", self.url, "--namesrv", self.namesrv_address,
            "--state-dir", str(self.folder / "cdc"), "--include", ";".join(self.include), *self.more,
        ]  # fmt: skip

    def start_capture(self) -> Program:
        self.capture = self._program("cdc", "run", *self.words)
        return self.capture

    def kill_capture(self) -> None:
        assert self.capture is not None
        self.capture.kill()

    def command(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run another command of `pyromq cdc` with the same settings."""
        return subprocess.run(
            [sys.executable, "-m", "pyromq", "cdc", verb, *self.words, *more],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return found

    async def status_once(self, is_right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the status once it is right; it is on disk a moment after the last change is stored."""
        clock = SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        while not is_right(found := self.status()):
            assert clock.monotonic() < deadline, found
            await asyncio.sleep(0.1)
        return found

    def close(self) -> None:
        for program in self._all:
            program.kill()

    # --- what came --------------------------------------------------------------------------------------------------

    async def events(self, topic: str) -> list[ChangeEvent]:
        """Return all events of a topic; those of each queue in their order, one queue after the other."""
        return [decode_event(topic, body, properties) for body, properties in await self.messages(topic)]

    async def messages(self, topic: str) -> list[tuple[bytes, dict[str, str]]]:
        found = []
        async with connect(self.namesrv_address) as client:
            calls = Calls(client.session)
            route = await client.session.route(topic)
            for queue in route.readable:
                address = await client.session.master(queue)
                end = await admin.offsets.end(calls, address, topic, queue.queue_id)
                async for page in admin.messages.pages(calls, address, topic, queue.queue_id, 0, end):
                    found += [(message.body, dict(message.properties)) for message in page.messages]
        return found

    async def settled(self, topic: str, is_right: Callable[[list[ChangeEvent]], bool]) -> list[ChangeEvent]:
        """Return the events of a topic once they are right. Fails if they are not within a minute."""
        clock = SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        found: list[ChangeEvent] = []
        while clock.monotonic() < deadline:
            try:
                found = await self.events(topic)
            except Exception:
                await asyncio.sleep(0.1)
                continue
            if is_right(found):
                return found
            await asyncio.sleep(0.1)
        last = found[-3:]
        said = "" if self.capture is None else self.capture.tail()
        raise AssertionError(f"{topic} has {len(found)} events, the last are {last}; the capture said:\n{said}")


def rows_of(events: Sequence[ChangeEvent]) -> dict[str, Any]:
    """Apply the events as a sink does that keeps the newest row of each key."""
    rows: dict[str, Any] = {}
    for event in events:
        key = json.dumps(event.key)
        if event.op is Op.DELETE:
            rows.pop(key, None)
        elif event.op is Op.TRUNCATE:
            rows.clear()
        elif event.after is not None:
            rows[key] = rows.get(key, {}) | event.after
    return rows


def check_once(events: Sequence[ChangeEvent]) -> None:
    """Every change once, each number once, and the numbers of each key rise: nothing lost, repeated or out of order."""
    numbers = [event.number for event in events]
    assert len(set(numbers)) == len(numbers), "an event is there twice"
    newest: dict[str, int] = {}
    for event in events:
        key = json.dumps(event.key)
        assert event.number > newest.get(key, -1), f"the changes of {key} are out of order"
        newest[key] = event.number
