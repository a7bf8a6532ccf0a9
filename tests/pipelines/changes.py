"""A made-up table and its changes as messages of capture, with repeats and late ones; and what must be left at last."""

from __future__ import annotations

import random
from typing import Any

from pyromq.cdc.events import KEY_PROPERTY, NUMBER_PROPERTY, UNAVAILABLE, Op, encode_event, encode_key
from pyromq.model.message import Property
from pyromq.pipelines.cdc.rows import ChangeMessage, RowWrite, fold
from pyromq.pipelines.cdc.sinks import Applied, Sink

TABLE, TOPIC = "shop.items", "cdc-shop-items"
Rows = dict[int, dict[str, Any]]


def message(
    op: Op, number: int, key: dict[str, Any] | None, after: dict[str, Any] | None, topic: str = TOPIC
) -> ChangeMessage:
    source = {"connector": "mariadb", "db": "shop", "table": "items"}
    properties = {NUMBER_PROPERTY: str(number)}
    if key is not None:
        text = encode_key(key) or ""
        properties |= {KEY_PROPERTY: text, Property.SHARDING_KEY: text}
    before = key if op is Op.DELETE else None
    return ChangeMessage(topic, 0, number, encode_event(op, before, after, source, number), properties)


def workload(seed: int, count: int, topic: str = TOPIC) -> tuple[list[ChangeMessage], Rows]:
    """Return changes in the order of the log, and the rows after them."""
    rng = random.Random(seed)
    rows: Rows = {}
    found = []
    for number in range(count):
        at = rng.randrange(max(4, count // 8))
        key = {"id": at}
        if at not in rows:
            rows[at] = {
                "id": at,
                "name": rng.choice(["pen", 'ink\'s "best"', "纸", ""]),
                "price": rng.randrange(9999),
                "note": None,
            }
            found.append(message(Op.CREATE, number, key, dict(rows[at]), topic))
        elif rng.random() < 0.3:
            del rows[at]
            found.append(message(Op.DELETE, number, key, None, topic))
        else:
            rows[at] = rows[at] | {"price": rng.randrange(9999), "note": rng.choice([None, "new"])}
            after = dict(rows[at])
            if rng.random() < 0.3:
                after["name"] = UNAVAILABLE  # unchanged, and not in the log
            found.append(message(Op.UPDATE, number, key, after, topic))
    return found, rows


def applied(sink: Sink, messages: list[ChangeMessage], piece: int = 50) -> Applied:
    """Deliver as a task does, in pieces."""
    done = Applied()
    with sink.opened() as opened:
        for begin in range(0, len(messages), piece):
            found = fold(messages[begin : begin + piece])
            assert found.bad == []
            done = done.plus(opened.apply(list(found.writes.values())))
    return done


def by_key(writes: list[RowWrite]) -> Rows:
    return {write.key["id"]: dict(write.values) for write in writes if write.values is not None}
