"""Several brokers on one machine as one cluster: a process each, watched by `pyromq up --brokers N`.

Nothing is shared between them but the name server: that is how RocketMQ scales out. With slaves each broker is one of
several processes of its name, which copy its log. One that dies is reported and
started again on its own port, for as long as it only lacks somebody who does not answer (etcd); one that keeps dying,
or does not start for another reason, ends all with an error that says so.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ... import logs
from ...ambient import Clock
from ...errors import ConfigError, PyroError
from ...store.recovery.nesting import check_not_above, check_not_inside
from ...transport.address import format_address, parse_address
from ..terminal.exits import NO_ANSWER

log = logs.get("pyromq.up")

PORT_STEP = 10  # between brokers: each also takes the port two below its own
MOST = 64
MOST_PORT = 65535
_DEATHS = 3  # within this many seconds: it will not get better by itself
_DEATHS_S = 60.0
_PAUSE_S = 1.0
_READY = "pyromq broker ready on "
_NUMBERED = re.compile(r"broker-(\d{1,4})(-slave-\d{1,4})?", re.ASCII)
_REPLICA = re.compile(r"replica-\d", re.ASCII)

# A set that loses nothing with one of its machines: a send is answered when a slave has it, and slaves are read.
_MASTER = {"PYROMQ_BROKER_BROKER_ROLE": "SYNC_MASTER", "PYROMQ_BROKER_SLAVE_READ_ENABLE": "true"}
_SLAVE = {"PYROMQ_BROKER_BROKER_ROLE": "SLAVE", "PYROMQ_BROKER_SLAVE_READ_ENABLE": "true"}


class NotStarted(PyroError):
    """A broker has ended before it took connections."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} did not start: exit code {code}, its own words are above")
        self.code = code


@dataclass(frozen=True, slots=True)
class BrokerHome:
    """Where one broker lives."""

    name: str
    folder: Path
    host: str
    port: int  # 0 takes a free one
    grpc_port: int | None = None  # the same, -1 opens none; None: as far from 8081 as the broker's port from 10911
    role: Mapping[str, str] = field(default_factory=dict)  # as variables of its environment

    @property
    def is_slave(self) -> bool:
        return "PYROMQ_BROKER_BROKER_ID" in self.role


def places(
    data: Path, count: int, host: str, port: int, grpc_port: int | None = None, slaves: int = 0
) -> list[BrokerHome]:
    """Return the homes of broker-0, broker-1 ..., then of so many slaves of each.

    ConfigError if the folder has brokers that would not be started."""
    if not 1 <= count <= MOST:
        raise ConfigError(f"--brokers {count}: from 1 to {MOST}")
    if not 0 <= slaves < MOST or count * (1 + slaves) > MOST:
        raise ConfigError(f"--brokers {count} --slaves {slaves}: up to {MOST} processes in all")
    for option, first in (("--broker-port", port), ("--grpc-port", grpc_port or 0)):
        last = first + (count * (1 + slaves) - 1) * PORT_STEP
        if first and last > MOST_PORT:
            raise ConfigError(
                f"{option} {first} with --brokers {count}: ports are {PORT_STEP} apart, so the last would be {last}, "
                f"and they end at {MOST_PORT}"
            )
    if (data / "store").exists():
        if numbered := _numbered(data):
            raise ConfigError(_both(data, numbered))
        raise ConfigError(
            f"{data} holds the store of a single broker, which would not be served: start it without --brokers, "
            "or name another folder with --data"
        )
    members = _members(count, slaves)
    left = sorted(one.name for one in data.glob("broker-*") if one.is_dir() and one.name not in members)
    if left:
        raise ConfigError(
            f"{data} also holds {', '.join(left)}, whose messages would not be served: "
            "start as many brokers and slaves as before, or name another folder with --data"
        )
    return [
        BrokerHome(name, data / folder, host, next_port(port, number), grpc_port and next_port(grpc_port, number), role)
        for number, (folder, (name, role)) in enumerate(members.items())
    ]


def _members(count: int, slaves: int) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Return name and role of each process by its folder, masters first."""
    names = [f"broker-{number}" for number in range(count)]
    found: dict[str, tuple[str, Mapping[str, str]]] = {name: (name, _MASTER if slaves else {}) for name in names}
    for number in range(1, slaves + 1):
        role = _SLAVE | {"PYROMQ_BROKER_BROKER_ID": str(number)}
        found |= {f"{name}-slave-{number}": (name, role) for name in names}
    return found


def next_port(first: int, number: int) -> int:
    """Return the port of a broker by its place; one that is chosen freely stays so."""
    return first + number * PORT_STEP if first > 0 else first


def check_apart(data: Path) -> None:
    """Raise DiskError if a broker that runs has its store around the folder or below it, and it is none of its own."""
    check_not_inside(data / "store")
    check_not_above(data, lambda name: name == "store" or bool(_NUMBERED.fullmatch(name) or _REPLICA.fullmatch(name)))


def check_single(data: Path) -> None:
    """Raise ConfigError if the folder is one of `--brokers`: a broker in `store` beside them would have none of it."""
    numbered = _numbered(data)
    if replicas := sorted(one.name for one in data.glob("replica-*") if one.is_dir()):
        raise ConfigError(
            f"{data} holds {', '.join(replicas)} of an elected set, which would not be served: start them with "
            f"--replicas {len(replicas)}, or name another folder with --data"
        )
    if not numbered:
        return
    if (data / "store").exists():
        raise ConfigError(_both(data, numbered))
    count = 1 + max(map(_number, numbered))
    raise ConfigError(
        f"{data} holds the stores of {', '.join(numbered)}, which would not be served: start them with "
        f"--brokers {count}, or name another folder with --data"
    )


def _numbered(data: Path) -> list[str]:
    """Return the folders that `--brokers` has made, by their numbers."""
    found = [one.name for one in data.glob("broker-*") if _NUMBERED.fullmatch(one.name) and one.is_dir()]
    return sorted(found, key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    found = _NUMBERED.fullmatch(name)
    return 0 if found is None else int(found[1])


def _both(data: Path, numbered: list[str]) -> str:
    return (
        f"{data} holds both the store of a single broker ({data / 'store'}) and those of {', '.join(numbered)}, "
        "and only one kind would be served: move store into another folder, which `pyromq up --data` takes, "
        f"and start with --brokers; or move {', '.join(numbered)} away and start without it"
    )


@dataclass(slots=True, eq=False, repr=False)
class BrokerProcess:
    """One broker, through all its lives. `flags`: options of `pyromq broker`, besides those that say where it lives."""

    place: BrokerHome
    namesrv: str
    flags: Sequence[str]
    environment: Mapping[str, str]
    clock: Clock
    _process: Process | None = field(default=None, init=False)
    _is_stopping: bool = field(default=False, init=False)

    async def start(self) -> str:
        """Start the broker and return its address once it takes connections. NotStarted if it ends before."""
        place = self.place
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyromq.cli.serve.child", str(os.getpid()), "broker"),
            *("--broker-name", place.name, "--store-path-root-dir", str(place.folder)),
            *("--listen", format_address(place.host, place.port), "--namesrv", self.namesrv),
            *(() if place.grpc_port is None else ("--grpc-server-port", str(place.grpc_port))),
            *self.flags,
            stdin=DEVNULL,
            stdout=PIPE,
            env={**self.environment, **place.role},
        )
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if not line.startswith(_READY):
            raise NotStarted(place.name, await process.wait())
        address = line.removeprefix(_READY).split()[0]
        self.place = replace(place, port=parse_address(address)[1])  # the next life has the same
        return address

    async def watch(self) -> None:
        """Start the broker again after each death, until it is stopped. PyroError if it dies too often.

        NotStarted if it does not start, and trying again does not help."""
        deaths: list[float] = []
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if self._is_stopping:
                return
            now = self.clock.monotonic()
            deaths = [*(one for one in deaths if now - one < _DEATHS_S), now]
            if len(deaths) >= _DEATHS:
                raise PyroError(f"{self.place.name} ended {_DEATHS} times within {_DEATHS_S:.0f} s, {_how(code)}")
            log.error("a broker ended and is started again", broker=self.place.folder.name, how=_how(code))
            await self._start_again()

    async def _start_again(self) -> None:
        """Start it until it takes connections: while etcd does not answer, the others of its set go on without it."""
        while True:
            await self.clock.sleep(_PAUSE_S)
            if self._is_stopping:
                return
            try:
                await self.start()
            except NotStarted as fault:
                if fault.code != NO_ANSWER:
                    raise
                log.error("a broker could not start and is tried again", broker=self.place.folder.name)
            else:
                log.warning("the broker is back", broker=self.place.folder.name, port=self.place.port)
                return

    async def stop(self) -> None:
        """Stop the broker in order, for as long as that takes."""
        self._is_stopping = True
        if self._process is not None:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGTERM)
            await self._process.wait()


async def run_brokers(
    brokers: list[BrokerProcess], ready: Callable[[list[str]], None], stop_wanted: asyncio.Event
) -> None:
    """Start all, then watch them until a stop is wanted or one is beyond help, which is raised. All are ended then."""
    tasks: list[asyncio.Task[None]] = []
    wanted = asyncio.create_task(stop_wanted.wait())
    try:
        starting = asyncio.gather(*(one.start() for one in brokers))
        await asyncio.wait((starting, wanted), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        ready(starting.result())
        tasks = [asyncio.create_task(one.watch()) for one in brokers]
        done, _ = await asyncio.wait((wanted, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in done - {wanted}:
            task.result()
    finally:
        for task in (wanted, *tasks):
            task.cancel()
        await asyncio.gather(wanted, *tasks, return_exceptions=True)
        await asyncio.gather(*(one.stop() for one in brokers), return_exceptions=True)


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
