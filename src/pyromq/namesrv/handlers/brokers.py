"""Requests of brokers, and questions about them."""

from __future__ import annotations

from dataclasses import dataclass

from ... import logs
from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...model.topic import ORDER_TOPIC_CONFIG
from ...protocol.bodies.body import DataVersion
from ...protocol.bodies.registration import RegisterBrokerBody, RegistrationReader, body_crc
from ...protocol.bodies.route import BrokerMemberGroup, GetBrokerMemberGroupResponseBody, KVTable
from ...protocol.headers import namesrv as headers
from ...transport.dispatch import Reply, Request, RequestOf
from ...transport.turns.slices import Slices
from ..announcer import Announcer, monotonic_ms
from ..config import NamesrvConfig
from ..kv_config import KvConfig
from ..registration import DEFAULT_TIMEOUT_MS, Registration
from ..registration_checks import check_identity, check_room, usable_addresses, within_topic_limit, without_odd_names
from ..route_table import RouteTable

log = logs.get("pyromq.namesrv")


@dataclass(slots=True, eq=False, repr=False)
class BrokerHandlers:
    """Event loop only."""

    table: RouteTable
    kv: KvConfig
    live: Live[NamesrvConfig]
    announcer: Announcer
    clock: Clock
    slices: Slices

    async def register(self, request: RequestOf[headers.RegisterBroker, RegisterBrokerBody]) -> Reply:
        config = self.live.config
        header = request.header
        check_identity(header)
        new = _registration(request, header, await self._content(request, header))
        check_room(new, self.table, config)
        new = within_topic_limit(new, self.table, config)
        result = self.table.register(
            new, monotonic_ms(self.clock), prune_topics=config.delete_topic_with_broker_registration
        )
        self.announcer.registered(new, result)
        orders = self.kv.namespace(ORDER_TOPIC_CONFIG) if config.return_order_topic_config_to_broker else None
        return Reply(
            remark=f"ignored: {result.ignored}" if result.ignored is not None else _left_out(new, config),
            header=headers.RegisterBrokerAnswer(ha_server_addr=result.ha_address, master_addr=result.master_address),
            body=b"" if orders is None else KVTable(table=dict(orders)),
        )

    async def _content(self, request: Request, header: headers.RegisterBroker) -> RegisterBrokerBody:
        """Read the topics of a large broker in slices: others are served meanwhile."""
        body = request.raw_body
        if header.body_crc32 and body_crc(body) != header.body_crc32:
            raise RequestRefused("crc32 not match")
        reader = RegistrationReader(body, request.command.version, header.compressed)
        async for _ in self.slices.each(reader.read_slices()):
            pass
        return reader.body

    def unregister(self, request: RequestOf[headers.RegisteredBroker, None]) -> Reply:
        header = request.header
        departures = self.table.unregister([(header.broker_name, header.broker_addr)])
        self.announcer.departed(departures, "broker unregistered", expected=True)
        return Reply()

    def heartbeat(self, request: RequestOf[headers.BrokerHeartbeat, None]) -> Reply:
        """Answer 904 with success, for an unknown broker too, as Java does: it will register soon."""
        header = request.header
        self.table.heartbeat(header.cluster_name, header.broker_addr, monotonic_ms(self.clock))
        return Reply()

    def query_data_version(self, request: RequestOf[headers.RegisteredBroker, DataVersion]) -> Reply:
        """Answer 322, which a broker asks so as not to register when nothing changed. It keeps the broker alive."""
        header = request.header
        asked = request.body if request.body else None
        known = self.table.version(header.cluster_name, header.broker_addr)
        self.table.heartbeat(header.cluster_name, header.broker_addr, monotonic_ms(self.clock))
        return Reply(
            header=headers.QueryDataVersionAnswer(changed=known is None or known != asked),
            body=b"" if known is None else known,
        )

    def members(self, request: RequestOf[headers.GetBrokerMemberGroup, None]) -> Reply:
        """Answer 901. For an unknown broker: success, and nobody in it."""
        header = request.header
        group = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs=self.table.members(header.broker_name),
        )
        return Reply(body=GetBrokerMemberGroupResponseBody(broker_member_group=group))

    async def cluster_info(self, request: Request) -> Reply:
        """Answer 106 in Java's dialect whatever the client's version, as Java does."""
        return Reply(body=self.table.cluster_info())

    def wipe_write(self, request: RequestOf[headers.BrokerName, None]) -> Reply:
        header = request.header
        count = self.table.wipe_write(header.broker_name)
        log.info("write permission wiped", broker=header.broker_name, topics=count, by=request.peer.address)
        return Reply(header=headers.WipeWritePermAnswer(wipe_topic_count=count))

    def add_write(self, request: RequestOf[headers.BrokerName, None]) -> Reply:
        header = request.header
        count = self.table.add_write(header.broker_name)
        log.info("write permission added", broker=header.broker_name, topics=count, by=request.peer.address)
        return Reply(header=headers.AddWritePermAnswer(add_topic_count=count))


def _left_out(new: Registration, config: NamesrvConfig) -> str | None:
    if not new.left_out:
        return None
    return f"{len(new.left_out)} new topics are left out, the limit (maxTopics) is {config.max_topics}"


def _registration(request: Request, header: headers.RegisterBroker, content: RegisterBrokerBody) -> Registration:
    wrapper = content.topic_config_serialize_wrapper
    timeout_ms = header.heartbeat_timeout_millis or 0
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        channel=request.peer,
        ha_address=header.ha_server_addr,
        zone=header.zone_name,
        timeout_ms=timeout_ms if timeout_ms > 0 else DEFAULT_TIMEOUT_MS,
        acting_master=header.enable_acting_master,
        version=wrapper.data_version,
        topics=without_odd_names(wrapper.topic_config_table),
        mappings=wrapper.topic_queue_mapping_info_map,
        filter_servers=usable_addresses(content.filter_server_list),
    )
