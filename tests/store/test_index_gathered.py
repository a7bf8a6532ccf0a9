"""Index entries are gathered before they go to their file: found all the same, written by a commit at the latest."""

from __future__ import annotations

import pytest

from pyromq.store.index import key_index
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.test_index import commit, found, made, placed


def test_what_is_gathered_is_found() -> None:
    index = made(SimulatedDisk())
    index.accept([placed(1, "a")])
    index.accept([placed(2, "b a")])
    assert index.files[-1].tail.pending_bytes == 3 * 20
    assert found(index, "a") == [200, 100]
    assert found(index, "b") == [200]


def test_a_commit_writes_it() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(1, "a")])
    found(index, "a")
    index.accept([placed(2, "a b")])
    commit(index, disk)
    assert index.files[-1].tail.pending_bytes == 0
    assert found(made(disk), "a") == [200, 100]


def test_what_was_not_committed_is_not_there_after_a_crash() -> None:
    disk = SimulatedDisk()
    index = made(disk)
    index.accept([placed(1, "a")])
    commit(index, disk)
    index.accept([placed(2, "a")])
    again = made(disk)
    assert found(again, "a") == [100]
    again.accept([placed(2, "a")])
    assert found(again, "a") == [200, 100]


def test_enough_of_it_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "GATHERED_BYTES", 40)
    index = made(SimulatedDisk())
    index.accept([placed(1, "a")])
    assert index.files[-1].tail.pending_bytes == 20
    index.accept([placed(2, "b")])
    assert index.files[-1].tail.pending_bytes == 0
