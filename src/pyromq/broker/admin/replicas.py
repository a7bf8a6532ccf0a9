"""What a lone master says of replication (requests 907 and 1007), as Java's does: it has no slaves and no epochs."""

from __future__ import annotations

from ...errors import RequestRefused
from ...protocol.bodies.replication import HARuntimeInfo
from ...store.message_store import MessageStore
from ...transport.dispatch import Reply, Request


class Replicas:
    """Event loop only."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def status(self, request: Request) -> Reply:
        info = HARuntimeInfo(master=True, master_commit_log_max_offset=self._store.commit_log.end)
        return Reply(body=info)

    def epochs(self, request: Request) -> Reply:
        raise RequestRefused("this request only for controllerMode ")
