"""Queue locks of an orderly group: only who holds a queue's lock on the broker may handle its messages."""

from __future__ import annotations

from collections.abc import Iterable

from ... import logs
from ...protocol.bodies.heartbeat import LockBatchRequestBody
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.requests import RequestCode
from ..connect.session import Session
from ..errors import Error

log = logs.get("pyromq.client")

VALID_S = 30.0  # the broker keeps a lock for 60 s; we stop trusting it earlier
RENEW_S = 20.0


class QueueLocks:
    """Event loop only."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return those that were granted.

        The caller's time begins before the question, so that it never ends too late.
        """
        granted: set[MessageQueue] = set()
        for address, wanted in self._by_master(queues).items():
            try:
                answer = await self._session.ask(address, RequestCode.LOCK_BATCH_MQ, None, self._body(wanted))
                granted.update(answer.body.lock_ok_mq_set)
            except Error as fault:
                log.warning("queues not locked", group=self._group, address=address, fault=str(fault))
        return granted

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        for address, ours in self._by_master(queues).items():
            try:
                await self._session.ask(address, RequestCode.UNLOCK_BATCH_MQ, None, self._body(ours))
            except Error as fault:
                log.debug("queues not unlocked", group=self._group, address=address, fault=str(fault))

    def _body(self, queues: list[MessageQueue]) -> LockBatchRequestBody:
        return LockBatchRequestBody(client_id=self._session.client_id, consumer_group=self._group, mq_set=queues)

    def _by_master(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        found: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            route = self._session.known_route(queue.topic)
            address = None if route is None else route.master(queue.broker_name)
            if address is not None:
                found.setdefault(address, []).append(queue)
        return found
