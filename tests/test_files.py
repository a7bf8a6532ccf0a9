"""Replacing a file: old or new content at every moment, and the backup beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq import files


def test_the_new_content_stands_and_the_old_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "below" / "table.json"
    files.replace_file(path, b"one")
    assert sorted(each.name for each in path.parent.iterdir()) == ["table.json"]
    files.replace_file(path, b"two")
    files.replace_file(path, b"three")
    assert path.read_bytes() == b"three"
    assert path.with_name("table.json.bak").read_bytes() == b"two"
    assert sorted(each.name for each in path.parent.iterdir()) == ["table.json", "table.json.bak"]


def test_only_the_owner_may_read_what_was_written(tmp_path: Path) -> None:
    """Also where a failure left a file aside that everybody may read."""
    path = tmp_path / "kvConfig.json"
    path.with_name("kvConfig.json.tmp").write_bytes(b"left")
    before = os.umask(0)
    try:
        files.replace_file(path, b"one")
        files.replace_file(path, b"two")
    finally:
        os.umask(before)
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        "kvConfig.json": 0o600,
        "kvConfig.json.bak": 0o600,
    }


def test_without_backup_there_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    files.replace_file(path, b"one", keep_backup=False)
    files.replace_file(path, b"two", keep_backup=False)
    assert [each.name for each in tmp_path.iterdir()] == ["table.json"]


@pytest.mark.parametrize("call", ["fsync", "link", "rename"])
def test_a_failure_at_any_step_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "table.json"
    files.replace_file(path, b"one")
    files.replace_file(path, b"two")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if call == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        files.replace_file(path, b"three")
    monkeypatch.undo()
    assert path.read_bytes() == b"two"
    files.replace_file(path, b"four")  # what the failure left aside is no obstacle
    assert path.read_bytes() == b"four"
    assert path.with_name("table.json.bak").read_bytes() == b"two"


def test_new_folders_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_a_folder_that_could_not_be_synced_is_not_taken_for_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync_folder", fail)
    with pytest.raises(OSError, match="Input/output error"):
        files.make_folder(tmp_path / "a")
    assert not (tmp_path / "a").exists()
