"""The wheel, with the native kernel and, where there is no compiler, without; what the container makes it from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from pyromq.kernel.choice import sources_mark
from tests.house.source import ROOT

KERNEL = "pyromq/kernel/native/kernel" + str(sysconfig.get_config_var("EXT_SUFFIX"))
CONTAINER = ROOT / "deploy" / "Containerfile"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """What the container file copies, and no kernel in it."""
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER.read_text("utf-8"), re.MULTILINE)
    folder = tmp_path / "src"
    folder.mkdir()
    for name in " ".join(copied).split():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def built(sources: Path, path: str = os.environ["PATH"]) -> tuple[Path, str]:
    """The wheel as `pip install` has it made, and what was said meanwhile."""
    into = sources / "dist"
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=sources,
        env={**os.environ, "PATH": path, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.iterdir()
    return wheel, done.stdout + done.stderr


def test_a_kernel_of_these_sources_goes_along_and_the_wheel_is_for_this_platform(sources: Path) -> None:
    kernel = b"built from " + sources_mark().encode()
    (sources / "src" / KERNEL).write_bytes(kernel)
    wheel, _ = built(sources, "")
    assert re.fullmatch(r"pyromq-[\d.]+-cp\d+-cp\d+-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(KERNEL) == kernel
        assert "pyspark_rocketmq/__init__.py" in archive.namelist()


def test_where_there_is_a_compiler_the_kernel_is_built_and_an_old_one_is_not_taken(sources: Path) -> None:
    old = sources / "src" / KERNEL
    old.write_bytes(b"built from other sources")
    wheel, _ = built(sources)
    installed = sources / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    asked = "from pyromq.kernel.choice import native; print(native().__file__)"
    served = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(installed), "PYROMQ_KERNEL": "native"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert served.stdout.strip() == str(installed / KERNEL), served.stderr
    assert old.read_bytes() == b"built from other sources"


def test_without_a_compiler_it_is_for_every_platform_and_one_line_says_why(sources: Path) -> None:
    wheel, said = built(sources, "")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    assert f"{Path(KERNEL).name} is not built: there is no gcc; its twin in Python serves" in said


def test_a_compiler_that_fails_does_not_keep_anybody_from_installing(sources: Path) -> None:
    broken = sources / "bin" / "gcc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 4\n")
    broken.chmod(0o755)
    wheel, said = built(sources, str(broken.parent))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert f"{Path(KERNEL).name} is not built: the compiler failed" in said


def test_what_users_make_beside_the_sources_is_no_change_to_git() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "pyromq-data/store/commitlog", "dist/a.whl", "build/a"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(ignored.stdout.splitlines()) == 3


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("1", 1)])
def test_without_a_compiler_that_is_said_and_python_serves(sources: Path, ci: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, str(sources / "scripts" / "native")],
        env={"PATH": str(sources), "PYTHONPATH": str(sources / "src"), "PYROMQ_CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout == "the native kernel is not built: there is no gcc; the Python kernel serves\n"
    assert not (sources / "src" / KERNEL).exists()


def test_make_native_builds_whatever_is_there_and_setup_where_it_is_missing(tmp_path: Path) -> None:
    """Who is told to run it has a kernel that is damaged, or has got a compiler since."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    stamps = [tmp_path / ".venv" / name for name in ("pyvenv.cfg", ".core", ".spark", ".dev", ".native")]
    kernel = tmp_path / "src" / KERNEL
    for file in (*(tmp_path / "requirements" / f"{name}.txt" for name in ("core", "spark", "dev")), kernel, *stamps):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for name in ("pyproject.toml", "scripts/native", "scripts/kernel_build.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for stamp in stamps:  # younger than all that they are made from
        stamp.touch()

    def would_build(goal: str) -> bool:
        printed = subprocess.run(["make", "-n", goal], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        return "python scripts/native" in printed

    assert (would_build("setup"), would_build("native")) == (False, True)
    kernel.unlink()
    assert (would_build("setup"), would_build("native")) == (True, True)
