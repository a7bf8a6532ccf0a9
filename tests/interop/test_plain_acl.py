"""A Java client of 4.9 with accounts of ACL 1.0 at our broker, which reads the files that Java's would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import require

from .peers import cache, java, ours
from .peers.process import answer_of

pytestmark = [pytest.mark.interop, pytest.mark.slow]
VERSION, SHOP, SECRET = "4.9.8", "the-shop", "the shop's secret"
ACCOUNTS = """\
globalWhiteRemoteAddresses: [{white}]
accounts:
- accessKey: the-shop
  secretKey: "the shop's secret"
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB|SUB, {more}]
  groupPerms: [shop=SUB, shop-again=SUB]
- accessKey: the-boss
  secretKey: "the boss's secret"
  admin: true
"""


class Plain:
    """Our broker with `aclEnable`, and the file that it watches."""

    def __init__(self, stack: ExitStack, home: Path) -> None:
        self._home = home
        self.file = home / "home" / "conf" / "plain_acl.yml"
        self.file.parent.mkdir(parents=True)
        self.write()
        self.names = ours.NameServer(home / "names", {})
        stack.callback(self.names.kill)
        settings = {"aclEnable": "true", "rocketmqHome": str(home / "home")}
        self.broker = ours.Broker(home / "broker", [self.names.address], settings)
        stack.callback(self.broker.kill)
        place = home / "admin"
        (place / "conf").mkdir(parents=True)
        (place / "conf" / "tools.yml").write_text('accessKey: the-boss\nsecretKey: "the boss\'s secret"\n')
        self.admin = java.Admin(VERSION, place)
        stack.callback(self.admin.kill)

    def write(self, more: str = "others=SUB", white: str = "") -> None:
        self.file.write_text(ACCOUNTS.format(more=more, white=white))

    def client(self, topic: str, group: str, secret: str = SECRET) -> Any:
        """What a client consumed of its five messages, or what went wrong."""
        words = (self.names.address, topic, group, "5", "30000", SHOP, secret)
        program = java.start(VERSION, "Signed", words, home=self._home / "client", programs=True)
        try:
            return answer_of(program, timeout_s=90)
        finally:
            program.kill()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Plain]:
    try:
        java.runtime()
        java.jars(VERSION)
    except cache.PeerMissing as reason:
        require(False, str(reason))
    with ExitStack() as stack:
        yield Plain(stack, tmp_path)


def test_a_java_client_with_accounts_of_files(plain: Plain) -> None:
    expected = [f"signed{number}" for number in range(5)]
    assert sorted(plain.client("orders", "shop")) == expected
    assert "MQ" in str(plain.client("orders", "shop", "guessed"))
    assert "MQ" in str(plain.client("others", "shop"))  # SUB alone
    made = plain.admin.run("updateTopic", "-n", plain.names.address, "-b", plain.broker.address, "-t", "made")
    assert "success" in made
    plain.write("again=PUB|SUB")
    while (found := plain.client("again", "shop-again")) != expected and "MQ" in str(found):
        pass
    assert sorted(found) == expected
    plain.write(white="127.0.0.*")
    while (found := plain.client("others", "shop", "guessed")) != expected and "MQ" in str(found):
        pass
    assert sorted(found) == expected
