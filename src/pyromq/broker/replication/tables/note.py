"""What a member of an elected set keeps on disk of its tables: up to which record they are, and what it was last.

`pyromq/tablesTaken.json`. A master changes its tables before its records are confirmed. If it does not stop cleanly,
they may have what no other member has: then they are made anew from the log's newest snapshot.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ....store.files.disk import Disk
from ....store.tables.json_tables import JsonTable
from ...metadata.table_content import entry

NAME = "pyromq/tablesTaken.json"


class LastRole(Enum):
    """What this member was, as far as its disk knows."""

    NONE = "none"  # it was in no set yet
    FOLLOWED = "followed"
    LEADS = "leads"  # it leads, or was killed as a master
    LED = "led"  # it stopped cleanly, with everything confirmed


class TablesNote:
    """Blocking writes of one small file."""

    def __init__(self, disk: Disk) -> None:
        self._table = JsonTable(disk, NAME)
        content = self._table.load()
        self.role = entry(LastRole, content.get("role", LastRole.NONE.value), f"role in {NAME}")
        self.offset = entry(int, content.get("offset", 0), f"offset in {NAME}")
        # Slots that this member emptied as a master may be full again: what it put there was cut off.
        self.timers_doubtful = entry(bool, content.get("timersDoubtful", False), f"timersDoubtful in {NAME}")

    def write(self, role: LastRole, offset: int, timers_doubtful: bool) -> None:
        self.role, self.offset, self.timers_doubtful = role, offset, timers_doubtful
        fields: dict[str, Any] = {"role": role.value, "offset": offset, "timersDoubtful": timers_doubtful}
        for name, value in fields.items():
            self._table.replace(name, value)
        self._table.save()
