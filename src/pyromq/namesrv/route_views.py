"""A route as a particular client should see it. Pure functions: the table's own routes are never changed."""

from __future__ import annotations

from msgspec.structs import replace

from ..model.route import MASTER_ID
from ..model.topic import SYNC_BROKER_MEMBER_PREFIX, Perm
from ..protocol.bodies.route import BrokerData, TopicRouteData


def with_acting_masters(topic: str, route: TopicRouteData) -> TopicRouteData:
    """Return the route in which a lost master's smallest slave stands in for it: to read and lock, not to write."""
    if topic.startswith(SYNC_BROKER_MEMBER_PREFIX):  # by this topic brokers find out who really is there
        return route
    read_only = {one.broker_name for one in route.queue_datas if not one.perm & Perm.WRITE}
    if not any(_needs_acting_master(one, read_only) for one in route.broker_datas):
        return route
    brokers = [_promoted(one) if _needs_acting_master(one, read_only) else one for one in route.broker_datas]
    return replace(route, broker_datas=brokers)


def in_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Return brokers of the client's own zone, and those whose master is lost: a far slave is better than none."""
    kept = [one for one in route.broker_datas if MASTER_ID not in one.broker_addrs or _same(one.zone_name, zone)]
    names = {one.broker_name for one in kept}
    removed = {
        address for one in route.broker_datas if one.broker_name not in names for address in one.broker_addrs.values()
    }
    return replace(
        route,
        broker_datas=kept,
        queue_datas=[one for one in route.queue_datas if one.broker_name in names],
        filter_server_table={at: servers for at, servers in route.filter_server_table.items() if at not in removed},
    )


def _needs_acting_master(broker: BrokerData, read_only: set[str]) -> bool:
    return (
        broker.enable_acting_master
        and bool(broker.broker_addrs)
        and MASTER_ID not in broker.broker_addrs
        and broker.broker_name in read_only
    )


def _promoted(broker: BrokerData) -> BrokerData:
    smallest = min(broker.broker_addrs)
    others = {broker_id: address for broker_id, address in broker.broker_addrs.items() if broker_id != smallest}
    return replace(broker, broker_addrs={MASTER_ID: broker.broker_addrs[smallest]} | others)


def _same(zone: str | None, wanted: str) -> bool:
    return zone is not None and zone.casefold() == wanted.casefold()
