"""A newcomer secures a cluster of two brokers by docs/access.md, with what the page says and nothing else."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.peers import ours
from tests.interop.waiting import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "access.md").read_text("utf-8")
SECTION = PAGE.split("\n## Set up in ten lines\n")[1].split("\n## ")[0]
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", SECTION, re.DOTALL))
# What the page leaves to its reader.
OWN = {"<a long random text>": "a text of mine", "<another one>": "one of the servers", "<a third one>": "of the shop"}


def filled(text: str) -> str:
    for place, value in OWN.items():
        text = text.replace(place, value)
    return text


class Cluster:
    """Two brokers and a name server with the page's settings, and a shell."""

    def __init__(self, home: Path) -> None:
        settings = dict(line.split("=", 1) for line in filled(BLOCKS["properties"]).splitlines())
        self.names = ours.NameServer(home / "names", settings)
        self.brokers = [ours.Broker(home / one, [self.names.address], settings, name=one) for one in ("one", "two")]
        conf = home / "rocketmq" / "conf" / "tools.yml"
        conf.parent.mkdir(parents=True)
        conf.write_text(filled(BLOCKS["yaml"]))
        bins = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": bins, "HOME": str(home), "ROCKETMQ_HOME": str(home / "rocketmq")}
        for name in ("PYTHONPATH", "PYROMQ_KERNEL"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.home = home

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        words = [word.replace("ns:9876", self.names.address) for word in shlex.split(line)]
        return subprocess.run(
            words, env=self.environment, cwd=self.home, text=True, capture_output=True, timeout=120, check=False
        )

    def said(self, line: str) -> str:
        done = self.run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        for one in made.brokers:
            one.kill()
        made.names.kill()


def test_a_cluster_is_secured_by_the_page(cluster: Cluster) -> None:
    eventually(lambda: "two" in cluster.run("mqadmin clusterList -n ns:9876").stdout, "both brokers are known")
    for line in filled(BLOCKS["shell"]).splitlines():
        told = cluster.said(line)
        assert told.count("success") >= 1, told
    export, *commands = [line.removeprefix("$ ") for line in filled(BLOCKS["console"]).splitlines()]
    cluster.environment |= dict(word.split("=", 1) for word in shlex.split(export)[1:])
    told = "".join(cluster.said(line) for line in commands)
    assert "hello" in told
    assert "WARNING" not in told
    refused = cluster.run("pyromq pub others hello -n ns:9876")
    assert refused.returncode == 78
    assert "pyromq acl create" in refused.stderr
    refused = cluster.run("pyromq sub orders --count 1 -n ns:9876")  # with a group that is not his
    assert "no permission to access Group:" in refused.stderr
    del cluster.environment["PYROMQ_ACCESS_KEY"], cluster.environment["PYROMQ_SECRET_KEY"]
    stranger = cluster.run("pyromq topic list -n ns:9876")
    assert stranger.returncode == 78
    assert "Say who you are: PYROMQ_ACCESS_KEY" in stranger.stderr
