"""The subscription groups of this broker: one versioned table, kept in `config/subscriptionGroup.json`.

Heartbeats, pulls and administration ask it. A group that is missing is made when somebody consumes with it, unless
that is switched off. `forbidden` are pairs of group and topic that may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...store.tables.json_tables import JsonTable
from ..config import BrokerConfig
from .table_content import entry, next_version, read_version, section, with_name

SECTION = "subscriptionGroupTable"
FORBIDDEN = "forbiddenTable"
READ_BIT = 1 << 2  # of a forbidden entry, as Java counts its permissions


class Groups:
    """Event loop only. Configurations that it hands out are shared: change a copy and `put` it."""

    def __init__(self, table: JsonTable, now_ms: Callable[[], int], changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called whenever there is something new to write."""
        self._table = table
        self._now_ms = now_ms
        self._changed = changed
        self._watchers: list[Callable[[str], None]] = []
        content = table.load()
        self.version = read_version(content, table.name)
        self._groups: dict[str, SubscriptionGroupConfig] = {}
        for name, value in section(content, SECTION).items():
            what = f"group {name} in {table.name}"
            self._groups[name] = entry(SubscriptionGroupConfig, with_name(value, "groupName", name), what)
        self._forbidden: dict[str, dict[str, int]] = {
            group: dict(topics) for group, topics in section(content, FORBIDDEN).items() if isinstance(topics, dict)
        }
        if FORBIDDEN not in content:
            table.replace(FORBIDDEN, {})
        for name in names.SYSTEM_GROUPS:
            if name not in self._groups:
                self.put(SubscriptionGroupConfig(group_name=name))

    def __contains__(self, name: str) -> bool:
        return name in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call it with the name of each group that changes, before anything else can run."""
        self._watchers.append(watcher)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        return self._groups.get(name)

    def ensure(self, name: str, config: BrokerConfig) -> SubscriptionGroupConfig | None:
        """Return the group, made with Java's defaults if that is allowed and its name is; else None.

        RequestRefused if there are so many groups that only an administrator makes another one.
        """
        group = self._groups.get(name)
        if group is None and self.makes(name, config):
            self.check_capacity(1, name, config)
            group = SubscriptionGroupConfig(group_name=name)
            self.put(group)
        return group

    def makes(self, name: str, config: BrokerConfig) -> bool:
        """Return whether this missing group would be made for somebody who consumes with it."""
        return config.may_create_group(name) and names.group_fault(name) is None

    def check_capacity(self, more: int, name: str, config: BrokerConfig) -> None:
        """Refuse to make so many groups, of which `name` is one, if they would be too many."""
        if len(self._groups) + more > config.max_auto_created_groups:
            raise RequestRefused(
                f"group {name} does not exist and is not made: this broker has {len(self._groups)} groups, the limit "
                f"(maxAutoCreatedGroups) is {config.max_auto_created_groups}. Create it "
                f"(mqadmin updateSubGroup -g {name}), or raise the setting",
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )

    def all(self) -> Mapping[str, SubscriptionGroupConfig]:
        return self._groups

    def page(self, start: int, count: int) -> dict[str, SubscriptionGroupConfig]:
        return {name: self._groups[name] for name in sorted(self._groups)[start : start + count]}

    def put(self, group: SubscriptionGroupConfig) -> bool:
        """Create or replace. False: it was so already."""
        if self._groups.get(group.group_name) == group:
            return False
        self._groups[group.group_name] = group
        self._table.put(SECTION, group.group_name, msgspec.to_builtins(group))
        self._new_version(group.group_name)
        return True

    def delete(self, name: str) -> bool:
        if self._groups.pop(name, None) is None:
            return False
        self._table.drop(SECTION, name)
        if self._forbidden.pop(name, None) is not None:
            self._table.drop(FORBIDDEN, name)
        self._new_version(name)
        return True

    # --- pairs that may not read ----------------------------------------------------------------------------------

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        return self._forbidden

    def may_read(self, group: str, topic: str) -> bool:
        return not self._forbidden.get(group, {}).get(topic, 0) & READ_BIT

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        if self.may_read(group, topic) == readable:
            return
        topics = self._forbidden.setdefault(group, {})
        bits = topics.pop(topic, 0) & ~READ_BIT if readable else topics.get(topic, 0) | READ_BIT
        if bits:
            topics[topic] = bits
        if topics:
            self._table.put(FORBIDDEN, group, dict(topics))
        else:
            del self._forbidden[group]
            self._table.drop(FORBIDDEN, group)
        self._new_version(group)

    def _new_version(self, name: str) -> None:
        self.version = next_version(self.version, self._now_ms())
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        self._changed()
        for watcher in self._watchers:
            watcher(name)
