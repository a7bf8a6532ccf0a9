"""What the steps of the demo share: the console, a folder, and a `pyromq up` that is ended whatever happens."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from ...ambient import Clock, SystemClock
from ...errors import PyroError

PATIENCE_S = 60.0  # for a start, a stop, or a message to come, on a busy machine
# As a patient operator would not set them: nobody wants to wait ten seconds for the first retry of a demo.
HASTE = {
    "PYROMQ_BROKER_MESSAGE_DELAY_LEVEL": "1s " * 18,
    "PYROMQ_BROKER_TRANSACTION_TIME_OUT": "1000",
    "PYROMQ_BROKER_TRANSACTION_CHECK_INTERVAL": "1000",
}


@dataclass
class DemoRun:
    """One run of the demo. Data goes to `folder`, which is removed at the end."""

    console: Console
    clock: Clock
    folder: Path
    closing: AsyncExitStack
    namesrv: str = ""
    broker: str = ""
    process: asyncio.subprocess.Process | None = None
    message_ids: dict[str, str] = field(default_factory=dict)  # by topic: one whose way is shown later

    def say(self, text: str) -> None:
        self.console.print(f"[bold cyan]>[/] {text}", highlight=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show on a terminal that something works, and for how long; elsewhere `say` has said it."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bars:
            bars.add_task(what, total=None)
            yield

    @asynccontextmanager
    async def patience(self, waited_for: str) -> AsyncIterator[None]:
        """Wait at most a minute for what happens inside. PyroError says what was waited for."""
        try:
            async with self.clock.timeout(PATIENCE_S):
                yield
        except TimeoutError:
            raise PyroError(f"waited {PATIENCE_S:g} s in vain for {waited_for}") from None

    async def command(self, *words: str) -> str:
        """Return what `pyromq` prints for these words. PyroError if it does not end with 0."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"PYROMQ_NAMESRV": self.namesrv} | self._width(),
        )
        try:
            printed, complaints = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise PyroError(f"pyromq {' '.join(words)} ended with {process.returncode}: {complaints.decode()[-2000:]}")
        return printed.decode()

    def _width(self) -> dict[str, str]:
        """Return the variable by which a command fits what it prints to this terminal."""
        return {"COLUMNS": str(self.console.width)} if self.console.is_terminal else {}

    def show(self, printed: str) -> None:
        self.console.print(printed, markup=False, highlight=False, soft_wrap=True, end="")


@asynccontextmanager
async def open_run() -> AsyncIterator[DemoRun]:
    """Yield a run; at its end, however it comes, what was started is stopped and the folder removed."""
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        async with AsyncExitStack() as closing:
            yield DemoRun(Console(), SystemClock(), Path(folder), closing)


async def start(run: DemoRun) -> None:
    """Start `pyromq up` on free loopback ports, and after a kill on the same ones."""
    ports = [address.rpartition(":")[2] or "0" for address in (run.namesrv, run.broker)]
    options = ["--data", str(run.folder / "data"), "--namesrv-port", ports[0], "--broker-port", ports[1]]
    run.process = await run.closing.enter_async_context(_running(run, *options))
    assert run.process.stdout is not None
    async with run.patience("pyromq up"):
        line = (await run.process.stdout.readline()).decode()
    found = re.search(r"Name server (\S+), broker ([^\s,]+)", line)
    if found is None:
        raise PyroError(f"pyromq up did not come up; it said {line.strip()!r}")
    again = bool(run.namesrv)
    run.namesrv, run.broker = found.groups()
    if not again:
        run.say(f"pyromq up: name server {run.namesrv} and broker {run.broker} in process {run.process.pid}")


async def kill_and_start(run: DemoRun) -> None:
    assert run.process is not None
    run.process.kill()
    await run.process.wait()
    await start(run)
    run.say(f"kill -9, and up again in process {run.process.pid}")


@asynccontextmanager
async def _running(run: DemoRun, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `pyromq up` until the end of the demo, then end it by SIGTERM. PyroError if its exit code is not 0."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", "--log-level", "error", "up", *options),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | HASTE,
    )
    try:
        yield process
    except BaseException:
        await _end(process, run.clock)
        raise  # what went wrong matters more than how the process ended
    code = await _end(process, run.clock)
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
