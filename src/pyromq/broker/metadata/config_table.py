"""A versioned table of configurations by name: what the tables of topics and of groups have in common.

A change counts at once and is on disk soon after: an administrator is answered after that, a send is not held up
(`saving.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from ...protocol.bodies.body import DataVersion, decode_body
from ...store.tables.json_tables import JsonTable
from .table_content import entry, next_version, read_version, section, with_name

C = TypeVar("C")


class Watched:
    """Something whose changes others must know of before anything else can run."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call it with the name of each thing that changes, before anything else can run."""
        self._watchers.append(watcher)

    def _notify(self, name: str) -> None:
        for watcher in self._watchers:
            watcher(name)


class ConfigTable(Watched, Generic[C]):
    """Event loop only. Configurations that it hands out are shared: change a copy and `put` it."""

    SECTION: ClassVar[str]
    KIND: ClassVar[type[Any]]
    NOUN: ClassVar[str]  # `topic`, where the configurations have a `topic_name`

    def __init__(
        self,
        table: JsonTable,
        content: Mapping[str, Any],
        now_ms: Callable[[], int],
        changed: Callable[[], None],
        born: Collection[C] = (),
    ) -> None:
        """`content` is what was loaded. `changed` is called whenever there is something new to write. `born`: what a
        new table begins with."""
        super().__init__()
        self._table = table
        self._now_ms = now_ms
        self._changed = changed
        self.version = read_version(content, table.name)
        self._configs: dict[str, C] = {self._name(one): one for one in born}
        known = section(content, self.SECTION)
        for name, value in known.items():
            self._configs[name] = self.read_entry(name, value)
        if missing := [one for one in born if self._name(one) not in known]:
            for one in missing:
                self._keep(one)
            self._new_version()

    def __len__(self) -> int:
        return len(self._configs)

    def __contains__(self, name: str) -> bool:
        return name in self._configs

    def find(self, name: str) -> C | None:
        return self._configs.get(name)

    def all(self) -> Mapping[str, C]:
        return self._configs

    def page(self, version: str | None, start: int | None, count: int | None) -> dict[str, C]:
        """Return a stretch in order of the names; all of them unless `count` says how many.

        It begins at 0 if the table has changed since `version`: pages of two states would leave gaps. A page that would
        leave a single one for the next is one longer: a slave of RocketMQ 5.5.0 stops asking at `total - 1`.
        """
        if count is None or count <= 0:
            return dict(self._configs)
        is_current = version and decode_body(DataVersion, version.encode()) == self.version
        begin = start or 0 if is_current else 0
        end = begin + count + (begin + count == len(self._configs) - 1)
        return {name: self._configs[name] for name in sorted(self._configs)[begin:end]}

    def put(self, config: C) -> bool:
        """Create or replace. False: it was so already, and nothing has changed."""
        name = self._name(config)
        if self._configs.get(name) == config:
            return False
        self._configs[name] = config
        self._keep(config)
        self._new_version()
        self._notify(name)
        return True

    def delete(self, name: str) -> bool:
        if self._configs.pop(name, None) is None:
            return False
        self._table.drop(self.SECTION, name)
        self._new_version()
        self._notify(name)
        return True

    # --- taken over from a master ---------------------------------------------------------------------------------

    @property
    def changes(self) -> int:
        """Return a number that is another one after each change."""
        return self._table.changes

    def adopt(self, name: str, config: C | None) -> bool:
        """Make an entry what it is at the master, which may be nothing. `adopted` follows; False: it was so already."""
        if self._configs.get(name) == config:
            return False
        if config is None:
            del self._configs[name]
            self._table.drop(self.SECTION, name)
        else:
            self._configs[name] = config
            self._keep(config)
        self._notify(name)
        return True

    def read_entry(self, name: str, value: object) -> C:
        """Return a configuration as it stands in the table. TableDamaged: it is none."""
        what = f"{self.NOUN} {name} in {self._table.name}"
        config: C = entry(self.KIND, with_name(value, f"{self.NOUN}Name", name), what)
        return config

    def adopted(self, version: DataVersion) -> None:
        """End a taking over: the table has the master's version and goes to disk."""
        self.version = version
        self._table.replace("dataVersion", msgspec.to_builtins(version))
        self._changed()

    def _name(self, config: C) -> str:
        return str(getattr(config, f"{self.NOUN}_name"))

    def _keep(self, config: C) -> None:
        self._table.put(self.SECTION, self._name(config), msgspec.to_builtins(config))

    def _new_version(self) -> None:
        self.version = next_version(self.version, self._now_ms())
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        self._changed()
