"""What tools and controllers ask a replica of a set whose master is elected: its epochs (1007), and a notice (1008)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ...errors import RequestRefused
from ...model.wire_text import LONG_MAX
from ...protocol.bodies.replication import EpochEntry, EpochEntryCache, SyncStateSet
from ...protocol.headers.replication import ElectedMaster
from ...transport.dispatch import Reply, Request, RequestOf
from ..registration import Identity
from .role import ElectedRole


@dataclass(frozen=True, slots=True)
class SetHandlers:
    """Event loop only. `role` is None for a broker outside of such sets."""

    role: ElectedRole | None
    identity: Identity
    log_end: Callable[[], int]

    def epochs(self, request: Request) -> Reply:
        """Answer 1007: which masters have written this log. The newest one has no end yet, as Java says it."""
        role = self.role
        if role is None:
            raise RequestRefused("this request only for controllerMode ")
        entries = (role.epochs if role.epochs_now is None else role.epochs_now()).entries
        ends = [after.start for _, after in pairwise(entries)] + [LONG_MAX]
        return Reply(
            body=EpochEntryCache(
                broker_id=self.identity.broker_id,
                broker_name=self.identity.broker_name,
                cluster_name=self.identity.cluster,
                epoch_list=[
                    EpochEntry(epoch=epoch.number, start_offset=epoch.start, end_offset=end)
                    for epoch, end in zip(entries, ends, strict=False)
                ],
                max_offset=self.log_end(),
            )
        )

    def take_notice(self, request: RequestOf[ElectedMaster, SyncStateSet]) -> Reply:
        """Take 1008: a controller says who is master now. This broker would find out by itself, within seconds."""
        if self.role is None or self.role.told is None:
            raise RequestRefused("no controller leads this broker (enableControllerMode)")
        self.role.told(request.header, request.body)
        return Reply()
