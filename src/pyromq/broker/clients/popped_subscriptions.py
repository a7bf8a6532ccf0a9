"""What groups subscribe to that only pop: their requests say so, they need no heartbeat. Pure.

Java keeps the same beside its table of consumers. Asked where a group has no member that says it (request 345).
"""

from __future__ import annotations

from ...model.filters.sql92 import SQL92
from ...model.java_hash import java_hash
from ...model.pop_names import retry_topic
from ...protocol.bodies.heartbeat import SubscriptionData

MOST = 10_000  # pairs of group and topic; then those that were new first are forgotten
EVERYTHING = "*"


class PoppedSubscriptions:
    """Event loop only."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[str, str]] = {}  # by group and topic: kind of expression, its text

    def note(self, group: str, topic: str, kind: str | None, text: str | None) -> None:
        """Note what a pop asks for. The last one counts; all messages of the retry topic are wanted then too."""
        key, said = (group, topic), (kind or "TAG", text or EVERYTHING)
        if self._texts.get(key) == said:
            return
        self._texts[key] = said
        if len(self._texts) > MOST:
            del self._texts[next(iter(self._texts))]

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._texts if key[0] == group]:
            del self._texts[key]

    def find(self, group: str, topic: str, v2: bool = False) -> SubscriptionData | None:
        """Return the subscription to a topic, or to the retry topic of one; None: the group does not pop it."""
        said = self._texts.get((group, topic))
        if said is None:
            names = (retry_topic(each, group, v2) for owner, each in self._texts if owner == group)
            return SubscriptionData(topic=topic, sub_string=EVERYTHING) if topic in names else None
        kind, text = said
        tags = [] if kind == SQL92 or text == EVERYTHING else [tag.strip() for tag in text.split("||") if tag.strip()]
        return SubscriptionData(
            topic=topic,
            expression_type=kind,
            sub_string=text,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
        )
