"""Reads from the medium: limits by group (requests 2001, 2002, 2003) and reading ahead (2004).

What is set here lives as long as the broker does.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...config import Live, properties
from ...config.live import check_length
from ...errors import ConfigError, RequestRefused
from ...model.names import group_fault
from ...model.wire_text import whole_number
from ...protocol.headers.admin import SetCommitLogReadMode
from ...store.log.commit_log import CommitLog
from ...transport.dispatch import Reply, Request, RequestOf
from ..config import BrokerConfig
from ..reading.slow_readers import ColdReads


@dataclass(slots=True, eq=False, repr=False)
class ColdReadAdmin:
    """Event loop only."""

    live: Live[BrokerConfig]
    cold: ColdReads
    commit_log: CommitLog

    def set_limits(self, request: Request) -> Reply:
        """Answer 2001: `group=bytes per second`, one a line; all or none."""
        limits = {}
        for entry in self._entries(request):
            if (fault := group_fault(entry.key)) is not None:
                raise RequestRefused(f"line {entry.line}: {fault}")
            limit = whole_number(entry.value, low=1)
            if limit is None:
                raise RequestRefused(f"line {entry.line}: {entry.key}={entry.value}: bytes per second, at least 1")
            limits[entry.key] = limit
        self.cold.check_room(limits)
        for group, limit in limits.items():
            self.cold.set_limit(group, limit)
        return Reply()

    def _entries(self, request: Request) -> list[properties.Entry]:
        try:
            text = request.raw_body.decode()
            check_length(text)
            entries = properties.parse(text, "the request")
        except (ConfigError, UnicodeDecodeError) as fault:
            raise RequestRefused(f"string2Properties error: {fault}") from None
        if not entries:
            raise RequestRefused("the body is empty: write group=bytes per second, one a line")
        return entries

    def drop_limit(self, request: Request) -> Reply:
        """Answer 2002: the group's own limit goes, the general one counts again."""
        group = request.raw_body.decode("utf-8", "replace").strip()
        if (fault := group_fault(group)) is not None:
            raise RequestRefused(fault)
        self.cold.drop_limit(group)
        return Reply()

    def show(self, request: Request) -> Reply:
        return Reply(body=msgspec.json.encode(self.cold.info(self.live.config)))

    def read_mode(self, request: RequestOf[SetCommitLogReadMode, None]) -> Reply:
        """Answer 2004: 0, the system reads ahead in the commit log as it thinks best; 1, it does not."""
        mode = request.header.read_ahead_mode
        if mode not in ("0", "1"):
            raise RequestRefused(f"READ_AHEAD_MODE is {mode!r}: 0 normal, 1 random")
        self.commit_log.expect_random_reads(mode == "1")
        return Reply()
