"""The tables of a member as records of changes meet them: those that the broker has in memory, and mere files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ....model import names
from ....protocol.bodies.body import DataVersion
from ....store.tables.json_tables import JsonTable
from ....store.tables.table_text import give_integer_keys
from ...metadata.config_table import ConfigTable
from ...metadata.groups import FORBIDDEN, Groups
from ...metadata.offsets import FORMER_GROUPS, OFFSETS, WRITER, Offsets
from ...metadata.table_content import entry
from ...metadata.topics import Topics
from .carried import VERSION
from .fold import ReplicaTable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicaFile:
    """A table that nobody has in memory: what it holds is read when a master begins. `changed` has it written."""

    table: JsonTable
    changed: Callable[[], None]

    def put(self, section: str, key: str | int, value: Any) -> None:
        self.table.put(section, key, self._with_integers(section, key, value))

    def drop(self, section: str, key: str | int) -> None:
        self.table.drop(section, key)

    def replace(self, section: str, value: Any) -> None:
        self.table.replace(section, value)

    def entries(self) -> Iterable[tuple[str, str | int]]:
        return [(section, key) for section, key in self.table.names() if key is not None and section != VERSION]

    def record_done(self) -> None:
        self.changed()

    def _with_integers(self, section: str, key: str | int, value: Any) -> Any:
        """Turn the keys of maps into numbers where the file has numbers: JSON makes text of them."""
        if not isinstance(value, dict):
            return value
        content = {section: {str(key): value}}
        give_integer_keys(content, self.table.name.rpartition("/")[2])
        return content[section][str(key)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicaConfigs:
    """Topics or groups. `is_born`: of names that every broker has from its birth, whatever a snapshot says. `gone` is
    called with each name that a record takes away."""

    configs: ConfigTable[Any]
    is_born: Callable[[str], bool]
    gone: Callable[[str], None] = lambda name: None

    def put(self, section: str, key: str | int, value: Any) -> None:
        if section == self.configs.SECTION:
            self.configs.adopt(str(key), self.configs.read_entry(str(key), value))
        elif section == FORBIDDEN and isinstance(self.configs, Groups):
            self.configs.adopt_forbidden_of(str(key), entry(dict[str, int], value, f"{FORBIDDEN} of {key}"))

    def drop(self, section: str, key: str | int) -> None:
        if section == self.configs.SECTION:
            if self.configs.adopt(str(key), None):
                self.gone(str(key))
        elif section == FORBIDDEN and isinstance(self.configs, Groups):
            self.configs.adopt_forbidden_of(str(key), {})

    def replace(self, section: str, value: Any) -> None:
        if section == VERSION:
            self.configs.version = entry(DataVersion, value, VERSION)

    def entries(self) -> Collection[tuple[str, str | int]]:
        known: list[tuple[str, str | int]] = [
            (self.configs.SECTION, name) for name in self.configs.all() if not self.is_born(name)
        ]
        forbidden = self.configs.forbidden if isinstance(self.configs, Groups) else ()
        return [*known, *((FORBIDDEN, group) for group in forbidden)]

    def record_done(self) -> None:
        self.configs.adopted(self.configs.version)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicaOffsets:
    """Consumer offsets. The broker's loop hands them to their table every few seconds."""

    offsets: Offsets

    def put(self, section: str, key: str | int, value: Any) -> None:
        if section == OFFSETS:
            self.offsets.adopt(str(key), entry(dict[int, int], value, f"{OFFSETS} of {key}"))
        elif section == FORMER_GROUPS:
            self.offsets.adopt_former(str(key), entry(list[str], value, f"{FORMER_GROUPS} of {key}"))

    def drop(self, section: str, key: str | int) -> None:
        if section == OFFSETS:
            self.offsets.adopt(str(key), None)
        elif section == FORMER_GROUPS:
            self.offsets.adopt_former(str(key), [])

    def replace(self, section: str, value: Any) -> None:
        if section == VERSION:
            self.offsets.version = entry(DataVersion, value, VERSION)
        elif section == WRITER:
            self.offsets.mark_ours()

    def entries(self) -> Collection[tuple[str, str | int]]:
        pairs: list[tuple[str, str | int]] = [(OFFSETS, key) for key in self.offsets.all()]
        return [*pairs, *((FORMER_GROUPS, topic) for topic in self.offsets.former())]

    def record_done(self) -> None:
        """Do nothing: changed offsets are known as such."""


def in_memory(
    topics: Topics, groups: Groups, offsets: Offsets, topic_gone: Callable[[str], None]
) -> dict[str, ReplicaTable]:
    """Return, by name, the tables that a broker has in memory from its start on."""
    return {
        "config/topics.json": ReplicaConfigs(topics, topics.is_system, topic_gone),
        "config/subscriptionGroup.json": ReplicaConfigs(groups, lambda name: name in names.SYSTEM_GROUPS),
        "config/consumerOffset.json": ReplicaOffsets(offsets),
    }
