"""Pulls: checks, handler, limits of those who read from the medium, and what a pull of a kernel stands for."""

from __future__ import annotations

import msgspec

from ... import logs
from ..pull.checks import PullChecks
from ..pull.handler import PullHandler
from ..pull.slow_readers import Backlog, ColdReads
from ..pull.verdicts import PullChanges, Pulling
from .foundation import Foundation

log = logs.get("pyromq.broker")


class PullParts:
    """Event loop only."""

    def __init__(self, base: Foundation) -> None:
        live, clock, store, offsets = base.live, base.clock, base.store, base.offsets
        self._base = base
        self.cold_reads, self._backlog = ColdReads(), Backlog()
        checks = PullChecks(base.topics, base.groups, base.consumers, base.clients.filters)
        changes = PullChanges(live, base.topics, base.groups, base.consumers, offsets)
        self.handler = PullHandler(
            live, clock, store, checks, offsets, self.cold_reads, self._backlog, base.counters.got
        )
        self.parts = Pulling(self.handler, changes, base.counters, base.environment.limits)

    def protect(self) -> None:
        """Stop groups that are too far behind, if that is wanted, until an administrator allows them again."""
        groups = self._base.groups
        self.cold_reads.sweep(self._base.clock.monotonic())
        for name, behind in self._backlog.too_far(self._base.live.config).items():
            group = groups.find(name)
            if group is not None and group.consume_enable:
                log.warning("group reads too far behind and is stopped", group=name, bytes_behind=behind)
                groups.put(msgspec.structs.replace(group, consume_enable=False))
