"""Committed offsets: Java's file, resets that win over commits, whole pairs cloned and dropped."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from pyromq.broker.metadata.offsets import Offsets
from pyromq.store.files.disk import read_whole
from pyromq.store.tables.json_tables import JsonTable
from pyromq.store.tables.table_text import give_integer_keys, parse_table
from pyromq.testing.simulated_disk import SimulatedDisk

GOLDEN = Path(__file__).parents[2] / "golden" / "store-clean.tar.gz"
NAME = "config/consumerOffset.json"


def offsets_on(disk: SimulatedDisk, step: int = 500) -> tuple[Offsets, JsonTable]:
    table = JsonTable(disk, NAME)
    return Offsets(table, lambda: 1_700_000_000_000, step), table


def golden_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    with tarfile.open(GOLDEN) as archive:
        member = archive.extractfile(f"store/{NAME}")
        assert member is not None
        content = parse_table(member.read())
    give_integer_keys(content, "consumerOffset.json")
    table = JsonTable(disk, NAME)
    for section, value in content.items():
        table.replace(section, value)
    table.save()
    return disk


def test_java_s_offsets_are_found_again() -> None:
    offsets, _ = offsets_on(golden_disk())
    assert offsets.find("GoldenRoll", "GID_pull", 0) == 1234
    assert offsets.queues("GoldenFill", "GID_pull") == {0: 10, 1: 11}
    assert offsets.find("GoldenRoll", "GID_pull", 9) is None
    assert offsets.find("GoldenRoll", "Nobody", 0) is None
    assert offsets.topics_of("GID_pull") == ["GoldenFill", "GoldenRoll"]
    assert "GID_pull" in offsets.groups_of("GoldenRoll")


def test_commits_survive_a_restart_once_they_were_stored(disk: SimulatedDisk) -> None:
    offsets, table = offsets_on(disk)
    assert not offsets.store_changed()
    offsets.commit("T", "G", 0, 7)
    offsets.commit("T", "G", 1, 8)
    offsets.note_pulled("T", "G", 0, 9)
    assert offsets.store_changed()
    table.save()
    again, _ = offsets_on(disk)
    assert (again.queues("T", "G"), again.pulled("T", "G", 0)) == ({0: 7, 1: 8}, 9)
    assert b'"groupTopicMap":{\n\t\t"G":[\n\t\t\t"T"\n\t\t]\n\t}' in read_whole(disk, NAME)


def test_offsets_may_go_back(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk)
    offsets.commit("T", "G", 0, 7)
    offsets.commit("T", "G", 0, 3)
    assert offsets.find("T", "G", 0) == 3


def test_only_changed_entries_are_stored_and_only_once(disk: SimulatedDisk) -> None:
    offsets, table = offsets_on(disk)
    offsets.commit("T", "G", 0, 7)
    offsets.store_changed()
    before = table.changes
    offsets.commit("T", "G", 0, 7)
    assert not offsets.store_changed()
    assert table.changes == before


def test_a_reset_is_pending_until_it_is_taken(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk)
    offsets.commit("T", "G", 0, 100)
    offsets.reset("T", "G", 0, 5)
    assert offsets.has_reset("T", "G", 0)
    assert offsets.find("T", "G", 0) == 5
    assert offsets.take_reset("T", "G", 0, 100) == 5
    assert offsets.has_reset("T", "G", 0)  # the member that was sent there has not pulled since
    assert offsets.take_reset("T", "G", 0, 5) is None
    assert not offsets.has_reset("T", "G", 0)
    assert offsets.find("T", "G", 0) == 5


def test_a_member_that_pulls_from_0_on_is_not_sent_there(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk)
    assert offsets.commit_missing("T", "G", {0: 0, 1: 0}, send=True)
    assert offsets.take_reset("T", "G", 0, 0) is None
    assert not offsets.has_reset("T", "G", 0)
    assert offsets.take_reset("T", "G", 1, 7) == 0
    assert offsets.has_reset("T", "G", 1)


def test_the_version_moves_once_in_so_many_commits(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk, step=3)
    before = offsets.version.counter
    for offset in range(1, 8):
        offsets.commit("T", "G", 0, offset)
    assert offsets.version.counter == before + 2


def test_clone_copies_and_does_not_share(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk)
    offsets.commit("T", "G", 0, 7)
    assert offsets.clone("G", "H", "T")
    assert not offsets.clone("G", "H", "Other")
    offsets.commit("T", "H", 0, 9)
    assert offsets.find("T", "G", 0) == 7


def test_dropped_groups_and_topics_leave_the_file_too(disk: SimulatedDisk) -> None:
    offsets, table = offsets_on(disk)
    for topic, group in (("T", "G"), ("T", "H"), ("U", "G"), ("U", "H")):
        offsets.commit(topic, group, 0, 1)
    offsets.store_changed()
    offsets.drop_group("G")
    offsets.drop_topic("U")
    assert offsets.store_changed()
    table.save()
    again, _ = offsets_on(disk)
    assert again.all() == {"T@H": {0: 1}}


def test_a_broadcast_entry_belongs_to_no_group() -> None:
    offsets, _ = offsets_on(golden_disk())
    assert "GoldenPlain@GID_broadcast@broadcast" in offsets.all()
    assert offsets.topics_of("GID_broadcast") == []
    assert offsets.find("GoldenPlain@GID_broadcast", "broadcast", 0) == 10


def test_pairs_beyond_the_limit_are_not_taken_and_known_ones_go_on(disk: SimulatedDisk) -> None:
    offsets = Offsets(JsonTable(disk, NAME), lambda: 1, most_pairs=lambda: 3)
    assert [offsets.commit("T", f"G{number}", 0, 1) for number in range(5)] == [True, True, True, False, False]
    assert offsets.commit("T", "G0", 7, 2)
    offsets.note_pulled("T", "G0", 0, 1)
    noted = [offsets.note_pulled("T", f"P{number}", 0, 1) is not None for number in range(5)]
    assert noted == [True, True, False, False, False]
    assert [offsets.pulled("T", f"P{number}", 0) for number in range(3)] == [1, 1, None]
    assert not offsets.clone("G0", "other", "T")
    assert len(offsets.all()) == 3
    offsets.drop_group("G1")
    assert offsets.commit("T", "G4", 0, 1)


def test_pulls_of_a_group_that_never_committed_go_with_it_and_with_the_topic(disk: SimulatedDisk) -> None:
    offsets = Offsets(JsonTable(disk, NAME), lambda: 1)
    for topic, group in (("T", "G"), ("T", "H"), ("U", "G"), ("U", "H")):
        offsets.note_pulled(topic, group, 0, 1)
    offsets.drop_group("G")
    offsets.drop_topic("T")
    left = [(topic, group) for topic in "TU" for group in "GH" if offsets.pulled(topic, group, 0) is not None]
    assert left == [("U", "H")]


def test_which_topics_a_group_has_is_written_for_changed_groups_alone(disk: SimulatedDisk) -> None:
    table = JsonTable(disk, NAME)
    offsets = Offsets(table, lambda: 1)

    def written() -> dict[str, list[str]]:
        offsets.store_changed()
        table.save()
        found: dict[str, list[str]] = parse_table(read_whole(disk, NAME))["groupTopicMap"]
        return found

    offsets.commit("T", "G", 0, 1)
    offsets.commit("U", "G", 0, 1)
    offsets.commit("T", "H", 0, 1)
    assert written() == {"G": ["T", "U"], "H": ["T"]}
    offsets.commit("V", "H", 0, 1)
    assert written() == {"G": ["T", "U"], "H": ["T", "V"]}
    offsets.drop_topic("T")
    offsets.drop_group("H")
    assert written() == {"G": ["U"]}


def test_watchers_see_resets_and_what_is_dropped(disk: SimulatedDisk) -> None:
    offsets, _ = offsets_on(disk)
    seen: list[str] = []
    offsets.watch(seen.append)
    offsets.commit("T", "G", 0, 5)
    offsets.note_pulled("T", "H", 0, 5)
    offsets.reset("T", "G", 0, 3)
    offsets.drop_topic("T")
    assert (seen[0], set(seen)) == ("T@G", {"T@G", "T@H"})


def test_an_offset_that_is_noted_where_it_is_kept_is_read_and_written_as_any(disk: SimulatedDisk) -> None:
    """A kernel does that: it keeps what `note_pulled` gave it."""
    offsets, table = offsets_on(disk)
    noted = offsets.note_pulled("T", "G", 3, 5)
    assert noted is not None
    assert (offsets.store_changed(), offsets.store_changed()) == (True, False)
    noted.note(5)
    assert not offsets.store_changed()
    noted.note(9)
    assert (offsets.pulled("T", "G", 3), offsets.store_changed()) == (9, True)
    table.save()
    assert offsets_on(disk)[0].pulled("T", "G", 3) == 9


def test_the_groups_of_deleted_topics_are_remembered_within_a_limit(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make topics and groups, and delete them."""
    monkeypatch.setattr("pyromq.broker.metadata.offsets.MOST_FORMER", 5)
    offsets, table = offsets_on(disk)
    for topic in ("A", "B", "C"):
        for group in ("G", "H"):
            offsets.commit(topic, group, 0, 1)
        offsets.drop_topic(topic)
    offsets.store_changed()
    table.save()
    again, _ = offsets_on(disk)
    assert [again.take_former_groups(topic) for topic in ("A", "B", "C")] == [[], ["G", "H"], ["G", "H"]]
    assert again.take_former_groups("C") == []
