"""Files that the store has given up and that a helper thread removes: freeing a large one takes long.

The writer gives a name up in one step (nobody finds the file any more), hands it in here, and lets `carry_out` run
elsewhere. Names go in the order in which they came. Whoever needs a name or its folder at once calls `carry_out`
itself and waits. Never truncates: readers may have the file open or mapped.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from .disk import Disk


class Removals:
    """`add` and `holds` in the writer's thread, `carry_out` in any."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._names: deque[str] = deque()
        self._at_work = ""  # the name that goes right now
        self._one_at_a_time = Lock()

    def holds(self, beginning: str = "") -> bool:
        """Return whether a name that begins so is still to be removed."""
        # The queue before the one at work: a name is noted there before it leaves the queue.
        return any(name.startswith(beginning) for name in (*tuple(self._names), self._at_work) if name)

    def add(self, name: str) -> None:
        self._names.append(name)

    def carry_out(self) -> None:
        """Remove everything that was added before. Blocking. A removal that fails is not tried again."""
        with self._one_at_a_time:
            try:
                while self._names:
                    self._at_work = self._names[0]
                    self._names.popleft()
                    self._disk.remove(self._at_work)
            finally:
                self._at_work = ""
