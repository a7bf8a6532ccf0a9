"""A name server and brokers as processes on loopback: Spark's workers are processes too, and reach them by sockets."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyromq
from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.ambient import SystemClock, pause, system_random
from pyromq.client.config import ClientConfig
from pyromq.client.connect.session import Session
from pyromq.client.errors import NoBroker, TopicNotFound
from pyromq.model.names import AUTO_CREATE_TOPIC
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.options import Use, connection_options

SMALL = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20 * 30_000,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "duplicateWindowEnable": "true",
    "waitTimeMillsInSendQueue": 60_000,  # a busy machine is no overload
    "osPageCacheBusyTimeOutMills": 60_000,
}


_TOGETHER = 10  # messages of one send: a queue gets so many, then the next one its share


class Daemon:
    """One process; `address` is read from its ready line. `apart`: in a session of its own, so that Ctrl-C reaches only
    those who use it; they stop it when they are done."""

    def __init__(self, *arguments: str, apart: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyromq", *arguments, "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=apart,
        )
        try:
            self.address = self._ready(arguments[0])
        except BaseException:  # Ctrl-C too: nobody else knows of the process yet
            self.stop(signal.SIGKILL)
            raise

    def _ready(self, name: str) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(127\.0\.0\.1:\d+)", line)
        if found is None:
            raise AssertionError(f"{name} did not come up: {line!r}")
        return found[1]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def until_registered(namesrv: str, broker: str, topic: str = AUTO_CREATE_TOPIC, **options: str) -> None:
    """With that topic, one that every broker has unless told. `options`: how to reach the name server."""
    with Cluster(connection_options({"nameServer": namesrv} | options, Use.BATCH)) as cluster:
        for _ in range(600):
            with suppress(TopicNotFound, NoBroker):
                if broker in cluster.route(topic).addresses:
                    return
            pause(0.05)
    raise AssertionError(f"{broker} did not register {topic}")


def until_free(listen: str) -> None:
    """A port of its own may be somebody's outgoing connection for a moment, while its daemon was down."""
    host, _, port = listen.rpartition(":")
    for _ in range(600):
        with suppress(OSError), socket.create_server((host, int(port))):
            return
        pause(0.05)
    raise AssertionError(f"{listen} is somebody else's")


def handed_out(namesrv: str, address: str) -> int:
    """Return how many messages the broker at this address has given to pulls since its start."""

    async def ask() -> int:
        session = Session(ClientConfig(name_servers=(namesrv,)), clock=SystemClock(), rng=system_random())
        try:
            found = await admin.cluster.runtime(Calls(session, timeout_s=60), address)
            return int(found["msgGetTotalTodayNow"])
        finally:
            await session.stop()

    return asyncio.run(ask())


class Servers:
    """Stopped in any case by `close`."""

    def __init__(self, folder: Path, *, apart: bool = False) -> None:
        self._folder = folder
        self._apart = apart
        self._names = Daemon("namesrv", "--listen", "127.0.0.1:0", apart=apart)
        self.namesrv = self._names.address
        self.brokers: dict[str, Daemon] = {}
        self._ports: dict[str, str] = {}

    def start(self, name: str = "broker-a", **settings: object) -> None:
        """A broker, or the one of that name again at its old address."""
        config = self._folder / f"{name}.conf"
        if not config.exists():
            told = SMALL | {"brokerName": name, "storePathRootDir": self.store(name)} | settings
            config.write_text("".join(f"{key}={value}\n" for key, value in told.items()), "utf-8")
        listen = self._ports.get(name, "127.0.0.1:0")
        words = ("--listen", listen, "--namesrv", self.namesrv, "--config", str(config))
        until_free(listen)
        self.brokers[name] = Daemon("broker", *words, apart=self._apart)
        self._ports[name] = self.brokers[name].address
        until_registered(self.namesrv, name)

    def kill(self, name: str = "broker-a") -> None:
        self.brokers.pop(name).stop(signal.SIGKILL)

    def store(self, name: str = "broker-a") -> Path:
        return self._folder / name / "store"

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.stop()
        self._names.stop()

    def handed_out(self, name: str = "broker-a") -> int:
        """Return how many messages the broker has given to pulls since its start."""
        return handed_out(self.namesrv, self.brokers[name].address)

    def send(self, topic: str, count: int, *, first: int = 0, tag: str = "", size: int = 0) -> None:
        """Numbered messages (`m7...`), spread over the queues."""
        with pyromq.sync.connect(self.namesrv) as client, client.producer() as producer:
            for begin in range(first, first + count, _TOGETHER):
                numbers = range(begin, min(begin + _TOGETHER, first + count))
                values = [f"m{number}".ljust(size, ".").encode() for number in numbers]
                producer.send_many(topic, values, tag=tag or None)
