"""What replicas change about pulls: a slave that is read from or not, and which broker a client is told to ask next.

suggestWhichBrokerId is the master's number, 0, unless slaveReadEnable is on: then who is far behind is sent to a slave.
Far is what memory will hardly have: messages further from the log's end than accessMessageInMemoryMaxRatio percent.
"""

from __future__ import annotations

from dataclasses import replace

from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.topic import MASTER_ID
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...store.log.commit_log import CommitLog
from ...store.log.reader import Selection
from ..config import BrokerConfig
from .tickets import code_of


class SlaveReads:
    """Event loop only."""

    def __init__(self, live: Live[BrokerConfig], log: CommitLog, memory_bytes: int) -> None:
        self._log = log
        self._memory_bytes = memory_bytes
        self._use(live.config)
        live.watch(self._use)

    def _use(self, config: BrokerConfig) -> None:
        self._settings = settings = config.replication
        self._near_bytes = self._memory_bytes * config.access_message_in_memory_max_ratio // 100
        self._refusal: RequestRefused | None = None
        if settings.is_slave and not settings.slave_read_enable:
            self._refusal = RequestRefused(
                f"[REJECTREQUEST] the broker[{config.broker_name}] is a slave and is not read from: ask its master, or "
                "set slaveReadEnable=true on both",
                ResponseCode.SYSTEM_BUSY,
            )

    def check(self) -> None:
        """Raise RequestRefused if this broker is a slave that serves no pulls."""
        if self._refusal is not None:
            raise self._refusal

    def nothing_here(self, selection: Selection, asked: int) -> tuple[ResponseCode, Selection]:
        """Return how a pull from offset `asked` that found nothing is answered, and where its client goes on.

        A slave may lack what its master has, new messages as well as old ones: it sends nobody to another offset,
        unless it is told to (offsetCheckInSlave)."""
        code, settings = code_of(selection.status, asked), self._settings
        if code == ResponseCode.PULL_OFFSET_MOVED and settings.is_slave and not settings.offset_check_in_slave:
            return ResponseCode.PULL_NOT_FOUND, replace(selection, next_offset=asked)
        return code, selection

    def suggested(self, group: SubscriptionGroupConfig, selection: Selection | None = None) -> int:
        """Return the number of the broker to ask next. Without a selection: of who is near."""
        if not self._settings.slave_read_enable:
            return MASTER_ID
        is_far = selection is not None and self._log.end - selection.ranges[-1].position > self._near_bytes
        return group.which_broker_when_consume_slowly if is_far else group.broker_id

    @property
    def vary(self) -> bool:
        """Return whether suggestions depend on what is read: the log is longer than memory is taken to hold."""
        return self._settings.slave_read_enable and self._log.end - self._log.start > self._near_bytes
