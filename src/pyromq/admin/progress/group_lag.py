"""How far a group is behind, by topic and queue, and what would help: for `pyromq group lag` and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...client.errors import Refused
from ...model.group import MessageModel
from .. import cluster, offsets, topics
from ..calls import Calls
from ..cluster import BrokerPlace
from .advice import Load, advise
from .group_state import online_in, popped_in, queues_of


async def lag_of(calls: Calls, places: list[BrokerPlace], name: str, topic: str | None = None) -> dict[str, Any]:
    """Return lag in all, a row for each topic with rates and advice, and a row for each queue."""
    queues = await queues_of(calls, places, name, topic)
    online = await online_in(calls, places, name)
    members = {one.client_id for each in online.values() for one in each.connection_set}
    is_broadcast = any(each.message_model is MessageModel.BROADCASTING for each in online.values())
    popped = await popped_in(calls, places, name, online)
    rows = []
    for one in sorted({row["topic"] for row in queues}):
        own = [row for row in queues if row["topic"] == one]
        having = [place for place in places if any(row["broker"] == place.name for row in own)]
        seen = await _rates(calls, having, name, one)
        stored = seen.pop("stored")
        behind = sum(row["lag"] for row in own)
        seen |= {"is_broadcast": is_broadcast, "is_popped": popped(one)}
        seen["lock_wait"] = await _lock_wait(calls, places, name, one, members) if behind else ""
        advice = advise(Load(queues=len(own), members=len(members), lag=behind, **seen))
        under_way = sum(row["underWay"] for row in own) + stored
        rows.append(
            {"topic": one, "lag": behind, "underWay": under_way, "queues": len(own), "members": len(members)}
            | {"arrivingPerSecond": seen["arriving"], "consumedPerSecond": seen["consuming"]}
            | {"moreConsumers": advice.more, "advice": advice.text}
        )
    return {"group": name, "lag": sum(row["lag"] for row in queues), "topics": rows, "queues": queues}


async def _rates(calls: Calls, places: Iterable[BrokerPlace], name: str, topic: str) -> dict[str, Any]:
    """Return messages a second in and out, and how many are in flight that have left a broker's memory."""
    arriving, consuming, stored = 0.0, 0.0, 0
    for place in places:
        arriving += (await topics.stats(calls, place.address, topic)).topic_put_tps
        progress = await offsets.progress(calls, place.address, name, topic)
        consuming += progress.consume_tps
        stored += sum((progress.stored_in_flight or {}).values())
    return {"arriving": arriving, "consuming": consuming, "stored": stored}


async def _lock_wait(calls: Calls, places: Iterable[BrokerPlace], name: str, topic: str, members: set[str]) -> str:
    """Return which queues of an orderly group wait for locks of clients that are gone. Apache's brokers do not say."""
    locks: list[dict[str, Any]] = []
    for place in places:
        with suppress(Refused):
            locks += (await cluster.inspect(calls, place.address)).get("locked", [])
    gone = [one for one in locks if (one["group"], one["topic"]) == (name, topic) and one["client"] not in members]
    if not gone:
        return ""
    clients, seconds = ", ".join(sorted({one["client"] for one in gone})), max(one["secondsLeft"] for one in gone)
    return f"{len(gone)} queues wait for the locks of {clients}, which is gone: {seconds} s more at most"
