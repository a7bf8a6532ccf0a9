"""Assignment of queues by the broker, and which groups pop: what clients with `clientRebalance=false` ask."""

from __future__ import annotations

from ..metadata.saving import for_administrators
from ..pop.queries.assignment import Assignments
from ..pop.queries.request_mode import RequestModeHandlers, RequestModes
from ..pop.queries.topic_routes import TopicRoutes
from .foundation import Foundation
from .naming import Naming


class BalanceParts:
    """Event loop only."""

    def __init__(self, base: Foundation, naming: Naming) -> None:
        config = base.environment.config
        self._save = base.environment.table("config/messageRequestMode.json")
        self.modes = RequestModes(self._save.table, self._save.changed)
        self.handlers = RequestModeHandlers(
            base.live, base.topics, base.groups, self.modes, for_administrators(self._save.saved)
        )
        ask = naming.route if config.namesrv_addr else None
        routes = TopicRoutes(base.topics, config.broker_name, base.clock, ask)
        self.assignments = Assignments(base.live, base.consumers, self.modes, routes)

    async def close_tables(self) -> None:
        await self._save.close()
