"""The command as a user meets it: quick, one line for an error, log options wherever they stand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import pyromq
from pyromq import logs
from pyromq.cli.main import COMMANDS, cli
from pyromq.cli.serve.setting_options import config_options
from pyromq.config import load
from tests.config.bakery import BAKERY_KEYS, BakeryConfig, Flush


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from pyromq.cli.main import main; sys.argv[0] = 'pyromq'; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_the_version_is_told_without_importing_servers() -> None:
    code = (
        "import sys; sys.argv = ['pyromq', '--version']\n"
        "from pyromq.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted(set(sys.modules) & {'asyncio', 'rich', 'msgspec', 'ssl', 'uvloop'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"pyromq {pyromq.__version__}", "[]"]


def test_help_lists_every_command_and_each_can_be_asked_for_help() -> None:
    listed = CliRunner().invoke(cli, ["--help"])
    assert listed.exit_code == 0
    for name in COMMANDS:
        assert name in listed.output
        asked = CliRunner().invoke(cli, [name, "--help"])
        assert asked.exit_code == 0, asked.output
        assert "--log-format" in asked.output


def test_an_error_of_ours_is_one_line_and_exit_code_78(tmp_path: Path) -> None:
    done = run("config", "check", "--daemon", "broker", str(tmp_path / "nowhere.conf"))
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr == f"pyromq: cannot read {tmp_path}/nowhere.conf: No such file or directory\n"


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"], ["config", "list"]])
def test_a_reader_that_has_enough_is_no_error(words: list[str]) -> None:
    """The pipe is closed before the first word, however little there is to say."""
    code = "from pyromq.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run the line with `$PYROMQ` for the command."""
    code = "import sys; sys.argv[0] = 'pyromq'; from pyromq.cli.main import main; main()"
    command = f'{shlex.quote(sys.executable)} -c "{code}"'
    script = line.replace("$PYROMQ", command)
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("config list >&-", 0, ""),
        ("--help >&-", 0, ""),
        ("topic --help >&- 2>&-", 0, ""),
        ("topic create 2>&-", 64, ""),
        ("apply - <&-", 78, "pyromq: standard input: it is closed, and nothing can be read from it\n"),
        ("--help >/dev/full", 78, "pyromq: [Errno 28] No space left on device\n"),
    ],
)
def test_a_closed_stream_is_no_traceback(line: str, code: int, said: str) -> None:
    done = shell(f"$PYROMQ {line}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.parametrize(
    ("line", "fault", "usage"),
    [
        ("nosuch", "No such command 'nosuch'.", "pyromq [OPTIONS] COMMAND [ARGS]..."),
        (
            "topic crate",
            "No such command 'crate'. Closest: 'create', 'route'.",
            "pyromq topic [OPTIONS] COMMAND [ARGS]...",
        ),
        ("topic create", "Missing argument 'NAME'.", "pyromq topic create [OPTIONS] NAME"),
        ("group skip g", "Missing argument 'TOPIC'.", "pyromq group skip [OPTIONS] GROUP TOPIC"),
    ],
)
def test_an_error_of_usage_is_two_lines(line: str, fault: str, usage: str) -> None:
    done = shell(f"$PYROMQ {line}")
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == f"pyromq: {fault}\nusage: {usage} (more: --help)\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], ("info", "text")),
        (["--log-format", "json"], [], ("info", "json")),
        ([], ["--log-level", "debug"], ("debug", "text")),
        (["--log-level", "error", "--log-format", "json"], ["--log-level", "debug"], ("debug", "json")),
    ],
)
def test_log_options_stand_before_or_after_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: list[str], after: list[str], expected: tuple[str, str]
) -> None:
    configured: list[tuple[str, str]] = []
    monkeypatch.setattr(logs, "configure", lambda level, log_format: configured.append((level, log_format)))
    file = tmp_path / "broker.conf"
    file.touch()
    command = [*before, "config", *after, "check", "--daemon", "broker", str(file)]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert configured[-1] == expected


def flags_of(*arguments: str) -> BakeryConfig:
    result: list[BakeryConfig] = []

    @click.command()
    @config_options(BakeryConfig)
    def bakery(config_file: Path | None, **flags: object) -> None:
        result.append(load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=config_file, flags=flags).config)

    CliRunner().invoke(bakery, list(arguments), catch_exceptions=False)
    return result[0]


def test_options_derive_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "bakery.conf"
    file.write_text("listenPort=1\nloadRatio=0.1\nallowUnauthenticated=true\n")
    assert flags_of("-c", str(file), "--listen-port", "2", "--flush", "SYNC_FLUSH", "--no-allow-unauthenticated") == (
        BakeryConfig(listen_port=2, load_ratio=0.1, flush=Flush.SYNC)
    )


def test_a_setting_without_flag_has_none() -> None:
    @click.command()
    @config_options(BakeryConfig)
    def bakery(**_: object) -> None: ...

    spelled = {spelling for parameter in bakery.params for spelling in parameter.opts}
    assert "--data-dir" in spelled
    assert "--black-list" not in spelled


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", ""], "--data: it is empty"),
        (["--broker-port", "99999"], "--broker-port = 99999: must be from 0 to 65535"),
        (["--namesrv-port", "-1"], "--namesrv-port = -1: must be from 0 to 65535"),
        (["--data", "/proc/nowhere"], "cannot make the folder /proc/nowhere/store"),
        (["--host", "0.0.0.0", "--insecure"], "set brokerIP1 (of `pyromq up` --advertise)"),
        (["--advertise", "192.0.2.7"], "set bindAddress (of `pyromq up` --host; 0.0.0.0 for all)"),
        (["--host", "192.0.2.7", "--insecure"], "name one that is, or 0.0.0.0 for all (--host of `pyromq up`"),
    ],
)
def test_up_names_its_own_flags(tmp_path: Path, words: list[str], said: str) -> None:
    ports = [] if "port" in words[0] else ["--namesrv-port", "0", "--broker-port", "0"]
    done = run("up", "--data", str(tmp_path), *ports, *words)
    assert done.returncode in (64, 78)
    assert said in done.stderr
