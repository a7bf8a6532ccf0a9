"""What became of a table's columns between two of its forms. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..changes import Column

ADDED, DROPPED, RENAMED, RETYPED, KEY = "added", "dropped", "renamed", "retyped", "key"


class ColumnChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column, or the key. `was` and `now` are names of a column that was renamed, of a key those of its columns."""

    what: str
    column: str
    was: str = ""
    now: str = ""

    @property
    def words(self) -> str:
        if self.what == ADDED:
            return f"{self.column} added ({self.now})"
        if self.what == DROPPED:
            return f"{self.column} dropped"
        if self.what == RENAMED:
            return f"{self.column} renamed to {self.now}"
        return f"{self.column} is {self.now or 'none'}, was {self.was or 'none'}"


def changed_columns(before: Sequence[Column], after: Sequence[Column]) -> list[ColumnChange]:
    """Return what became of a table's columns.

    One that left where another of its type came, at the same place, counts as renamed.
    """
    old, new = {each.name: each for each in before}, {each.name: each for each in after}
    gone, come = [each for each in before if each.name not in new], [each for each in after if each.name not in old]
    found = []
    for left in list(gone):
        place = before.index(left)
        if place < len(after) and after[place] in come and after[place].type == left.type:
            found.append(ColumnChange(RENAMED, left.name, left.name, after[place].name))
            gone.remove(left)
            come.remove(after[place])
    found += [ColumnChange(DROPPED, each.name, was=each.type) for each in gone]
    found += [ColumnChange(ADDED, each.name, now=each.type) for each in come]
    found += [
        ColumnChange(RETYPED, name, old[name].type, new[name].type)
        for name in old
        if name in new and old[name].type != new[name].type
    ]
    was, now = (", ".join(each.name for each in columns if each.is_key) for columns in (before, after))
    if was != now:
        found.append(ColumnChange(KEY, "key", was, now))
    return found
