"""What a page asks for and is not there."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import PyroError
from ...text.similar import closest


class NotThere(PyroError):
    """No broker that answers has it. `what`: topic, group, cluster, member."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no {what} {name!r}.{closest(name, known)}")
        self.what, self.name = what, name
