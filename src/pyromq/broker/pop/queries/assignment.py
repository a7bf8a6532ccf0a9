"""Which queues a consumer takes that leaves the choice to the broker (request 400): Java's `clientRebalance=false`.

The answer is a function of the topic's queues on all brokers, the group's members and the mode of the pair. What Java's
broker does not know (topic, strategy, group) it answers with an empty body, and clients then change nothing: so here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .... import logs
from ....config import Live
from ....model.allocation import by_name
from ....model.group import MessageModel, MessageRequestMode
from ....protocol.bodies.heartbeat import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
)
from ....protocol.bodies.keyed import MessageQueue
from ....transport.dispatch import Answer, Reply, RequestOf
from ...clients.consumers import Consumers
from ...config import BrokerConfig
from .request_mode import Mode, RequestModes
from .topic_routes import TopicRoutes

log = logs.get("pyromq.broker")

ANY_QUEUE = -1
Strategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]


class NobodyKnows(Exception):
    """Why the queues of a client cannot be told."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assignments:
    """Request 400. Event loop only."""

    live: Live[BrokerConfig]
    consumers: Consumers
    modes: RequestModes
    routes: TopicRoutes

    def __call__(self, request: RequestOf[None, QueryAssignmentRequestBody]) -> Answer:
        asked = request.body
        queues = self.routes.fresh(asked.topic, self.live.config.load_balance_poll_name_server_interval / 1000)
        return self._later(asked) if queues is None else self._answer(asked, queues)

    async def _later(self, asked: QueryAssignmentRequestBody) -> Reply:
        return self._answer(asked, await self.routes.fetch(asked.topic) or ())

    def _answer(self, asked: QueryAssignmentRequestBody, queues: Sequence[MessageQueue]) -> Reply:
        config = self.live.config
        mode = self.modes.effective(asked.topic, asked.consumer_group, config)
        try:
            chosen = self._chosen(asked, queues, mode)
        except NobodyKnows as why:  # the answer has no room for it
            log.info("no assignment", topic=asked.topic, group=asked.consumer_group, client=asked.client_id, why=why)
            return Reply(body=QueryAssignmentResponseBody())
        each = [MessageQueueAssignment(message_queue=one, mode=mode.mode) for one in dict.fromkeys(chosen)]
        return Reply(body=QueryAssignmentResponseBody(message_queue_assignments=each))

    def _chosen(
        self, asked: QueryAssignmentRequestBody, queues: Sequence[MessageQueue], mode: Mode
    ) -> Sequence[MessageQueue]:
        """Return the client's queues. NobodyKnows says why they cannot be told: the client keeps what it has."""
        group, client = asked.consumer_group, asked.client_id
        if not queues:
            raise NobodyKnows("the topic has no readable queue, or is not known")
        if asked.message_model is MessageModel.BROADCASTING or not self.live.config.server_load_balancer_enable:
            return queues
        members = self.consumers.find(group)
        if members is None:
            raise NobodyKnows("the group has no member")
        strategy = by_name(asked.strategy_name)
        if strategy is None:
            raise NobodyKnows(f"the strategy {asked.strategy_name!r} is not known (AVG, AVG_BY_CIRCLE are)")
        clients = sorted(members.client_ids)
        if mode.mode is MessageRequestMode.PULL:
            return strategy(client, queues, clients)
        return shared_queues(client, queues, clients, mode.pop_share_queue_num, strategy)


def shared_queues(
    client: str, queues: Sequence[MessageQueue], clients: Sequence[str], share: int, strategy: Strategy
) -> list[MessageQueue]:
    """Return the queues that a client pops: its own and those of the `share` clients behind it, or all of them.

    Whoever pops all queues of a broker pops them as one, by the number of any queue.
    """
    if share <= 0 or share >= len(clients) - 1:
        return [MessageQueue(broker_name=one.broker_name, queue_id=ANY_QUEUE, topic=one.topic) for one in queues]
    if client not in clients:
        return []
    place = clients.index(client)
    if len(clients) > len(queues):
        return [queues[place % len(queues)]]
    near = [clients[(place + step) % len(clients)] for step in range(share + 1)]
    return [queue for one in near for queue in strategy(one, queues, clients)]
