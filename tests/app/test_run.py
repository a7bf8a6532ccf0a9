"""`pyromq run` with real processes: one and many workers, one that dies, changed sources, a stop that loses nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.app.supervisor import Supervisor, snapshot
from pyromq.client.produce.producer import Producer
from tests.client.world import Servers, turns_until

SHOP = """
import os
import pyromq

app = pyromq.App()

@app.subscriber("orders", group="billing", begin=pyromq.ConsumeFromWhere.FIRST_OFFSET)
@app.publisher("invoices")
async def bill(order: str) -> str:
    if order == "poison":
        os._exit(9)
    return f"{VERSION} {os.getpid()} {order}"

VERSION = "v1"
"""


@pytest.fixture
async def shop(world: Servers) -> Servers:
    """A broker with the topics of the service, and the service's source beside it."""
    await world.create_topic("orders", 4)
    await world.create_topic("invoices", 1)
    (world.folder / "shop.py").write_text(SHOP)
    return world


class Service:
    """`pyromq run` as its users start it."""

    def __init__(self, world: Servers, process: asyncio.subprocess.Process) -> None:
        self._world = world
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self._came = asyncio.Event()

    @classmethod
    async def start(cls, world: Servers, *arguments: str) -> Service:
        (address,) = world.name_servers
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq", "run", "shop:app", "--dir", str(world.folder), "-n", address),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        return cls(world, process)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode())
            self._came.set()

    async def said(self, pattern: str, times: int = 1) -> list[str]:
        """Waits until so many lines fit."""
        async with asyncio.timeout(60):
            while len(found := [each for each in self.lines if re.search(pattern, each)]) < times:
                assert self.process.returncode is None, self.lines
                self._came.clear()
                await self._came.wait()
        return found

    async def ready(self, times: int = 1) -> list[int]:
        """Process ids of workers that were ready so far."""
        return [int(each.split()[-1]) for each in await self.said("ready, process", times)]

    async def stop(self) -> int:
        if self.process.returncode is None:
            self.process.terminate()
        code = await self.process.wait()
        await self._reading
        return code


async def invoices(world: Servers, count: int) -> list[list[str]]:
    """Version, process and order of each."""
    found: list[list[str]] = []
    async with world.client() as client, client.pull_consumer("look", auto_commit=False) as consumer:
        (queue,) = await consumer.queues("invoices")
        await consumer.assign([queue])
        await consumer.seek_to_begin(queue)
        async with asyncio.timeout(60):
            while len(found) < count:
                found += [each.body.decode().split() for each in await consumer.poll(timeout=0.5)]
    return found


async def send(producer: Producer, *orders: str) -> None:
    for each in orders:
        await producer.send("orders", each)


async def test_one_process_serves_until_it_is_told_to_stop(shop: Servers) -> None:
    service = await Service.start(shop)
    try:
        (pid,) = await service.ready()
        assert pid == service.process.pid
        async with shop.client() as client, client.producer() as producer:
            await send(producer, "1", "2", "3")
        assert sorted(each[2] for each in await invoices(shop, 3)) == ["1", "2", "3"]
    finally:
        assert await service.stop() == 0, service.lines


async def test_workers_share_the_work_one_that_dies_is_replaced_and_nothing_is_lost(shop: Servers) -> None:
    service = await Service.start(shop, "--workers", "2")
    try:
        first = await service.ready(2)
        async with shop.client() as client, client.producer() as producer:
            await send(producer, *(str(number) for number in range(20)))
            os.kill(first[0], signal.SIGKILL)
            await send(producer, *(str(number) for number in range(20, 40)))
            assert len(set(await service.ready(3))) == 3
            found = await invoices(shop, 40)
        while len({each[2] for each in found}) < 40:  # a killed worker's messages come again: some may be twice
            found = await invoices(shop, len(found) + 1)
    finally:
        code = await service.stop()
    assert code == 0, service.lines
    for pid in await_pids(service):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def await_pids(service: Service) -> list[int]:
    return [int(each.split()[-1]) for each in service.lines if "ready, process" in each]


async def test_workers_end_with_the_one_who_keeps_them_however_it_ends(shop: Servers) -> None:
    service = await Service.start(shop, "--workers", "2")
    pids = await service.ready(2)
    service.process.kill()
    async with asyncio.timeout(60):
        await service.stop()
        await turns_until(lambda: not any(map(is_running, pids)))


def is_running(pid: int) -> bool:
    """Not gone, and no zombie that whoever adopted it has not looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_changed_sources_start_the_workers_anew(shop: Servers) -> None:
    service = await Service.start(shop, "--reload")
    try:
        await service.ready()
        async with shop.client() as client, client.producer() as producer:
            await send(producer, "1")
            await invoices(shop, 1)
            # Longer than before: compiled sources are told apart by their size and the second they were written in.
            (shop.folder / "shop.py").write_text(SHOP.replace("v1", "v2-anew"))
            await service.ready(2)
            await send(producer, "2")
            found = await invoices(shop, 2)
        assert [each[::2] for each in found] == [["v1", "1"], ["v2-anew", "2"]]
    finally:
        assert await service.stop() == 0, service.lines


_SUBSCRIBER = (
    "import pyromq\napp = pyromq.App()\n@app.subscriber('orders', group='billing'%s)\nasync def bill(%s): ...\n"
)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("application = 3", "'app' is not there in"),
        ("import pyromq\napp = pyromq.App(trce=True)", "App(...): there is no 'trce'; did you mean trace?"),
        ("import pyromq\napp = pyromq.App('nowhere')", "App(...): "),
        (
            _SUBSCRIBER % (", concurency=3", "msg"),
            "group 'billing': there is no 'concurency'; did you mean concurrency?",
        ),
        (_SUBSCRIBER % (", begin='first', concurrency=0", "msg"), "subscriber of group 'billing': concurrency"),
        (_SUBSCRIBER % ("", ""), "takes 0 arguments"),
        (_SUBSCRIBER % (")\n@app.publisher('out', delay='3'", "msg"), "publisher to 'out': delay: '3' is no number"),
    ],
)
async def test_a_wrong_name_or_setting_is_one_line_and_the_end(
    world: Servers, workers: str, source: str, reason: str
) -> None:
    (world.folder / "shop.py").write_text(source)
    service = await Service.start(world, "--workers", workers)
    assert await service.process.wait() == 78
    await service.stop()
    (line,) = service.lines
    assert line.startswith("pyromq: ")
    assert reason in line


@pytest.mark.parametrize(
    ("set_up", "line"),
    [
        ("", r"^\S+Z INFO shop.billing billed 7$"),
        ("logging.basicConfig(level='INFO', format='mine: %(message)s')", r"^mine: billed 7$"),
    ],
)
async def test_the_logs_of_the_service_are_shown(shop: Servers, set_up: str, line: str) -> None:
    source = SHOP.replace("import pyromq\n", f"import logging\nimport pyromq\n{set_up}\n", 1)
    told = "logging.getLogger('shop.billing').info('billed %s', order)"
    (shop.folder / "shop.py").write_text(source.replace("    if order", f"    {told}\n    if order"))
    service = await Service.start(shop)
    try:
        await service.ready()
        async with shop.client() as client, client.producer() as producer:
            await send(producer, "7")
        await service.said(line)
    finally:
        assert await service.stop() == 0, service.lines


async def test_a_client_that_waits_ends_in_order_on_sigterm(shop: Servers) -> None:
    source = """
import asyncio, sys, pyromq

async def main():
    async with pyromq.connect(sys.argv[1]) as client:
        async def handle(msg): ...
        async with client.push_consumer("orders", handle, group="g"):
            asyncio.get_running_loop().call_soon(lambda: print("up", flush=True))
            await client.wait()
    print("down", flush=True)

asyncio.run(main())
"""
    (address,) = shop.name_servers
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", source, address), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"up\n"
        process.terminate()
        rest, errors = await process.communicate()
    assert (rest, errors, process.returncode) == (b"down\n", b"", 0)


async def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_program_from_ending(shop: Servers) -> None:
    source = """
import asyncio, sys, pyromq
from pyromq.client.consume import consume_service

begun = asyncio.Event()

async def handle(msg: pyromq.Received) -> None:
    begun.set()
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

async def main():
    consume_service.CLEAN_UP_S = 0.1
    async with pyromq.connect(sys.argv[1]) as client, client.producer() as producer:
        await producer.send("orders", b"x")
        async with client.push_consumer("orders", handle, group="g", begin="first", grace_s=0.1, orderly=ORDERLY):
            await begun.wait()
            asyncio.get_running_loop().call_soon(lambda: print("up", flush=True))
            await client.wait()
    print("down", flush=True)

asyncio.run(main())
print("over", flush=True)
"""
    (address,) = shop.name_servers
    for orderly in ("True", "False"):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", source.replace("ORDERLY", orderly), address),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"up\n"
            process.terminate()
            rest, _ = await process.communicate()
        assert (rest, process.returncode) == (b"down\nover\n", 0)


async def test_a_worker_that_does_not_end_is_killed_after_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.app.supervisor.GRACE_S", 0.2)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('up', 'w'); time.sleep(600)"
    monkeypatch.chdir(tmp_path)
    supervisor = Supervisor([sys.executable, "-c", stubborn], 1, clock=SystemClock())
    stop = asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop))
    await turns_until((tmp_path / "up").exists)
    stop.set()
    async with asyncio.timeout(60):
        assert await running == 0


def test_only_sources_are_watched(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", ".venv/c.py", "sub/d.py", "sub/__pycache__/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert {str(path.relative_to(tmp_path)) for path in snapshot(tmp_path)} == {"a.py", "sub/d.py"}
