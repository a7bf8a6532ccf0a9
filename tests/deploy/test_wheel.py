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
