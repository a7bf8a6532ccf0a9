"""The tree as a whole: options before and after, help with examples everywhere, exit codes, names that do not exist."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pyromq.cli.main import cli
from pyromq.cli.terminal.tree import Tree

WITHOUT_EXAMPLES = {"up", "dev", "demo", "pipeline", "spark"}
# What has no rows to print: daemons, what runs others' code, and scripts for a shell.
WITHOUT_JSON = {
    "up",
    "dev",
    "demo",
    "namesrv",
    "broker",
    "proxy",
    "dashboard",
    "controller",
    "run",
    "spark",
    "completion",
}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(command)
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found, (*path, name))


LEAVES = dict(leaves(cli))


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_has_help_with_examples_and_takes_json(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path, "--help"])
    assert shown.exit_code == 0, shown.output
    if path == ("msg", "dead"):  # another name of `dlq list`
        path = ("dlq", "list")
    if path[0] not in WITHOUT_EXAMPLES:
        assert f"  pyromq {' '.join(path)}" in shown.stdout
    spellings = {spelling for one in LEAVES[path].params for spelling in one.opts}
    if path[0] not in WITHOUT_JSON and path != ("cdc", "run"):
        assert "--json" in spellings
    if "--dry-run" in spellings and path[0] != "pipeline":
        assert "--yes" in spellings


def test_every_group_of_ours_hands_options_on() -> None:
    ctx = click.Context(cli)
    for name in ("topic", "group", "msg", "dlq", "cluster", "kv", "bench", "config", "profile", "store", "broker"):
        assert isinstance(cli.get_command(ctx, name), Tree)


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "127.0.0.1:1", "--timeout", "1", "--json", "topic", "list"],
        ["topic", "-n", "127.0.0.1:1", "--json", "list", "--timeout", "1"],
        ["topic", "list", "-n", "127.0.0.1:1", "--timeout", "1", "--json"],
        ["-n", "127.0.0.1:2", "topic", "--timeout", "1", "list", "-n", "127.0.0.1:1"],
        ["--timeout", "1", "broker", "-n", "127.0.0.1:1", "config", "get"],
    ],
)
def test_options_stand_anywhere_and_the_later_one_wins(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert done.stderr.startswith("pyromq: no name server answers: cannot connect to 127.0.0.1:1:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "up"], "No such option '--json'"),
        (["--json", "broker", "--listen", "127.0.0.1:0"], "--json is nothing that broker knows"),
        (["--yes", "topic", "list"], "No such option '--yes'"),
        (["tpic"], "No such command 'tpic'. Closest: 'topic'."),
        (["topic", "lst"], "Closest: 'list'"),
        (["topic", "list", "--timeout", "0"], "0.0 is not in the range"),
        (["topic", "list", "--timout", "1"], "--timeout"),
    ],
)
def test_what_nobody_knows_is_a_wrong_use(words: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 64
    assert said in done.stderr


def test_completion_scripts_and_what_they_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell, mark in (("bash", "complete -o nosort -F"), ("zsh", "#compdef pyromq"), ("fish", "complete --no-files")):
        shown = CliRunner().invoke(cli, ["completion", shell])
        assert shown.exit_code == 0
        assert mark in shown.stdout
        assert "_PYROMQ_COMPLETE" in shown.stdout
    assert CliRunner().invoke(cli, ["completion", "cmd"]).exit_code == 64
    for words, word, expected in (
        ("pyromq to", "1", {"plain,topic", "plain,top"}),
        ("pyromq topic de", "2", {"plain,describe", "plain,delete"}),
        ("pyromq topic list --na", "3", {"plain,--namesrv"}),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", word)
        monkeypatch.setenv("_PYROMQ_COMPLETE", "bash_complete")
        done = CliRunner().invoke(cli, [], prog_name="pyromq", env=dict(os.environ))
        assert set(done.output.split()) == expected


# --- profiles ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PYROMQ_PROFILE", "PYROMQ_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYROMQ_CONFIG", str(tmp_path / "pyromq" / "config.toml"))
    return tmp_path


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words))
    return done.stdout + done.stderr


def asked(*words: str) -> str:
    """The address that a command turns to."""
    return said(*words, "topic", "list", "--timeout", "1").partition("cannot connect to ")[2].partition(": ")[0]


def test_inspect_goes_by_the_name_servers_that_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def turns_to(*words: str) -> str:
        return said("inspect", "--timeout", "1", *words).partition("cannot connect to ")[2].partition(": ")[0]

    monkeypatch.setattr("pyromq.cli.cluster.inspect.HERE", "127.0.0.1:1")
    assert turns_to() == "127.0.0.1:1"
    said("profile", "set", "far", "127.0.0.1:2")
    said("profile", "use", "far")
    assert turns_to() == "127.0.0.1:2"
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:3")
    assert turns_to() == "127.0.0.1:3"
    monkeypatch.setenv("PYROMQ_NAMESRV", "127.0.0.1:4")
    assert turns_to() == "127.0.0.1:4"
    assert turns_to("-b", "127.0.0.1:5") == "127.0.0.1:5"


def test_profiles_name_name_servers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no profiles in" in said("profile", "list")
    assert said("profile", "set", "near", "127.0.0.1:1").startswith("near: 127.0.0.1:1")
    said("profile", "set", "far", "127.0.0.1:2")
    assert asked("--profile", "far") == "127.0.0.1:2"
    monkeypatch.setenv("PYROMQ_PROFILE", "far")
    assert asked() == "127.0.0.1:2"
    assert asked("--profile", "near") == "127.0.0.1:1"
    assert asked("-n", "127.0.0.1:3") == "127.0.0.1:3"
    monkeypatch.delenv("PYROMQ_PROFILE")
    said("profile", "use", "near")
    assert asked() == "127.0.0.1:1"
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:4")
    assert asked() == "127.0.0.1:4"
    told = {"profile": "near", "namesrv": "127.0.0.1:1", "inUse": True, "user": ""}
    assert told in [json.loads(line) for line in said("profile", "list", "--json").splitlines()]
    assert said("profile", "list").splitlines()[1].split() == ["far", "127.0.0.1:2", "no", "-"]
    said("profile", "remove", "near")
    assert 'inUse": true' not in said("profile", "list", "--json")


def test_profiles_that_cannot_be(home: Path) -> None:
    said("profile", "set", "near", "127.0.0.1:1")
    assert "there is no profile 'nera'" in said("--profile", "nera", "topic", "list")
    assert "Closest: 'near'" in said("profile", "use", "nera")
    assert CliRunner().invoke(cli, ["--profile", "nera", "topic", "list"]).exit_code == 78
    assert CliRunner().invoke(cli, ["profile", "set", "bad", "nowhere"]).exit_code == 78
    assert CliRunner().invoke(cli, ["profile", "use"]).exit_code == 64
    file = home / "pyromq" / "config.toml"
    for text in ("default = [", "default = 7", "profiles = 7", "[profiles.x]\nnamesrv = 7"):
        file.write_text(text)
        done = CliRunner().invoke(cli, ["profile", "list"])
        assert done.exit_code == 78
        assert str(file) in done.stderr
