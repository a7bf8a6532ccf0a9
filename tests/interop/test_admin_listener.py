"""Java's mqadmin and ours, unmodified, with servers that keep administration apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from tests.interop.peers import java, ours

from .conftest import is_known
from .waiting import eventually

pytestmark = pytest.mark.interop

_SERVED = r"administration is served apart address=(\S+)"


@pytest.fixture(scope="module")
def apart(home: Callable[[str], Path]) -> Iterator[tuple[ours.NameServer, ours.Broker, str, str]]:
    """Name server and broker, and their addresses for administration."""
    apart = {"adminListener": "127.0.0.1:0"}
    name_server = ours.NameServer(home("apart-names"), apart)
    broker = ours.Broker(home("apart"), [name_server.address], apart)
    of_names, of_broker = (each.program.wait_for(_SERVED)[1] for each in (name_server, broker))
    eventually(lambda: is_known(name_server.address, broker.name), "the broker has registered")
    yield name_server, broker, of_names, of_broker
    broker.kill()
    name_server.kill()


def test_java_s_mqadmin_is_given_the_addresses(
    admin: java.Admin, apart: tuple[ours.NameServer, ours.Broker, str, str]
) -> None:
    names, broker, of_names, of_broker = apart
    create = ("updateTopic", "-t", "Apart", "-r", "20", "-w", "20")
    refused = admin.run(*create, "-n", names.address, "-b", broker.address)
    assert "CODE: 16" in refused
    assert "is administration, which this server answers at its adminListener" in refused
    assert "success" in admin.run(*create, "-n", of_names, "-b", of_broker)
    assert "broker-p" in admin.run("clusterList", "-n", of_names)
    assert "CODE: 16" in admin.run("updateKvConfig", "-s", "N", "-k", "k", "-v", "v", "-n", names.address)
    assert "success" in admin.run("updateKvConfig", "-s", "N", "-k", "k", "-v", "v", "-n", of_names)


def test_our_tools_find_it_by_themselves(apart: tuple[ours.NameServer, ours.Broker, str, str]) -> None:
    names, _, _, _ = apart
    for words in (["topic", "create", "Ours", "--queues", "20"], ["topic", "delete", "Ours", "--yes"]):
        done = CliRunner().invoke(cli, [*words, "-n", names.address])
        assert done.exit_code == 0, done.output
