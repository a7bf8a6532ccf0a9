"""Records that nobody can read, as the option `mode` says: they fail the read, are left out, or have no body.

A bad record is one whose body cannot be decompressed, whose inner batch is broken, or whose lengths do not add up. The
words are those of Spark's own sources. Made once per task; readers of queues and of store files ask here. No Spark.
"""

from __future__ import annotations

from ... import logs
from ...errors import ProtocolError
from ...protocol.compression import CompressionMissing
from ...protocol.messages import UnreadableMessage

log = logs.get("pyromq.spark")

FAILFAST, DROPMALFORMED, PERMISSIVE = MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")


class BadRecord(ProtocolError):
    """A record of a read cannot be read. The text says which, and how to go on."""


class BadRecords:
    """What one task does with them. `where` is its queue, or its store."""

    def __init__(self, mode: str, where: str) -> None:
        self._mode = mode
        self._where = where
        self.count = 0

    def is_kept(self, message: UnreadableMessage) -> bool:
        """Return True if the record becomes a row without a body, False if it is left out. BadRecord fails the read.

        Where only a package is missing, the read always fails: the record is good.
        """
        if message.is_curable:
            raise CompressionMissing(f"{self._place(message)}: {message.fault}")
        if self._mode == FAILFAST:
            raise BadRecord(
                f"{self._place(message)} cannot be read: {message.fault}. Set mode={DROPMALFORMED} to leave such "
                f"records out, or mode={PERMISSIVE} to get them as rows whose body is null"
            )
        self.count += 1
        log.warning(
            "a record cannot be read",
            where=self._where,
            topic=message.topic,
            queue_id=message.queue_id,
            offset=message.queue_offset,
            position=message.physical_offset,
            id=message.message_id,
            fault=message.fault,
            mode=self._mode,
            of_this_task=self.count,
        )
        return self._mode == PERMISSIVE

    def _place(self, message: UnreadableMessage) -> str:
        return (
            f"{self._where}: the record at offset {message.queue_offset} of queue {message.queue_id} of "
            f"{message.topic or 'an unknown topic'} (commit log position {message.physical_offset}, "
            f"message {message.message_id})"
        )
