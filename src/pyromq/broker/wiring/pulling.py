"""Pulls: checks, handler, limits of those who read from the medium, and what a pull of a kernel stands for."""

from __future__ import annotations

import msgspec

from ... import logs
from ...store.message_store import MessageStore
from ..pull.checks import PullChecks
from ..pull.handler import PullHandler
from ..pull.slow_readers import Backlog, ColdReads
from ..pull.verdicts import PullChanges, Pulling
from ..stats.counters import Counters
from .clients import ClientParts
from .environment import Environment
from .tables import Tables

log = logs.get("pyromq.broker")


class PullParts:
    """Event loop only."""

    def __init__(
        self, environment: Environment, store: MessageStore, tables: Tables, clients: ClientParts, counters: Counters
    ) -> None:
        self._environment = environment
        self._store = store
        self._tables = tables
        self._clients = clients
        self._counters = counters
        self.cold_reads, self._backlog = ColdReads(), Backlog()
        self._checks = PullChecks(tables.topics, tables.groups, clients.consumers, clients.filters)
        self._changes = PullChanges(environment.live, tables.topics, tables.groups, clients.consumers, tables.offsets)
        self.handler = PullHandler(
            environment.live,
            environment.clock,
            store,
            self._checks,
            tables.offsets,
            self.cold_reads,
            self._backlog,
            counters.got,
        )

    def parts(self) -> Pulling:
        return Pulling(
            self._environment.live,
            self._environment.clock,
            self._store,
            self._tables.offsets,
            self._checks,
            self._changes,
            self.handler,
            self._backlog,
            self._counters,
            self._environment.limits,
        )

    def protect(self) -> None:
        """Stop groups that are too far behind, if that is wanted, until an administrator allows them again."""
        groups = self._tables.groups
        self.cold_reads.sweep(self._environment.clock.monotonic())
        for name, behind in self._backlog.too_far(self._environment.live.config).items():
            group = groups.find(name)
            if group is not None and group.consume_enable:
                log.warning("group reads too far behind and is stopped", group=name, bytes_behind=behind)
                groups.put(msgspec.structs.replace(group, consume_enable=False))
