"""Java's clients, 4.9 and 5.5, with credentials at our name server and broker, whose users Java's mqadmin has made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import require

from .peers import cache, java, ours
from .peers.process import answer_of
from .secured import ADMIN, SECRET, SETTINGS, SHOP, SHOPS

pytestmark = [pytest.mark.interop, pytest.mark.slow]


class Administered:
    """Our name server and broker, both with users, and Java's mqadmin as their administrator."""

    def __init__(self, stack: ExitStack, home: Path) -> None:
        self.names = ours.NameServer(home / "names", SETTINGS)
        stack.callback(self.names.kill)
        self.broker = ours.Broker(home / "broker", [self.names.address], SETTINGS)
        stack.callback(self.broker.kill)
        place = home / "admin"
        (place / "conf").mkdir(parents=True)
        (place / "conf" / "tools.yml").write_text(f'accessKey: {ADMIN}\nsecretKey: "{SECRET}"\n')
        self.admin = java.Admin("5.5.0", place)
        stack.callback(self.admin.kill)
        self._home = home

    def run(self, *words: str) -> str:
        return self.admin.run(words[0], "-n", self.names.address, *words[1:])

    def client(self, version: str, topic: str, group: str, secret: str = SHOPS) -> Any:
        """What a client of this version consumed of its five messages, or what went wrong."""
        words = (self.names.address, topic, group, "5", "30000", SHOP, secret)
        program = java.start(version, "Signed", words, home=self._home / f"client{version}", programs=True)
        try:
            return answer_of(program, timeout_s=90)
        finally:
            program.kill()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administered]:
    try:
        java.runtime()
        java.jars("5.5.0")
    except cache.PeerMissing as reason:
        require(False, str(reason))
    with ExitStack() as stack:
        yield Administered(stack, tmp_path_factory.mktemp("secured"))


def test_javas_clients_with_users_that_javas_mqadmin_made(secured: Administered) -> None:
    for server in (secured.broker.address, secured.names.address):
        made = secured.run("createUser", "-b", server, "-u", SHOP, "-p", SHOPS)
        assert made.strip() == f"create user to {server} success."
        rights = ("-r", "Topic:orders*,Group:shop*", "-a", "Pub,Sub", "-d", "Allow")
        given = secured.run("createAcl", "-b", server, "-s", f"User:{SHOP}", *rights)
        assert given.strip() == f"create acl to {server} success."
    shown = secured.run("getAcl", "-b", secured.broker.address, "-s", f"User:{SHOP}")
    assert [" ".join(line.split()) for line in shown.strip().splitlines()][1:] == [
        "User:shop Custom Topic:orders* [Pub, Sub] null Allow",
        "User:shop Custom Group:shop* [Pub, Sub] null Allow",
    ]
    expected = [f"signed{number}" for number in range(5)]
    for version in ("4.9.8", "5.5.0"):
        topic, group = f"orders-{version[0]}", f"shop-{version[0]}"
        assert sorted(secured.client(version, topic, group)) == expected
        assert "MQ" in str(secured.client(version, topic, group, "guessed"))
        assert "MQ" in str(secured.client(version, "others", group))
    secured.broker.stop()
    secured.broker.restart()
    for version in ("4.9.8", "5.5.0"):
        assert sorted(secured.client(version, f"orders-again-{version[0]}", f"shop-again-{version[0]}")) == expected
