"""The files in deploy/ name commands, flags, extras and ports that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.cli.main import cli, main
from pyromq.config import examine_file, settings_of
from pyromq.namesrv.config import NamesrvConfig
from tests.house.source import ROOT
from tests.support import require

UNITS = sorted((ROOT / "deploy").glob("*.service"))
CONTAINER = ROOT / "deploy" / "Containerfile"
PROGRAM = "/opt/pyromq/bin/pyromq"
BY_HAND = re.compile(r"podman run .*? pyromq \\\n#\s+(.*)")


def entries(unit: Path, name: str) -> list[str]:
    found = re.findall(rf"^{name}=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
    assert found, f"{unit.name} has no {name}"
    return found


def understood(arguments: list[str]) -> click.Context:
    """Parse as the command line does, without running anything. click.UsageError names what is not known."""
    with cli.make_context("pyromq", list(arguments)) as context:
        name, command, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        return command.make_context(name, rest, parent=context)


def instruction(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", CONTAINER.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_understands_its_flags(unit: Path) -> None:
    (start,) = entries(unit, "ExecStart")
    program, *arguments = shlex.split(start)
    assert program == PROGRAM
    context = understood(arguments)
    paths = [str(value) for value in context.params.values() if str(value).startswith("/var/lib/")]
    state = f"/var/lib/{entries(unit, 'StateDirectory')[0]}/"
    assert paths, "data would land in a folder that DynamicUser may not write"
    assert all(path.startswith(state) for path in paths)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_ends_the_same_way_each_time_is_not_tried_again(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["pyromq", "broker", "--listen", "192.0.2.1:0"])  # refused without --insecure
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value.code) in entries(unit, "RestartPreventExitStatus")


def test_the_broker_counts_as_started_once_it_answers() -> None:
    (check,) = entries(ROOT / "deploy" / "pyromq-broker.service", "ExecStartPost")
    (asked,) = re.findall(rf"{PROGRAM} ([^;]*);", check)
    assert understood(shlex.split(asked)).params["quiet"] is True


def test_master_and_slave_have_settings_that_fit_each_other() -> None:
    both = []
    for name in ("master", "slave"):
        found = examine_file(ROOT / "deploy" / f"{name}.conf", BrokerConfig, BROKER_KEYS)
        assert [one.error for one in found if one.error] == []
        both.append({one.key: one.value for one in found})
    master, slave = both
    assert all(master[key] == slave[key] for key in ("brokerClusterName", "brokerName", "namesrvAddr"))
    assert (master["brokerRole"], slave["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
    assert master["haAllow"] == slave["brokerIP1"]
    (check,) = entries(ROOT / "deploy" / "pyromq-slave.service", "ExecStartPost")
    assert f"127.0.0.1:{slave['listenPort']}" in check


def test_systemd_waits_longer_for_a_stop_than_the_broker_does_for_requests() -> None:
    (seconds,) = entries(ROOT / "deploy" / "pyromq-broker.service", "TimeoutStopSec")
    wait: int = settings_of(BrokerConfig)["shutdown_wait_time_seconds"].default
    assert int(seconds) > 2 * wait  # one wait for each port


def test_the_container_starts_a_command_that_exists() -> None:
    assert instruction("ENTRYPOINT") == ['["pyromq"]']
    (arguments,) = instruction("CMD")
    context = understood(json.loads(arguments))
    assert str(context.params["data"]) in instruction("VOLUME")


def test_the_containers_health_check_is_a_command_that_exists() -> None:
    (check,) = instruction("HEALTHCHECK")
    program, *arguments = json.loads(check[check.index("[") :])
    assert program == "pyromq"
    assert understood(arguments).params["quiet"] is True


def test_what_the_container_file_says_at_its_top_can_be_typed() -> None:
    (arguments,) = BY_HAND.findall(CONTAINER.read_text("utf-8"))
    assert understood(shlex.split(arguments)).params["insecure"] is True


def test_the_container_shows_the_ports_that_are_listened_on() -> None:
    broker: int = settings_of(BrokerConfig)["listen_port"].default
    names: int = settings_of(NamesrvConfig)["listen_port"].default
    (exposed,) = instruction("EXPOSE")
    assert {int(port) for port in exposed.split()} == {names, broker, broker - 2}


def test_the_container_installs_only_what_is_locked_by_hash() -> None:
    text = CONTAINER.read_text("utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]*)", text)
    by_hash = [each for each in installs if "--require-hashes" in each]
    files = [re.findall(r"-r (\S+)", each)[0] for each in by_hash]
    assert [Path(file).name for file in files] == ["core.txt", "run.txt"]
    assert all("--only-binary :all:" in each for each in by_hash)
    (own,) = [each for each in installs if each not in by_hash]
    assert {"--no-deps", "--no-index", "/dist/*.whl"} <= set(own.split())


def test_the_container_has_a_python_that_the_project_supports() -> None:
    text = CONTAINER.read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (python,) = set(re.findall(r"python:(\d+\.\d+)", text))
    least = re.findall(r">=\s*(\d+)\.(\d+)", project["requires-python"])[0]
    assert tuple(map(int, python.split("."))) >= tuple(map(int, least))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_shuts_its_service_in(unit: Path) -> None:
    wanted = {
        "UMask": "0077",
        "StateDirectoryMode": "0700",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "SystemCallFilter": "@system-service",
        "SystemCallArchitectures": "native",
        "ProtectSystem": "strict",
        "PrivateDevices": "yes",
    }
    assert {name: entries(unit, name) for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert re.fullmatch(r"\d+(%|G)", entries(unit, "MemoryMax")[0])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_little_left_open(unit: Path) -> None:
    """0 to 10; what is left are the network itself and what Python's ctypes needs."""
    require(shutil.which("systemd-analyze") is not None, "systemd-analyze is not installed")
    asked = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(unit)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
