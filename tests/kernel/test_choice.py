"""Which kernel serves, and what is said if the one that is asked for is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.kernel import choice
from tests.support import require


@pytest.fixture(autouse=True)
def nothing_is_loaded() -> None:
    choice._load.cache_clear()


@pytest.mark.parametrize(
    ("wanted", "built", "serves"),
    [("", True, "native"), ("", False, "python"), ("python", True, "python"), ("native", True, "native")],
)
def test_the_native_one_serves_where_it_was_built_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, wanted: str, built: bool, serves: str
) -> None:
    monkeypatch.setenv(choice.VARIABLE, wanted)
    monkeypatch.setattr(choice, "is_built", lambda: built)
    assert choice.kernel_name() == serves
    assert choice.is_forced() == bool(wanted)


@pytest.mark.parametrize(("wanted", "says"), [("native", "make native"), ("rust", "python or native")])
def test_a_forced_kernel_that_is_missing_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, wanted: str, says: str
) -> None:
    monkeypatch.setenv(choice.VARIABLE, wanted)
    monkeypatch.setattr(choice, "is_built", lambda: False)
    with pytest.raises(ConfigError, match=f"PYROMQ_KERNEL={wanted}.*{says}"):
        choice.kernel_name()


def test_what_is_installed_without_one_names_a_compiler_and_no_makefile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(choice.VARIABLE, "native")
    monkeypatch.setattr(choice, "is_built", lambda: False)
    monkeypatch.setattr(choice, "_MAKEFILE", tmp_path / "Makefile")
    with pytest.raises(ConfigError, match="install gcc and Python's headers, then pyromq again"):
        choice.kernel_name()


def test_a_kernel_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.VARIABLE, "native")
    require(choice.is_built(), "the native kernel is not built here: make native")
    monkeypatch.setattr(choice, "sources_mark", lambda _: "another")
    with pytest.raises(ConfigError, match=r"built from other sources .*make native.*PYROMQ_KERNEL=python"):
        choice.native()


def test_a_kernel_that_cannot_be_loaded_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_short(name: str) -> None:
        raise ImportError("kernel.so: file too short")

    monkeypatch.setenv(choice.VARIABLE, "")
    monkeypatch.setattr(choice, "is_built", lambda: True)
    monkeypatch.setattr(choice, "import_module", too_short)
    with pytest.raises(ConfigError, match=r"cannot be loaded .*too short.*make native.*PYROMQ_KERNEL=python"):
        choice.native()


def test_a_kernel_that_is_cut_off_is_not_imported(tmp_path: Path) -> None:
    """In a process of its own, for which it would be the end."""
    require(choice.is_built(), "the native kernel is not built here: make native")
    spec = find_spec("pyromq.kernel.native.kernel")
    assert spec is not None
    assert spec.origin is not None
    whole = Path(spec.origin).read_bytes()
    asked = [sys.executable, "-c", "from pyromq.kernel.choice import native; native()"]
    for length in (len(whole) - 1, 5000, 63):
        library = tmp_path / Path(spec.origin).name
        library.write_bytes(whole[:length])
        library.chmod(0o600)
        done = subprocess.run(
            asked,
            env={**os.environ, "PYROMQ_KERNEL_PATH": str(tmp_path), choice.VARIABLE: "native"},
            capture_output=True,
            text=True,
        )
        assert f"native kernel cannot be loaded ({tmp_path}" in done.stderr
        assert "make native" in done.stderr


def asked_for(folder: str, kernel: str = "native") -> str:
    """What a process says that is asked for the kernel of a folder; empty if it serves."""
    done = subprocess.run(
        [sys.executable, "-c", "from pyromq.kernel.choice import native; native()"],
        env={**os.environ, choice.PATH_VARIABLE: folder, choice.VARIABLE: kernel},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def test_a_kernel_of_another_folder_is_loaded_only_if_nobody_else_could_have_put_it_there(tmp_path: Path) -> None:
    require(choice.is_built(), "the native kernel is not built here: make native")
    spec = find_spec("pyromq.kernel.native.kernel")
    assert spec is not None
    assert spec.origin is not None
    library = tmp_path / Path(spec.origin).name
    shutil.copy(spec.origin, library)
    tmp_path.chmod(0o700)
    library.chmod(0o700)
    assert asked_for(str(tmp_path)) == ""
    assert "say PYROMQ_KERNEL=native too" in asked_for(str(tmp_path), kernel="")
    assert "No such file" in asked_for(str(tmp_path / "none"))
    assert "is refused: others could put a library there" in asked_for(os.path.relpath(tmp_path))
    library.chmod(0o722)
    assert f"{library} has to be named by its whole path" in asked_for(str(tmp_path))
    library.chmod(0o700)
    tmp_path.chmod(0o777)
    assert "its rights are 777" in asked_for(str(tmp_path))


def test_a_folder_of_another_user_is_not_loaded_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(choice.VARIABLE, "native")
    monkeypatch.setenv(choice.PATH_VARIABLE, str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    (tmp_path / "kernel.so").symlink_to("/nowhere")
    if os.getuid() != 0:  # what belongs to root may be loaded by everybody
        with pytest.raises(ConfigError, match=r"belong to user 4711 or root"):
            choice.other_build()
    monkeypatch.setattr(Path, "lstat", lambda _: os.stat_result((0o40700, 0, 0, 1, 99, 99, 0, 0, 0, 0)))
    with pytest.raises(ConfigError, match=r"belong to user 4711 or root, .*; its owner is 99"):
        choice.other_build()


def test_the_mark_changes_with_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choice, "_SOURCES", tmp_path)
    marks = {choice.sources_mark()}
    for name, text in (("a.pyx", "1"), ("a.pyx", "2"), ("b.pxi", "2"), ("c.h", "")):
        (tmp_path / name).write_text(text)
        marks.add(choice.sources_mark())
    (tmp_path / "kernel.so").write_text("not a source")
    assert choice.sources_mark() in marks
    assert len(marks) == 5
