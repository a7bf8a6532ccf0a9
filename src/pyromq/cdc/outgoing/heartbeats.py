"""Heartbeats: messages of a source that is quiet, which say up to where everything is stored. Pure."""

from __future__ import annotations

import msgspec

from ...model.message import Property
from ..changes import Position
from ..events import KEY_PROPERTY, NUMBER_PROPERTY, OP_PROPERTY
from ..rules import Rules, topic_name
from ..schema.envelope_schema import HEARTBEAT_SCHEMA
from .captured import Captured, body_of

TOPIC = "heartbeat"  # last word of the topic
POSITION_PROPERTY = "cdcPosition"
EVERY_PROPERTY = "cdcEveryS"  # seconds: `pyromq doctor` knows by it when one is late
_OP = "heartbeat"


def heartbeat(source: str, position: Position, rules: Rules, number: int, now_ms: int, every_s: float) -> Captured:
    """Return the message: Debezium's, and the position in a property."""
    key = msgspec.json.encode({"serverName": source}).decode()
    properties = {
        OP_PROPERTY: _OP, Property.TAGS: _OP, Property.KEYS: source, KEY_PROPERTY: key,
        POSITION_PROPERTY: position.done, EVERY_PROPERTY: str(round(every_s)), NUMBER_PROPERTY: str(number),
    }  # fmt: skip
    body = body_of({"ts_ms": now_ms}, HEARTBEAT_SCHEMA if rules.schemas else None)
    return Captured(topic_name(rules.prefix, TOPIC), source, body, properties)
