"""`pyromq` drives Apache's name server and broker 5.5.0: the table of tests/cli/every_command.py, line after line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from tests.cli.every_command import Cluster, Line, at_work, lines

from .conftest import registered
from .peers import java

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # a Java broker: make interop

SETTINGS = {"timerWheelEnable": "true", "traceTopicEnable": "true", "enablePropertyFilter": "true"}


@pytest.fixture(scope="module")
def servers(java_peers: None, home: Callable[[str], Path]) -> Iterator[java.NameServer]:
    running = java.NameServer("5.5.0", home("cli-namesrv"))
    yield running
    running.kill()


@pytest.fixture(scope="module")
def broker(servers: java.NameServer, home: Callable[[str], Path]) -> Iterator[java.Broker]:
    running = java.Broker("5.5.0", home("cli-broker"), [servers.address], SETTINGS)
    registered(servers.address, running)
    yield running
    running.kill()


@pytest.fixture(scope="module")
def apache(servers: java.NameServer, broker: java.Broker, home: Callable[[str], Path]) -> Iterator[Cluster]:
    with at_work(Cluster(servers.address, home("cli-files"))) as cluster:
        yield cluster


@pytest.mark.parametrize("line", lines("APACHE"), ids=lambda line: line.words)
def test_every_command_on_apache_s_broker(apache: Cluster, line: Line) -> None:
    apache.check(line)


def test_what_only_ours_can_tell_is_said(broker: java.Broker) -> None:
    done = CliRunner().invoke(cli, ["inspect", "-b", broker.address])
    assert done.exit_code == 78
    assert "is no PyroMQ broker, or an older one" in done.stderr
    assert "pyromq broker stats" in done.stderr
