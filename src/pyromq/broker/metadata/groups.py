"""The subscription groups of this broker: one versioned table, kept in `config/subscriptionGroup.json`.

Heartbeats, pulls and administration ask it. A group that is missing is made when somebody consumes with it, unless
that is switched off. `forbidden` are pairs of group and topic that may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import RequestRefused
from ...model import names
from ...model.codes import ResponseCode
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...store.tables.json_tables import JsonTable
from ..config import BrokerConfig
from .config_table import ConfigTable
from .table_content import section

FORBIDDEN = "forbiddenTable"
READ_BIT = 1 << 2  # of a forbidden entry, as Java counts its permissions


class Groups(ConfigTable[SubscriptionGroupConfig]):
    """Event loop only."""

    SECTION, KIND, NOUN = "subscriptionGroupTable", SubscriptionGroupConfig, "group"

    def __init__(self, table: JsonTable, now_ms: Callable[[], int], changed: Callable[[], None] = lambda: None) -> None:
        content = table.load()
        super().__init__(table, content, now_ms, changed)
        self._forbidden: dict[str, dict[str, int]] = {
            group: dict(topics) for group, topics in section(content, FORBIDDEN).items() if isinstance(topics, dict)
        }
        if FORBIDDEN not in content:
            table.replace(FORBIDDEN, {})
        for name in names.SYSTEM_GROUPS:
            if name not in self:
                self.put(SubscriptionGroupConfig(group_name=name))

    def ensure(self, name: str, config: BrokerConfig) -> SubscriptionGroupConfig | None:
        """Return the group, made with Java's defaults if that is allowed and its name is; else None.

        RequestRefused if there are so many groups that only an administrator makes another one.
        """
        group = self._configs.get(name)
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
        if len(self._configs) + more > config.max_auto_created_groups:
            raise RequestRefused(
                f"group {name} does not exist and is not made: this broker has {len(self._configs)} groups, the limit "
                f"(maxAutoCreatedGroups) is {config.max_auto_created_groups}. Create it "
                f"(mqadmin updateSubGroup -g {name}), or raise the setting",
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )

    def delete(self, name: str) -> bool:
        if name in self and self._forbidden.pop(name, None) is not None:
            self._table.drop(FORBIDDEN, name)
        return super().delete(name)

    # --- pairs that may not read ----------------------------------------------------------------------------------

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        return self._forbidden

    def adopt_forbidden(self, forbidden: Mapping[str, Mapping[str, int]]) -> None:
        """Make the pairs that may not read what they are at the master."""
        for group in self._forbidden.keys() | forbidden.keys():
            self.adopt_forbidden_of(group, forbidden.get(group, {}))

    def adopt_forbidden_of(self, group: str, topics: Mapping[str, int]) -> None:
        """Make the topics that a group may not read what they are at the master; empty: it may read all."""
        if self._forbidden.get(group, {}) == topics:
            return
        if topics:
            self._forbidden[group] = dict(topics)
            self._table.put(FORBIDDEN, group, dict(topics))
        else:
            del self._forbidden[group]
            self._table.drop(FORBIDDEN, group)
        self._notify(group)

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
        self._new_version()
        self._notify(group)
