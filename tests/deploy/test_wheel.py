"""The wheel, with the native kernel that was built for this Python and without; what the container makes it from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

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


def built(sources: Path) -> Path:
    into = sources / "dist"
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=sources,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.iterdir()
    return wheel


def test_a_kernel_that_was_built_goes_along_and_the_wheel_is_for_this_platform(sources: Path) -> None:
    (sources / "src" / KERNEL).write_bytes(b"built")
    wheel = built(sources)
    assert re.fullmatch(r"pyromq-[\d.]+-cp\d+-cp\d+-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(KERNEL) == b"built"
        assert "pyspark_rocketmq/__init__.py" in archive.namelist()


def test_without_one_it_is_for_every_platform(sources: Path) -> None:
    wheel = built(sources)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]


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
    for name in ("pyproject.toml", "scripts/native"):
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
