"""Messages against the `message.type` of their topic: a wrong one is counted, and refused by `enforceMessageType`.

By default it is stored: of Java's programs only the proxy looks at types. Called by `handler.py` for every message that
is more than plain for its topic; a kernel leaves those to it. `pyromq inspect` and `doctor` show what was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.names import is_retry
from ...protocol.batch import BatchEntry
from ...protocol.bodies.own import MistypedLine
from ...protocol.bodies.topics import TopicConfig
from ...protocol.properties import decode_properties
from ..config import BrokerConfig
from ..intake.message_type import names_type, wrong_type
from ..metadata.attributes import MESSAGE_TYPE
from ..metadata.topics import Topics
from ..stats.counters import Counters


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypeChecks:
    """Event loop only."""

    topics: Topics
    counters: Counters

    def check(self, topic: TopicConfig, properties: Mapping[str, str], config: BrokerConfig) -> None:
        """Count a message of another type than its topic's. Raise RequestRefused where such messages are not taken."""
        given = wrong_type(topic.attributes, properties)
        if given is None or is_retry(topic.topic_name):
            return
        self.counters.mistyped(topic.topic_name, given)
        if config.enforce_message_type:
            raise RequestRefused(
                f"topic {topic.topic_name} takes {topic.attributes[MESSAGE_TYPE]} messages only (attribute "
                f"{MESSAGE_TYPE}), this one is {given}: send it to a topic of that type, or change the attribute",
                ResponseCode.MESSAGE_ILLEGAL,
            )

    def check_batch(
        self, topic: TopicConfig, entries: Callable[[], Sequence[BatchEntry]], config: BrokerConfig
    ) -> Sequence[BatchEntry] | None:
        """Do the same for each message of a batch. Return its messages if they had to be decoded for that."""
        if not names_type(topic.attributes):
            return None
        decoded = entries()
        for entry in decoded:
            self.check(topic, decode_properties(entry.properties), config)
        return decoded

    def of_day(self, enforced: bool) -> list[MistypedLine]:
        """Return what the last day had of wrong types, for topics that still name a type."""
        lines = []
        for (name, given), messages in self.counters.mistyped_of_day().items():
            topic = self.topics.find(name)
            if topic is not None and names_type(topic.attributes):
                takes = topic.attributes[MESSAGE_TYPE]
                lines.append(MistypedLine(topic=name, takes=takes, given=given, messages=messages, refused=enforced))
        return lines
