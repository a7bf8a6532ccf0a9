"""Hints can be typed where they stand, and what they name loses nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyromq.admin.checkup
from pyromq.cli import main
from pyromq.cli.terminal.called import COMMANDS, as_called

HINT = "Make it: pyromq topic create pyromq (docs/pyromq up), then install pyromq again"


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ("pyromq", "pyromq topic"),  # on the PATH
        ("bin/../bin/pyromq", "pyromq topic"),
        (".venv/bin/pyromq", ".venv/bin/pyromq topic"),
        ("a b/pyromq", "'a b/pyromq' topic"),
        ("/lib/pyromq/cli/main.py", f"{sys.executable} -m pyromq.cli.main topic"),
        ("shop.py", "pyromq topic"),
    ],
)
def test_as_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, typed: str) -> None:
    for folder in ("bin", ".venv/bin", "a b"):
        program = tmp_path / folder / "pyromq"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin" / given) if given == "pyromq" else given])
    assert as_called(HINT) == HINT.replace("pyromq topic", typed)
    install = f"needs x: {sys.executable} -m pip install 'pyromq[spark]'"  # as `install_command` has it
    assert as_called(install) == install


def test_hints_may_name_every_command() -> None:
    assert "|".join(main.COMMANDS) == COMMANDS


def test_a_hint_of_a_real_run_can_be_typed() -> None:
    program = Path(sys.executable).with_name("pyromq")
    words = [str(program), "topic", "list", "-n", "127.0.0.1:1", "--timeout", "1"]
    for path, typed in ((os.defpath, f"({program} up)"), (f"{program.parent}:{os.defpath}", "(pyromq up)")):
        done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PATH": path}, check=False)
        assert (done.returncode, typed in done.stderr) == (2, True), done.stderr


def test_examples_of_help_can_be_typed() -> None:
    program = Path(sys.executable).with_name("pyromq")
    for path, typed in ((os.defpath, str(program)), (f"{program.parent}:{os.defpath}", "pyromq")):
        for words in (["topic", "create"], ["broker", "config", "set"], ["pipeline", "archive"], ["store", "verify"]):
            env = os.environ | {"PATH": path}
            done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, env=env, check=True)
            shown = done.stdout.partition("Examples:")[2].split("\n    ")[1:]
            assert shown, done.stdout
            assert all(line.startswith(f"{typed} {' '.join(words)}") for line in shown), shown


def test_no_cure_of_doctor_goes_without_a_question_or_removes_a_file() -> None:
    texts = {path.name: path.read_text() for path in Path(pyromq.admin.checkup.__path__[0]).glob("*_checks.py")}
    assert len(texts) >= 2
    for name, text in texts.items():
        assert not re.search(r"--yes|-y\b|\brm\b|\bremove\b", text), name
        for line in text.splitlines():
            assert "--dry-run" in line or not re.search(r"\bdelete\b(?!s)", line), line
