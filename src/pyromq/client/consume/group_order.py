"""Whether a group is set to consume in order (consumeMessageOrderly), as its brokers say. Push consumers ask it.

Each broker is asked once: a setting that is changed later counts from the consumer's next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ... import logs
from ...errors import CallFailed
from ...model import names
from ...model.codes import ResponseCode
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ..connect.session import Session
from ..core.routing import Route
from ..errors import Error
from .group_calls import NO_SETTINGS, group_settings

log = logs.get("pyromq.client")


class GroupOrder:
    """One for each consumer. Event loop only."""

    def __init__(self, session: Session, group: str, topics: Iterable[str]) -> None:
        self._session = session
        self._group = group
        self._topics = tuple(topic for topic in topics if not names.is_retry(topic))
        self._answered: set[str] = set()  # names of brokers

    async def ask(self) -> bool | None:
        """Ask the brokers that have not answered yet. True: one has the group set so; None: none has ever answered."""
        asked = {name: address for name, address in (await self._brokers()).items() if name not in self._answered}
        settings = (group_settings(self._session, address, self._group) for address in asked.values())
        answers = await asyncio.gather(*settings, return_exceptions=True)
        self._answered.update(name for name, answer in zip(asked, answers, strict=True) if _is_said(answer))
        if any(isinstance(each, SubscriptionGroupConfig) and each.consume_message_orderly for each in answers):
            return True
        refusals = [each for each in answers if isinstance(each, Error) and _is_said(each)]
        for fault in (each for each in refusals if each.code not in NO_SETTINGS):
            text = "not known whether the group is set to consume in order, so it does not"
            log.warning(text, group=self._group, fault=str(fault))
        return False if self._answered else None

    async def _brokers(self) -> dict[str, str]:
        """Return name and address of the topics' brokers; while there are none, of those on which a send makes them."""
        found = await asyncio.gather(*map(self._session.route, self._topics), return_exceptions=True)
        routes = [route for route in found if isinstance(route, Route)]
        if not routes:
            pattern = self._session.name_servers.route(names.AUTO_CREATE_TOPIC)
            routes = [each for each in await asyncio.gather(pattern, return_exceptions=True) if isinstance(each, Route)]
        return {name: address for route in routes for name in route.addresses if (address := route.reader(name))}


def _is_said(answer: object) -> bool:
    """Return whether a broker has answered, and not only that it is busy."""
    return not isinstance(answer, CallFailed) and getattr(answer, "code", None) != ResponseCode.SYSTEM_BUSY
