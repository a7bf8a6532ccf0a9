"""What the Makefile calls where something is missing: root gets it installed, others are told what to type."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench.measure.compiled import compiled

from tests.house.source import ROOT

SYSTEM_PATH = "/usr/bin:/bin"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder whose programs stand before the system's: an `id` of an ordinary user, an apt-get that takes notes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    put(programs / "id", "echo 1000")
    put(programs / "apt-get", f'echo "$@" >> {tmp_path}/installed')
    return tmp_path


def put(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(machine: Path, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{machine / 'bin'}{os.pathsep}{SYSTEM_PATH}"
    return subprocess.run(
        [str(ROOT / "scripts" / script), *arguments],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_there_is_left_alone(machine: Path) -> None:
    done = run(machine, "debian", "sh=dash", "cat=coreutils")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (machine / "installed").exists()


def test_an_ordinary_user_is_told_what_to_type(machine: Path) -> None:
    done = run(machine, "debian", "sh=dash", "no-such-java=openjdk-17-jdk-headless", "no-such-mvn=maven")
    assert done.returncode == 1
    assert done.stderr == (
        "pyromq needs more on this machine; type: sudo apt-get install openjdk-17-jdk-headless maven\n"
    )
    assert not (machine / "installed").exists()


def test_root_gets_it_installed(machine: Path) -> None:
    put(machine / "bin" / "id", "echo 0")
    done = run(machine, "debian", "no-such-java=openjdk-17-jdk-headless")
    assert done.returncode == 0
    assert (machine / "installed").read_text().splitlines()[-1].endswith("openjdk-17-jdk-headless")


def test_a_python_without_venv_names_its_package(machine: Path) -> None:
    put(machine / "bin" / "python3", 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac')
    done = run(machine, "venv", str(machine / "venv"))
    assert done.returncode == 1
    assert done.stderr.endswith("type: sudo apt-get install python3.12-venv\n")


def test_the_kernels_tests_with_checks_say_that_there_is_no_compiler(machine: Path) -> None:
    for tool in ("bash", "dirname", "env"):
        (machine / "bin" / tool).symlink_to(Path(SYSTEM_PATH.partition(":")[0]) / tool)
    done = subprocess.run(
        [str(ROOT / "scripts" / "sanitize"), sys.executable],
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "need gcc" in done.stderr
    assert "there is no gcc" in done.stderr


def test_a_benchmark_says_that_there_is_no_compiler(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(SystemExit, match=r"echo.c cannot be compiled: there is no cc; type: .*install gcc"):
        compiled(ROOT / "bench" / "echo.c", machine)


def test_a_python_that_is_too_old_is_not_taken(machine: Path) -> None:
    put(machine / "bin" / "old", "exit 1")
    done = run(machine, "venv", str(machine / "venv"), PYTHON="old")
    assert done.returncode == 1
    assert done.stderr == (
        "pyromq needs Python 3.11 or later, which old is not; name one by: make PYTHON=/path/to/python3\n"
    )


def test_make_puts_the_tree_in_place_of_an_installed_copy(tmp_path: Path) -> None:
    """After `pip install .` and a pull, `make quick` said "ready", and the commands were those of the old copy."""
    for name in ("pyvenv.cfg", ".core", ".native"):
        (tmp_path / name).touch()

    def planned() -> str:
        done = subprocess.run(
            ["make", "-n", "quick", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "--editable" not in planned()
    copy = tmp_path / "lib" / "python3.11" / "site-packages" / "pyromq"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    assert f"this tree in place of the copy in {copy}/" in planned()
    assert "--editable ." in planned()


def test_the_suite_refuses_to_test_an_installed_copy(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "pyromq", tmp_path / "pyromq", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "tests/house/test_names.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"pyromq is imported from {tmp_path / 'pyromq'}: to test" in done.stderr) == (4, True), (
        done
    )
