"""Every command: what it prints for people, for programs, on an error. Those that ask a cluster: every_command.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from tests.cli.every_command import Cluster, Line, at_work, lines, read_json
from tests.cli.standing import standing
from tests.cli.test_tree import LEAVES
from tests.store.golden_store import unpack

# Those that ask no cluster, in the same columns.
LOCAL = [
    ("inspect -b BROKER", "ready", 0),
    ("inspect -b BROKER --json", '"kernel"', 0),
    ("inspect -b 127.0.0.1:1 --timeout 1", "cannot connect to 127.0.0.1:1", 2),
    ("inspect -b broker-a -n NAMES", "ready", 0),
    ("inspect -n NAMES --json", '"kernel"', 0),
    ("inspect -b brokr-a -n NAMES", "there is no broker 'brokr-a'. Closest: 'broker-a'", 1),
    ("inspect -b broker-a -n 127.0.0.1:1 --timeout 1", "no name server answers", 2),
    ("config list", "fileReservedTime", 0),
    ("config list --json", '"java key": "fileReservedTime"', 0),
    ("config list --daemon proxy", "grpcServerPort", 0),
    ("config list --daemon dashboard", "dashboard", 64),
    ("config check FOLDER/good.conf", "fileReservedTime", 0),
    ("config check FOLDER/good.conf --json", "fileReservedTime", 0),
    ("config check FOLDER/bad.conf", "fileReservdTime", 1),
    ("profile set near 127.0.0.1:1", "near: 127.0.0.1:1", 0),
    ("profile set far 127.0.0.1:2 --json", '"namesrv": "127.0.0.1:2"', 0),
    ("profile set bad nowhere", "nowhere", 78),
    ("profile use near", "in use: near", 0),
    ("profile use far --json", '"inUse": true', 0),
    ("profile use nera", "Closest: 'near'", 1),
    ("profile list", "far +127.0.0.1:2 +yes", 0),
    ("profile list --json", '"profile": "far"', 0),
    ("profile list --nope", "No such option", 64),
    ("profile remove near", "near is removed", 0),
    ("profile remove far --json", '"removed": true', 0),
    ("profile remove near", "there is no profile 'near'", 1),
    ("tls init --dir FOLDER/tls --host 10.0.0.5", "broker +good", 0),
    ("tls init --dir FOLDER/tls broker-b --json", '"name": "broker-b"', 0),
    ("tls init --dir FOLDER/tls broker-b", "is there already: pyromq tls renew broker-b", 78),
    ("tls renew --dir FOLDER/tls", "nothing was done", 0),
    ("tls renew --dir FOLDER/tls --all --json", '"name": "broker"', 0),
    ("tls renew --dir FOLDER/tls nobody", "no certificate of nobody", 78),
    ("tls show --dir FOLDER/tls", "localhost, 127.0.0.1, ::1", 0),
    ("tls show FOLDER/tls/broker.pem --json", '"state": "good"', 0),
    ("tls show FOLDER/none.pem", "none.pem", 78),
    ("store verify STORE", "clean", 0),
    ("store verify STORE --json", '"exitCode": 0', 0),
    ("store verify FOLDER/none", "none", 78),
    ("store info STORE", "GoldenRoll +0 +3 +2500", 0),
    ("store info STORE --json", '"commitLogFiles": 6', 0),
    ("store info FOLDER/none", "none", 78),
    ("store dump STORE --limit 2", "GoldenPlain", 0),
    ("store dump STORE --limit 2 --json", '"topic": ?"GoldenPlain"', 0),
    ("store dump FOLDER/none", "none", 78),
    ("store backup STORE FOLDER/copy", "copy", 0),
    ("store backup STORE FOLDER/copy2 --json", r"\{", 0),
    ("store backup FOLDER/none FOLDER/copy3", "none", 78),
    ("store seed FOLDER/slave --backup FOLDER/copy", "slave", 0),
    ("store seed FOLDER/slave2 --backup FOLDER/copy --json", r"\{", 0),
    ("store seed FOLDER/slave --backup FOLDER/copy", "slave", 78),
    ("store rebuild FOLDER/copy", "", 0),
    ("store rebuild FOLDER/copy2 --json", r"\{", 0),
    ("store rebuild FOLDER/none", "none", 78),
    ("store accept-loss FOLDER/copy", "nothing is missing", 0),
    ("store accept-loss FOLDER/copy --json", r'"accepted": \[\]', 0),
    ("store accept-loss FOLDER/none", "none", 78),
    ("store cut FOLDER/copy 0 --dry-run", "would go: 4220 records", 0),
    ("store cut FOLDER/copy2 0 --yes --json", '"copy": "pyromq/cut-off/0', 0),
    ("store cut FOLDER/copy 17 --dry-run", "no record begins or ends at 17", 78),
    ("store quarantine STORE", "no record is put aside", 0),
    ("store quarantine FOLDER/copy 0 --json", '"loop": "by hand"', 0),
    ("store quarantine FOLDER/none", "none", 78),
]

# No rows to print: servers, what runs others' code or Spark, scripts for a shell. Each is run by tests of its own.
ELSEWHERE = {
    "up": "test_up_brokers.py",
    "dev": "test_main.py",
    "namesrv": "test_main.py",
    "proxy": "test_proxy.py",
    "controller": "../controller/test_daemon.py",
    "dashboard": "../dashboard",
    "cluster switch": "test_replicas.py",
    "cluster forget": "../elected/test_operators.py",
    "run": "../app",
    "demo cdc": "test_demo_cdc.py",
    "spark shell": "test_spark.py",
    "completion": "test_tree.py",
    "msg recheck": "test_recheck.py",
    **dict.fromkeys(("audit tail", "audit search", "audit verify"), "test_audit.py"),
    **dict.fromkeys(("cdc run", "cdc status", "cdc check", "cdc snapshot", "cdc reset"), "../cdc"),
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"trace_topic_enable": True, "enable_property_filter": True}
    with (
        standing(tmp_path_factory.mktemp("every"), **settings) as stands,
        at_work(Cluster(stands.names, tmp_path_factory.mktemp("files"))) as cluster,
    ):
        yield cluster


@pytest.mark.parametrize("line", lines("OURS"), ids=lambda line: line.words)
def test_every_command_on_our_broker(ours: Cluster, line: Line) -> None:
    ours.check(line)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    unpack("clean", folder)
    (folder / "good.conf").write_text("fileReservedTime=48\n")
    (folder / "bad.conf").write_text("fileReservdTime=48\n")
    return folder


@pytest.mark.parametrize(("words", "said", "code"), LOCAL, ids=[one[0] for one in LOCAL])
def test_every_other_command(
    ours: Cluster, files: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str, code: int
) -> None:
    monkeypatch.setenv("PYROMQ_CONFIG", str(files / "profiles.toml"))
    monkeypatch.delenv("PYROMQ_PROFILE", raising=False)
    broker = json.loads(ours.run("cluster brokers --json").stdout)["address"]
    for mark, value in (("BROKER", broker), ("NAMES", ours.names), ("STORE", files / "store"), ("FOLDER", files)):
        words = words.replace(mark, str(value))
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == code, (done.output, done.exception)
    assert re.search(said, done.output), done.output
    if "--json" in words:
        read_json(done)


def _name(words: str) -> str:
    """The command's own words, without its arguments."""
    return next((name for name in NAMES if f"{words} ".startswith(f"{name} ")), "")


NAMES = sorted((" ".join(path) for path in LEAVES), key=len, reverse=True)


def test_no_command_lacks_one_of_the_three() -> None:
    rows = [(line.words, line.code, line.looks) for line in lines("OURS")] + [(one[0], one[2], False) for one in LOCAL]
    for_people = {_name(words) for words, code, _ in rows if not code and "--json" not in words}
    for_programs = {_name(words) for words, code, looks in rows if not code and (looks or "--json" in words)}
    refused = {_name(words) for words, code, _ in rows if code}
    wanted = {name for name in NAMES if name not in ELSEWHERE and not name.startswith("pipeline ")}
    assert "" not in for_people | for_programs | refused
    assert wanted - for_people == set()
    assert wanted - for_programs == set()
    assert wanted - refused == set()
