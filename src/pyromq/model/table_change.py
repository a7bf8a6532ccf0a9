"""One change of a table that is kept as JSON: what its journal on disk and the records of an elected set have."""

from __future__ import annotations

from typing import Any, NamedTuple

DROPPED = object()  # the value of an entry that is gone


class TableChange(NamedTuple):
    """`key` None: the whole section. `value` DROPPED: the entry is gone."""

    section: str
    key: str | int | None
    value: Any

    def parts(self) -> list[Any]:
        """Return it as it is written: section, key and value; without a value if the entry is gone."""
        return [self.section, self.key] if self.value is DROPPED else [self.section, self.key, self.value]
