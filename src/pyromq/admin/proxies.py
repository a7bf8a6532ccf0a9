"""Consumers of gateways and Java's proxies, of which brokers know nothing: as proxies tell each other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ..client.consume.group_calls import max_offset, offset_at
from ..client.errors import Error, NoBroker, TopicNotFound
from ..errors import Malformed
from ..protocol.bodies.body import decode_body
from ..protocol.bodies.connections import ClientConnection, ConsumerConnection
from ..protocol.bodies.keyed import MessageQueue
from ..protocol.bodies.proxies import REGISTER, HeartbeatSyncerData, RemoteChannelData
from . import messages
from .calls import Calls

TOPIC = "DefaultHeartBeatSyncerTopic"
SILENT_MS = 120_000  # a client of which proxies said nothing for so long has gone


async def connections(calls: Calls, group: str) -> dict[str, ConsumerConnection]:
    """Return a group's members by the proxy that they are connected to. Empty where there is no proxy."""
    return (await all_connections(calls)).get(group, {})


async def all_connections(calls: Calls) -> dict[str, dict[str, ConsumerConnection]]:
    """Return the members of all groups, by group and by the proxy that they are connected to."""
    session = calls.session
    try:
        route = await session.name_servers.route(TOPIC)
    except (TopicNotFound, NoBroker):
        return {}
    newest: dict[tuple[str, str], HeartbeatSyncerData] = {}  # by group and client
    for queue in route.readable:
        address = route.master(queue.broker_name)
        if address is None:
            continue
        try:
            for told in await _read_announcements(calls, address, queue):
                place = told.group, told.client_id
                if _counts(told, newest.get(place)):
                    newest[place] = told
        except Error:  # a broker that does not answer: what the others have is shown
            continue
    found: dict[str, dict[str, list[HeartbeatSyncerData]]] = {}
    for told in newest.values():
        if told.heartbeat_type == REGISTER:
            found.setdefault(told.group, {}).setdefault(told.local_proxy_id, []).append(told)
    return {
        group: {proxy: _connection(members) for proxy, members in sorted(by_proxy.items())}
        for group, by_proxy in found.items()
    }


def joined(found: ConsumerConnection, elsewhere: Iterable[ConsumerConnection]) -> ConsumerConnection:
    """Return what a broker shows of a group together with what proxies have of it."""
    for each in elsewhere:
        known = {one.client_id for one in found.connection_set}
        found.connection_set += [one for one in each.connection_set if one.client_id not in known]
        found.consume_type = found.consume_type or each.consume_type
        found.message_model = found.message_model or each.message_model
        found.consume_from_where = found.consume_from_where or each.consume_from_where
        found.subscription_table = each.subscription_table | found.subscription_table
    return found


def _counts(told: HeartbeatSyncerData, known: HeartbeatSyncerData | None) -> bool:
    """Return whether this is the newer word; a farewell counts from where the client is."""
    if known is None:
        return True
    if told.heartbeat_type != REGISTER and told.local_proxy_id != known.local_proxy_id:
        return False
    return told.last_update_timestamp >= known.last_update_timestamp


async def _read_announcements(calls: Calls, address: str, queue: MessageQueue) -> list[HeartbeatSyncerData]:
    session, found = calls.session, []
    await session.route(queue.topic)
    first = await offset_at(session, queue, session.clock.now_ms() - SILENT_MS)
    end = await max_offset(session, queue)
    async for page in messages.pages(calls, address, queue.topic, queue.queue_id, first, end):
        for message in page.messages:
            try:
                found.append(decode_body(HeartbeatSyncerData, message.body))
            except Malformed:  # somebody else's message
                continue
    return found


def _connection(members: Iterable[HeartbeatSyncerData]) -> ConsumerConnection:
    shown = ConsumerConnection()
    for told in members:
        channel = RemoteChannelData()
        if told.channel_data:
            with suppress(Malformed):
                channel = decode_body(RemoteChannelData, told.channel_data.encode())
        shown.connection_set.append(
            ClientConnection(
                client_addr=channel.remote_address or "",
                client_id=told.client_id,
                language=told.language,
                version=told.version,
            )
        )
        shown.consume_type, shown.message_model = told.consume_type, told.message_model
        shown.consume_from_where = told.consume_from_where
        shown.subscription_table |= {one.topic: one for one in told.subscription_data_set or []}
    return shown
