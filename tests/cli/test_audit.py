"""`pyromq audit` over what a name server and a broker wrote, as processes that are killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from tests.interop.peers import ours

REPEAT = {"auditRepeatSeconds": "3600"}  # one line for all of a call that only reads


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def found(*words: str) -> list[dict[str, Any]]:
    done = run("audit", *words, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[tuple[ours.NameServer, ours.Broker]]:
    with ExitStack() as stack:
        names = ours.NameServer(tmp_path / "names", REPEAT)
        stack.callback(lambda: names.kill())
        broker = ours.Broker(tmp_path / "broker", [names.address], REPEAT)
        stack.callback(lambda: broker.kill())
        yield names, broker


def test_who_did_what_is_there_over_a_kill_and_a_stop(
    daemons: tuple[ours.NameServer, ours.Broker], tmp_path: Path
) -> None:
    names, broker = daemons
    of_broker = str(tmp_path / "broker" / "store" / "pyromq" / "audit")
    of_names = str(tmp_path / "names" / "namesrv" / "audit")
    to = ("-n", names.address)
    assert run(*to, "topic", "create", "orders", "--queues", "4").exit_code == 0
    assert run(*to, "topic", "update", "orders", "--queues", "5", "--yes").exit_code == 0
    assert run(*to, "broker", "config", "set", "traceOn", "false", "--yes").exit_code == 0
    assert run(*to, "kv", "set", "space", "key", "a-password-maybe", "--yes").exit_code == 0
    assert run(*to, "topic", "delete", "orders", "--yes").exit_code == 0
    broker.kill()
    broker.restart()
    for _ in range(3):
        assert run(*to, "broker", "stats").exit_code == 0
    broker.stop()
    names.program.signal(signal.SIGTERM)
    names.program.wait()
    made, changed = found("search", of_broker, "--call", "UPDATE_AND_CREATE_TOPIC", "--text", '"orders"')
    assert (made["before"], made["after"]["writeQueueNums"]) == (None, 4)
    assert (changed["before"]["writeQueueNums"], changed["after"]["writeQueueNums"]) == (4, 5)
    assert made["from"].startswith("127.0.0.1:")
    (settings,) = found("search", of_broker, "--call", "25")
    assert (settings["before"], settings["after"]) == ({"traceOn": "true"}, {"traceOn": "false"})
    (deleted,) = found("search", of_broker, "--call", "DELETE_TOPIC_IN_BROKER")
    assert deleted["deleted"] == ["orders"]
    (kv,) = found("search", of_names, "--call", "PUT_KV_CONFIG")
    assert kv["with"] == {"namespace": "space", "key": "key"}
    reads = found("search", of_broker, "--call", "GET_BROKER_RUNTIME_INFO")
    assert sum(1 + one.get("moreTimes", 0) for one in reads) >= 3
    assert len(reads) <= 2
    assert [one["kind"] for one in found("tail", of_broker, "-n", "1000") if one["kind"] in ("start", "stop")] == [
        "start",
        "start",
        "stop",
    ]
    for folder in (of_broker, of_names):
        assert run("audit", "verify", folder).exit_code == 0
        assert b"a-password-maybe" not in b"".join(path.read_bytes() for path in Path(folder).iterdir())


def test_verify_says_what_was_done_and_keeps_it_for_elsewhere(
    daemons: tuple[ours.NameServer, ours.Broker], tmp_path: Path
) -> None:
    names, broker = daemons
    folder = tmp_path / "broker" / "store" / "pyromq" / "audit"
    assert run("-n", names.address, "topic", "create", "orders").exit_code == 0
    broker.stop()
    verdict = json.loads(run("audit", "verify", str(folder), "--json").stdout)
    assert verdict["alarms"] == []
    assert run("audit", "verify", str(folder), "--expect", verdict["last"]).exit_code == 0
    file = folder / "audit-00000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b"orders", b"others"))
    done = run("audit", "verify", str(folder))
    assert done.exit_code == 1
    assert "was changed" in done.stdout
    assert run("audit", "verify", str(folder), "--expect", f"99999:{'0' * 64}").exit_code == 1
    assert run("audit", "verify", str(folder), "--expect", "1").exit_code == 64
    assert run("audit", "verify", str(tmp_path / "broker")).exit_code == 78
    assert run("audit", "search", str(folder), "--user", "nobody-at-all").exit_code == 1
    assert run("audit", "search", str(folder), "--kind", "policy", "--call", "DELETE_TOPIC_IN_BROKER").exit_code == 1
    for wrong, right in (("--kind polcy", "policy"), ("--call DELETE_TOPIC_IN_BROKR", "DELETE_TOPIC_IN_BROKER")):
        done = run("audit", "search", str(folder), *wrong.split())
        assert (done.exit_code, f"'{right}'" in done.output) == (64, True), done.output
    assert run("audit", "search", str(folder), "--call", "99999999").exit_code == 64


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    names = ours.NameServer(tmp_path / "names", {"auditEnable": "false"})
    names.kill()
    assert not list(tmp_path.rglob("audit*"))
