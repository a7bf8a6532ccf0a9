"""The brokers that actions are about, asked for now: a plan that rests on an old snapshot would leave some out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin import cluster as brokers
from ...admin.cluster import BrokerPlace
from ..views.missing import NotThere

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


async def masters(cluster: ClusterWatch, broker: str = "") -> list[BrokerPlace]:
    """Return all masters, or the one of this name. NotThere; NoBroker if there is none."""
    found = await brokers.masters(cluster.calls)
    if not broker:
        return found
    if not (named := [place for place in found if place.name == broker]):
        raise NotThere("broker", broker, [place.name for place in found])
    return named
