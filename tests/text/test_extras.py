"""The command that installs an extra: from the clone, from what pip was given, or by name."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pyromq.text import extras


class Installed:
    def __init__(self, direct_url: str | None) -> None:
        self._direct_url = direct_url

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._direct_url


def test_a_clone_is_named_and_stays_editable() -> None:
    root = Path(extras.__file__).parents[3]
    assert extras.install_command("spark") == f"{sys.executable} -m pip install -e '{root}[spark]'"


@pytest.mark.parametrize(
    ("direct_url", "place"),
    [
        ('{"url": "file:///a%20b/pyromq-1-py3-none-any.whl", "archive_info": {}}', "/a b/pyromq-1-py3-none-any.whl"),
        ('{"url": "file:///src/pyromq", "dir_info": {}}', "/src/pyromq"),
        ('{"url": "https://example.org/pyromq.whl"}', "pyromq"),
        (None, "pyromq"),
    ],
)
def test_without_a_clone_it_is_what_pip_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct_url: str | None, place: str
) -> None:
    monkeypatch.setattr(extras, "_CLONE", tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed(direct_url))
    assert extras.install_command("lake") == f"{sys.executable} -m pip install '{place}[lake]'"


def test_where_nothing_is_installed_it_is_our_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "_CLONE", tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert extras.install_command("spark").endswith(" -m pip install 'pyromq[spark]'")
