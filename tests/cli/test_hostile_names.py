"""Every listing command of `pyromq`, told by its servers what an attacker would have them tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from tests.cli.every_command import Cluster, Line, at_work, lines
from tests.cli.standing import Standing, standing
from tests.hostile import ESCAPED, HOSTILE, check_harmless, hostile_names
from tests.interop.waiting import eventually

__all__ = ["hostile_names"]

LOOKING = [line for line in lines("OURS") if line.looks]
# `sub` would wait for messages here, since the topic may be read.
REFUSED = [line for line in lines("OURS") if line.code in (1, 78) and line.words != "sub orders"]
# Names that clients tell in bodies of messages, which are not spoiled here; a user who is asked for by his
# name, and then has another one; and a number alone.
WITHOUT_NAMES = {"msg trace traced-1", "acl show shop", "sql 'SELECT count(*) AS n FROM orders'"}
SETUP = """
topic create orders --queues 4
topic create copies --queues 2
pub copies world --key order-2
sub orders -g billing --from first --count 1
group create fresh --retries 3
group mode fresh orders pop --share 2 --yes
kv set NS k v
quota set topic:orders queues=16 --yes
user create shop
user create alice --role reader
acl create shop Topic:orders --allow Pub
"""


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    settings = {"trace_topic_enable": True, "enable_property_filter": True}
    with standing(tmp_path_factory.mktemp("hostile"), **settings) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(stands: Standing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with at_work(Cluster(stands.names, tmp_path_factory.mktemp("files"))) as found:
        first, *rest = SETUP.strip().splitlines()
        assert found.run(first).exit_code == 0
        name = HOSTILE.replace("\x00", "")
        how = {"tag": "created", "props": {"region": name}}
        (found.id,) = stands.send("orders", "hello" + name, keys=["order-1", name.replace(" ", "")], **how)
        stands.send("orders", "world", "later", **how)
        for words in rest:
            assert found.run(words).exit_code == 0, words
        eventually(lambda: found.run("msg trace traced-1").exit_code == 0, "a trace is there")
        yield found


@pytest.mark.parametrize("line", LOOKING, ids=lambda line: line.words)
def test_what_is_listed_is_harmless(cluster: Cluster, hostile_names: set[str], line: Line) -> None:
    hostile_names |= set(line.words.split())
    done = cluster.run(f"--log-level debug {line.words}")
    assert done.exit_code in (0, 1), done.output
    check_harmless(done.output, bodies="stack" in line.words)
    assert ESCAPED in done.output.replace("u001b", "x1b") or line.words in WITHOUT_NAMES, done.output
    told = cluster.run(line.words, "--json")
    check_harmless(told.output)
    if told.exit_code == 0 and line.words not in WITHOUT_NAMES:
        rows = told.stdout if told.stdout.startswith("{\n") else f"[{','.join(told.stdout.splitlines())}]"
        assert "\x1b[2J" in str(json.loads(rows)) or "\\x1b[2J" in repr(json.loads(rows))


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line.words)
def test_what_is_refused_is_harmless(cluster: Cluster, hostile_names: set[str], line: Line) -> None:
    hostile_names |= set(line.words.split())
    check_harmless(cluster.run(line.words).output)


@pytest.mark.usefixtures("hostile_names")
@pytest.mark.parametrize("words", ["inspect -b BROKER", "inspect -b BROKER --json"])
def test_what_a_broker_holds_is_harmless(cluster: Cluster, words: str) -> None:
    broker = cluster.run("cluster brokers --json").stdout
    address = re.findall(r"127\.0\.0\.1:\d+", broker)[0]
    done = CliRunner().invoke(cli, words.replace("BROKER", address).split())
    check_harmless(done.output)
    assert "x1b[2J" in done.output or "u001b[2J" in done.output, done.output


def test_messages_as_they_come_move_no_cursor(cluster: Cluster) -> None:
    done = cluster.run("sub orders --from first --count 3")
    check_harmless(done.output, bodies=True)
    assert ESCAPED in done.output
    assert "\\x1b[2J" in cluster.run("sub orders --from first --count 3 --json").output.replace("u00", "x")


def test_a_form_of_one_s_own_is_escaped_on_a_terminal_and_left_alone_in_a_pipe(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "sub orders --from first --count 3 -f '{body} {prop:region}'"
    assert "\x1b[2J" in cluster.run(words).stdout
    monkeypatch.setattr("pyromq.cli.terminal.printing._is_terminal", lambda: True)
    check_harmless(cluster.run(words).output, bodies=True)


def test_records_of_a_store_are_harmless(cluster: Cluster, stands: Standing, tmp_path: Path) -> None:
    root = next(Path(stands.world.folder).rglob("commitlog")).parent
    for words in (f"store dump {root}", f"store dump {root} --json", f"store info {root}", f"store verify {root}"):
        done = CliRunner().invoke(cli, words.split())
        check_harmless(done.output)
        if "dump" in words:
            assert "x1b[2J" in done.output.replace("u001b", "x1b")
