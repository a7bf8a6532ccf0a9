"""A real Java 5.5.0 slave of our master: its log is ours byte by byte, over file rolls, restarts and kills; and what a
SYNC_MASTER answers while it is there, stopped and gone. Forged peers at the HA port change nothing of that."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.replication.classic import encode_report
from pyromq.protocol.requests import RequestCode as Code

from . import wire
from .peers import java, ours
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

FILE_BYTES = 1 << 16
SMALL = {"mappedFileSizeCommitLog": str(FILE_BYTES)}
SLAVE_TIMEOUT_MS = 1_500
OK, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 0, 11, 12


class Pair:
    """Our master and its Java slave."""

    def __init__(self, name_server: str, home: Callable[[str], Path], name: str, settings: dict[str, str]) -> None:
        self.name_server = name_server
        self.master = ours.Broker(home(f"{name}-m"), [name_server], SMALL | settings, name=name)
        own = SMALL | {"brokerRole": "SLAVE", "brokerId": "1"}
        self.slave = java.Broker("5.5.0", home(f"{name}-s"), [name_server], own, name=name)
        self.port = int(self.slave.address.rsplit(":", 1)[1])

    def send(self, count: int = 1, properties: str = "", body: bytes = b"x" * 700, topic: str = "T") -> list[int]:
        return [self.send_one(properties, body, topic, number % 4)[0] for number in range(count)]

    def send_one(
        self, properties: str = "", body: bytes = b"x", topic: str = "T", queue: int = 0, sys_flag: int = 0
    ) -> tuple[int, float]:
        fields = {
            "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": str(queue), "sysFlag": str(sys_flag), "bornTimestamp": "1700000000000", "flag": "0",
            "properties": properties,
        }  # fmt: skip
        begun = time.monotonic()
        answer = wire.ask(self.master.address, Code.SEND_MESSAGE.code, fields, body=body)
        return answer.code, time.monotonic() - begun

    def send_kinds(self) -> None:
        """Messages of several kinds, several files of them."""
        self.send(120, "KEYS\x01k\x02TAGS\x01a\x02")
        self.send(3, "DELAY\x011\x02")
        self.send(2, "TIMER_DELAY_SEC\x0160\x02")
        self.send_one("TRAN_MSG\x01true\x02PGROUP\x01P\x02", sys_flag=4)
        self.send(2, body=b"y" * 60_000)  # each fills a file nearly alone

    def status(self) -> Any:
        return wire.json_with_bare_keys(wire.ask(self.master.address, Code.GET_BROKER_HA_STATUS.code).body)

    def in_sync(self) -> int:
        return int(self.status()["inSyncSlaveNums"])

    def logs_are_equal(self) -> bool:
        mine, theirs = log_of(self.master.home), log_of(self.slave.home)
        return bool(mine) and all(theirs.get(name) == content for name, content in mine.items())

    def caught_up(self, what: str) -> None:
        eventually(self.logs_are_equal, f"the slave's log is the master's {what}", 60.0)
        end = self.status()["masterCommitLogMaxOffset"]
        eventually(
            lambda: [one["slaveAckOffset"] for one in self.status()["haConnectionInfo"]] == [end], "it is acked", 30.0
        )

    def close(self) -> None:
        self.slave.kill()
        self.master.kill()


def log_of(home: Path) -> dict[str, bytes]:
    """The log files with anything in them."""
    files = sorted((home / "store" / "commitlog").glob("[0-9]*"))
    return {file.name: content for file in files if (content := file.read_bytes()).strip(b"\0")}


@pytest.fixture(scope="module")
def synced(java_peers: None, name_server: ours.NameServer, home: Callable[[str], Path]) -> Iterator[Pair]:
    settings = {"brokerRole": "SYNC_MASTER", "slaveTimeout": str(SLAVE_TIMEOUT_MS), "haStartFromFirst": "true"}
    pair = Pair(name_server.address, home, "sync-pair", settings)
    eventually(lambda: pair.in_sync() == 1, "the slave follows", 60.0)
    pair.send(4, "WAIT\x01false\x02")
    yield pair
    pair.close()


def test_a_slave_has_our_log_over_rolls_restarts_and_kills(
    java_peers: None, name_server: ours.NameServer, home: Callable[[str], Path]
) -> None:
    pair = Pair(name_server.address, home, "async-pair", {"brokerRole": "ASYNC_MASTER", "haStartFromFirst": "true"})
    try:
        pair.send_kinds()
        assert len(log_of(pair.master.home)) > 3
        pair.caught_up("at its first start")
        pair.slave.kill()
        pair.send_kinds()
        pair.slave.restart(pair.port)
        pair.caught_up("after it was killed")
        pair.master.stop()
        pair.master.restart()
        pair.send_kinds()
        pair.caught_up("after the master was restarted")
        pair.master.kill()
        pair.master.restart()
        pair.send_kinds()
        pair.caught_up("after the master was killed")
    finally:
        pair.close()


def test_sends_are_answered_once_the_slave_has_them(synced: Pair) -> None:
    assert set(synced.send(50)) == {OK}
    assert synced.send(2, "DELAY\x011\x02") == [OK, OK]
    assert synced.send_one("TRAN_MSG\x01true\x02PGROUP\x01P\x02", sys_flag=4)[0] == OK
    synced.caught_up("with every answer")


def test_a_stopped_slave_makes_sends_late_and_forged_peers_do_not_help(synced: Pair) -> None:
    host, port = synced.master.address.rsplit(":", 1)
    ha_port = int(port) + 1
    end = int(synced.status()["masterCommitLogMaxOffset"])
    synced.slave.program.signal(signal.SIGSTOP)
    try:
        for forged in (encode_report(1 << 62), encode_report(end + 1), os.urandom(64), b"\x00" * 5):
            with socket.create_connection((host, ha_port), 10) as peer:
                peer.sendall(forged)
                code, seconds = synced.send_one()
                assert code == FLUSH_SLAVE_TIMEOUT
                assert seconds >= SLAVE_TIMEOUT_MS / 1000 * 0.9
        assert synced.send_one("WAIT\x01false\x02")[0] == OK
    finally:
        synced.slave.program.signal(signal.SIGCONT)
    synced.caught_up("when it goes on")
    assert synced.send(5) == [OK] * 5


def test_without_its_slave_a_master_says_so_at_once_until_it_is_back(synced: Pair) -> None:
    synced.slave.kill()
    eventually(lambda: synced.in_sync() == 0, "the slave is gone", 30.0)
    assert synced.send(3) == [SLAVE_NOT_AVAILABLE] * 3
    assert synced.send(1, "WAIT\x01false\x02") == [OK]
    synced.slave.restart(synced.port)
    eventually(lambda: synced.in_sync() == 1, "the slave is back", 60.0)
    synced.caught_up("after it was away")
    assert synced.send(3) == [OK] * 3
