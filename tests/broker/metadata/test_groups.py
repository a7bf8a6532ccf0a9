"""The group table: Java's file and defaults, groups made on demand, pairs that may not read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from pyromq.broker.metadata.groups import Groups
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.store.files.disk import read_whole
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.settings import live

GOLDEN = Path(__file__).parents[2] / "golden" / "store-clean.tar.gz"
NAME = "config/subscriptionGroup.json"


def groups_on(disk: SimulatedDisk) -> tuple[Groups, JsonTable]:
    table = JsonTable(disk, NAME)
    return Groups(table, lambda: 1_700_000_000_000), table


def test_a_new_broker_has_java_s_system_groups_with_its_defaults(disk: SimulatedDisk) -> None:
    groups, table = groups_on(disk)
    table.save()
    written = json.loads(read_whole(disk, NAME))
    with tarfile.open(GOLDEN) as archive:
        member = archive.extractfile(f"store/{NAME}")
        assert member is not None
        java = json.loads(member.read())
    theirs = {name: one for name, one in java["subscriptionGroupTable"].items() if not name.startswith("GID")}
    assert written["subscriptionGroupTable"] == theirs
    assert written["forbiddenTable"] == {}
    assert len(groups) == len(theirs)


def test_a_group_is_made_on_demand_if_that_is_allowed_and_its_name_is(disk: SimulatedDisk) -> None:
    groups, _ = groups_on(disk)
    closed = live(auto_create_subscription_group=False).config
    assert groups.ensure("G", closed) is None
    assert groups.ensure("G G", live().config) is None
    made = groups.ensure("G", live().config)
    assert made is not None
    assert (made.retry_max_times, made.retry_queue_nums, made.consume_enable) == (16, 1, True)
    assert groups.ensure("G", closed) is made


def test_changes_move_the_version_and_survive_a_restart(disk: SimulatedDisk) -> None:
    groups, table = groups_on(disk)
    before = groups.version.counter
    assert groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    assert not groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    groups.set_readable("G", "T", readable=False)
    table.save()
    again, _ = groups_on(disk)
    assert again.version.counter == before + 2
    found = again.find("G")
    assert found is not None
    assert found.retry_max_times == 3
    assert not again.may_read("G", "T")


def test_a_forbidden_pair_is_only_that_pair_and_can_be_lifted(disk: SimulatedDisk) -> None:
    groups, _ = groups_on(disk)
    groups.set_readable("G", "T", readable=False)
    groups.set_readable("G", "U", readable=False)
    assert (groups.may_read("G", "T"), groups.may_read("G", "V"), groups.may_read("H", "T")) == (False, True, True)
    groups.set_readable("G", "T", readable=True)
    assert groups.may_read("G", "T")
    assert groups.forbidden == {"G": {"U": 4}}
    groups.set_readable("G", "U", readable=True)
    assert groups.forbidden == {}


def test_a_deleted_group_takes_its_forbidden_pairs_along(disk: SimulatedDisk) -> None:
    groups, _ = groups_on(disk)
    groups.put(SubscriptionGroupConfig(group_name="G"))
    groups.set_readable("G", "T", readable=False)
    assert groups.delete("G")
    assert not groups.delete("G")
    assert groups.may_read("G", "T")


def test_watchers_see_each_change(disk: SimulatedDisk) -> None:
    groups, _ = groups_on(disk)
    seen: list[str] = []
    groups.watch(seen.append)
    for _ in range(2):  # the second time nothing changes
        groups.put(SubscriptionGroupConfig(group_name="G"))
        groups.set_readable("H", "T", readable=False)
    groups.set_readable("H", "T", readable=True)
    groups.delete("G")
    assert seen == ["G", "H", "H", "G"]
