"""One broker of ours on the store that Java's mqadmin was recorded with, with the clients that were there then."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq import sync
from pyromq.client.received import Received
from pyromq.client.subscription import Filter
from pyromq.model.group import ConsumeFromWhere
from pyromq.mqadmin.main import run
from tests.interop.conftest import is_known
from tests.interop.peers import ours
from tests.interop.peers.process import Program
from tests.interop.waiting import eventually
from tests.support import golden_store

from .golden import BROKER, NAME_SERVER, Block

# The sizes of the recorded store, and nothing that moves by itself while we look.
SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "mapperFileSizeBatchConsumeQueue": "46000",
    "mappedFileSizeTimerLog": "4096",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "traceTopicEnable": "true",
    "transactionCheckInterval": "3600000",
    "enabledAppendPropCRC": "false",
    "diskMaxUsedSpaceRatio": "95",
}
LIVE_CONSUMER, LIVE_PRODUCER = "192.0.2.2@GID_live", "192.0.2.2@PID_live"


class Shown:
    """What one command line did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def all(self) -> str:
        """Output, and behind it the cause of a failure, as the recording has it."""
        return self.out + "".join(line + "\n" for line in self.err.splitlines() if line.startswith("Caused by: "))


def call(*words: str) -> Shown:
    """`mqadmin` in this process."""
    out: list[str] = []
    err: list[str] = []
    code = run(words, out.append, err.append)
    return Shown(code, "".join(out), "".join(err))


class Stage:
    """A name server and a broker, and the names that they had in the recording."""

    def __init__(self, servers: str, broker: str, clients: dict[str, str] | None = None) -> None:
        self.servers = servers
        self.broker = broker
        self._own = {NAME_SERVER: servers, BROKER: broker, place_of(BROKER): place_of(broker), **(clients or {})}

    def call(self, *words: str) -> Shown:
        return call(*words, "-n", self.servers)

    def words(self, block: Block) -> list[str]:
        """A recorded invocation, with our own addresses in the place of those of the recording."""
        words = block.words
        for recorded, own in self._own.items():
            words = [word.replace(recorded, own) for word in words]
        return words

    def as_recorded(self, printed: str) -> str:
        """The other way round."""
        for recorded, own in self._own.items():
            printed = printed.replace(own, recorded)
        return printed

    def repeat(self, block: Block) -> Shown:
        shown = call(*self.words(block))
        return Shown(shown.code, self.as_recorded(shown.out), self.as_recorded(shown.err))


def _handle(message: Received) -> None:
    """Good."""


def place_of(address: str) -> str:
    """How a message's place begins: the broker's address in hex."""
    host, _, port = address.partition(":")
    return (socket.inet_aton(host) + int(port).to_bytes(4, "big")).hex().upper()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return lambda name: tmp_path_factory.mktemp(name)


@pytest.fixture(scope="session")
def servers(home: Callable[[str], Path]) -> Iterator[str]:
    server = ours.NameServer(home("namesrv"))
    yield server.address
    server.kill()


@pytest.fixture(scope="session")
def recorded(servers: str, home: Callable[[str], Path]) -> Iterator[Stage]:
    """On the recorded store, with GID_live and PID_live online."""
    with ExitStack() as stack:
        place = home("recorded")
        golden_store(place)
        broker = ours.Broker(place, [servers], SETTINGS, name="broker-a")
        stack.callback(broker.kill)
        eventually(lambda: is_known(servers, "broker-a"), "the broker has registered")
        consumer = stack.enter_context(sync.connect(servers, instance="GID_live"))
        wanted = Filter(tags=frozenset(("TagA", "TagB")))
        options: dict[str, Any] = {"begin": ConsumeFromWhere.FIRST_OFFSET, "commit_s": 0.1}
        handled = consumer.push_consumer("GoldenRoll", _handle, group="GID_live", filter=wanted, **options)
        stack.enter_context(handled)
        client = stack.enter_context(sync.connect(servers, instance="PID_live"))
        stack.enter_context(client.producer("PID_live")).send("GoldenRoll", b"here I am")
        progress = ("consumerProgress", "-n", servers, "-g", "GID_live", "-t", "GoldenRoll")
        at_the_end = re.compile(r"GoldenRoll .*\n\nConsume TPS: .*\nConsume Diff Total: 0\n")
        eventually(lambda: at_the_end.search(call(*progress).out), "the consumer is at the end of GoldenRoll")
        yield Stage(servers, broker.address, {LIVE_CONSUMER: consumer.client_id, LIVE_PRODUCER: client.client_id})


@pytest.fixture(scope="session")
def up(home: Callable[[str], Path]) -> Iterator[Stage]:
    """`pyromq up`, as a newcomer starts it."""
    place = home("up")
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(place / "data")]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    with Program([*command, *ports], name="pyromq up", env={"HOME": str(place)}, cwd=place) as program:
        found = program.wait_for(r"Name server (127\.0\.0\.1:\d+).*broker (127\.0\.0\.1:\d+)")
        eventually(lambda: is_known(found[1], "broker-a"), "the broker has registered")
        yield Stage(found[1], found[2])
