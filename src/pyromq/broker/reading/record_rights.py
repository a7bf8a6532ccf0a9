"""Whether somebody may have a record that his request points at: by its topic, which only the record says."""

from __future__ import annotations

from ...access.rights import Rights
from ...model import names
from ...model.message import Property
from ...protocol.access import Action, Resource
from ...protocol.properties import find_property
from ...protocol.record import Record

_REAL_TOPIC = Property.REAL_TOPIC.encode()


def check_record(rights: Rights, record: Record, *actions: Action) -> None:
    """Raise RequestRefused unless one of the actions is allowed on the topic of a record.

    One that waits in a topic of the broker's counts as one of the topic that it waits for."""
    topic = record.topic
    if names.is_system_topic(topic):
        waits_for = find_property(record.properties, _REAL_TOPIC)
        topic = topic if waits_for is None else waits_for.decode("utf-8", "replace")
    rights.check(Resource.TOPIC, topic, *actions)
