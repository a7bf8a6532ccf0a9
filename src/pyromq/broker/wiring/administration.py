"""The handlers of each kind of listener: administration stands apart where an `adminListener` is set.

Without one all listeners have the same handlers. Whatever stands around handlers (the audit log, the watch over the
event loop) stands around refusals too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...access.settings import AccessSettings
from ...errors import RequestRefused
from ...model import names
from ...model.topic import Perm
from ...protocol.headers.admin import CreateTopic
from ...protocol.requests import RequestCode
from ...transport.dispatch import Handler, Request
from ...transport.listening import Listening
from ...transport.turns.apart import Apart
from .foundation import Foundation

Handlers = Mapping[int, Handler]


class Faces(NamedTuple):
    """What is served where. `admin` None: there is no listener for administration alone."""

    ordinary: dict[int, Handler]
    calls: dict[int, Handler]  # requests that were judged when they were gRPC calls
    admin: dict[int, Handler] | None = None


def faces(
    base: Foundation, listening: Listening | None, served: Handlers, dressed: Callable[[Handlers], Handlers]
) -> Faces:
    """Return the handlers of all listeners. `dressed` puts around handlers what stands around all of them."""
    calls = dict(dressed(served))
    if listening is None:
        return Faces(calls, calls)
    config = base.environment.config
    inner = config.part(AccessSettings).inner_credentials()
    harmless = AutoCreation(base).asks_for
    apart = Apart(inner="" if inner is None else inner.name, harmless=harmless)
    apart.bound_to(listening, config.advertised_host)
    return Faces(dict(dressed(apart.ordinary(served))), calls, dict(dressed(apart.administrative(served))))


class AutoCreation:
    """Knows requests for a topic which ask for no more than any send may do: to make it, as a send would.

    Brokers send them to each other (`spreadAutoCreatedTopics`), and clients before their first message with a key."""

    def __init__(self, base: Foundation) -> None:
        self._live, self._topics = base.live, base.topics

    def asks_for(self, request: Request) -> bool:
        if request.command.code != RequestCode.UPDATE_AND_CREATE_TOPIC:
            return False
        try:
            wanted: CreateTopic = request.header
        except RequestRefused:
            return False
        pattern, config = self._topics.find(names.AUTO_CREATE_TOPIC), self._live.config
        return (
            config.auto_create_topic_enable
            and pattern is not None
            and self._topics.find(wanted.topic) is None
            and len(self._topics) < config.max_auto_created_topics
            and max(wanted.read_queue_nums, wanted.write_queue_nums) <= pattern.write_queue_nums
            and wanted.perm == Perm.READ_WRITE
            and not (wanted.order or wanted.attributes or wanted.force or wanted.topic_sys_flag)
        )
