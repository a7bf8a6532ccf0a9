"""Which topics were deleted, and where the log ended then: their older records never get a queue entry again.

A deleted topic's records stay in the log until they expire. Whatever writes queues anew (recovery, a rebuild) asks
here, so that they do not come back, nor mix with those of a topic that was made again under the same name.
`pyromq/deleted` gets a line durably before the topic's queues go; what has expired is left out when it is written anew.

line  | CRC32 of the rest, 8 hex digits | space | position | space | topic |      one that is torn does not count
"""

from __future__ import annotations

from contextlib import closing

from ...model.wire_text import whole_number
from ..files.disk import Disk, read_if_there, replace_durably, sealed, unsealed

DELETED_FILE = "pyromq/deleted"
_MOST_ADDED = 1000  # lines, then the file is written anew without those that have expired


def read_deleted(disk: Disk) -> dict[str, int]:
    """Return deleted topics with the position behind the last record that each had then."""
    deleted: dict[str, int] = {}
    for line in (read_if_there(disk, DELETED_FILE) or b"").split(b"\n"):
        position, _, topic = (unsealed(line) or b"").partition(b" ")
        behind = whole_number(position)
        if behind is not None:
            deleted[topic.decode("utf-8", "surrogateescape")] = behind
    return deleted


class DeletedTopics:
    """The list, open for adding to it. One writer."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.positions = read_deleted(disk)
        self._added = 0  # lines since the file was written as a whole; before that nothing is added to it
        self._end = 0

    def forget_outside(self, start: int, end: int) -> None:
        """Forget topics whose records lie before the log's start; nothing was deleted behind its end."""
        kept = {topic: min(position, end) for topic, position in self.positions.items() if position > start}
        if kept != self.positions:
            self.positions.clear()  # the same dict stays in use
            self.positions.update(kept)
            self._write()

    def note(self, topic: str, position: int, start: int) -> None:
        """Note a deleted topic durably. Blocking, and short however many were deleted before: a line and its sync.

        The first note of an opening writes the whole file, since a line behind a torn one would not be read. So does
        one in a thousand, without the topics whose records have expired: they lie before the log's `start`."""
        if not position:
            return  # there are no records
        self.positions[topic] = position
        if not 0 < self._added < _MOST_ADDED:
            for expired in [known for known, place in self.positions.items() if place <= start]:
                del self.positions[expired]
            self._write()
        else:
            self._add(_line(topic, position))

    def _write(self) -> None:
        content = b"".join(_line(topic, position) for topic, position in self.positions.items())
        replace_durably(self._disk, DELETED_FILE, content)
        self._added, self._end = 1, len(content)

    def _add(self, line: bytes) -> None:
        added, self._added = self._added, 0  # after a fault the next note writes the file anew
        with closing(self._disk.open(DELETED_FILE)) as file:
            file.pwrite(self._end, line)
            file.sync()
        self._added, self._end = added + 1, self._end + len(line)


def _line(topic: str, position: int) -> bytes:
    return sealed(b"%d %s" % (position, topic.encode("utf-8", "surrogateescape"))) + b"\n"
