"""What the steps of the demo share: the console, a client, a folder, and processes that are ended whatever happens."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from ...ambient import Clock, SystemClock, system_random
from ...errors import CallRefused, PyroError
from ...model.codes import RequestCode, ResponseCode
from ...protocol.command import Command
from ...protocol.headers.header import Header
from ...transport.client import Client

CALL_S = 5.0
PATIENCE_S = 20.0  # for a start, a stop, or a change to show


@dataclass
class Stage:
    """One run of the demo. Data goes to `folder`, which is removed at the end."""

    console: Console
    clock: Clock
    client: Client
    folder: Path
    closing: AsyncExitStack
    namesrv: str = ""
    broker: str = ""
    simulated: dict[str, str] = field(default_factory=dict)  # brokers that exist in registrations alone

    def say(self, text: str) -> None:
        self.console.print(f"[bold cyan]>[/] {text}")

    async def ask(self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        """A request over the socket. CallRefused for any answer but success."""
        fields = {} if header is None else header.to_fields()
        response = await self.client.call(address, Command(code=code, fields=fields, body=body), CALL_S)
        if response.code != ResponseCode.SUCCESS:
            raise CallRefused(response.code, response.remark, address)
        return response

    async def start(self, daemon: str, options: Mapping[str, str], closing: AsyncExitStack | None = None) -> Daemon:
        """`pyromq <daemon>` as a process on a free loopback port, ready. Ends with `closing`, or else with the demo."""
        words = [word for pair in options.items() for word in pair]
        running = _running(self.clock, daemon, "--listen", "127.0.0.1:0", "--log-level", "error", *words)
        process = await (closing or self.closing).enter_async_context(running)
        return Daemon(process, await _ready_address(process, daemon, self.clock))


@dataclass(frozen=True)
class Daemon:
    process: asyncio.subprocess.Process
    address: str


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Whatever happens on it, what was started is stopped and the folder removed."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        async with AsyncExitStack() as closing:
            client = await closing.enter_async_context(Client(clock=clock, rng=system_random()))
            yield Stage(Console(), clock, client, Path(folder), closing)


@asynccontextmanager
async def patience(clock: Clock, waited_for: str) -> AsyncIterator[None]:
    """PyroError says what was waited for in vain."""
    try:
        async with clock.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise PyroError(f"waited {PATIENCE_S:g} s in vain for {waited_for}") from None


async def _ready_address(process: asyncio.subprocess.Process, daemon: str, clock: Clock) -> str:
    """The address in the daemon's ready line."""
    assert process.stdout is not None
    async with patience(clock, f"the ready line of {daemon}"):
        line = (await process.stdout.readline()).decode()
    found = re.search(r"(127\.0\.0\.1:\d+)", line)
    if found is None:
        raise PyroError(f"{daemon} did not come up; it said {line.strip()!r}")
    return found.group(1)


@asynccontextmanager
async def _running(clock: Clock, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`pyromq` with these arguments until the end of the block, then SIGTERM, which it must heed with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    except BaseException:
        await _end(process, clock)
        raise  # what went wrong matters more than how the process ended
    code = await _end(process, clock)
    if code not in (0, -signal.SIGKILL):  # a step may have killed it on purpose
        raise PyroError(f"process {process.pid} was to end with exit code 0 after SIGTERM, not with {code}")


async def _end(process: asyncio.subprocess.Process, clock: Clock) -> int:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with clock.timeout(PATIENCE_S):
            return await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1  # not -SIGKILL: that it had to be killed is the fault
