"""The route table: every broker and every topic that a name server knows.

A pure value: no I/O, no clock (`now_ms` is handed in and only needs to grow), no asyncio. `handlers/` and `expiry.py`
are its callers. It must never hold a topic or a broker that it could not also take away again.

Invariants, checked by tests/namesrv/test_route_table_properties.py after every step:

1. A replica is an address in a cluster. It stands under one broker name and one id; an id holds one address.
2. A broker name has a replica, and a topic has queues. What loses its last one is gone.
3. A topic's queues name only brokers that are there, and a broker's topics are exactly those with queues on it.
4. A cluster lists the broker names of which a replica registered from it, and a broker name's own cluster lists it.
5. A broker name whose slaves may act as master and that has no master has no writable queue.
6. A registration that is refused changes nothing; one that is ignored only takes its own address away.

Costs: a route is one lookup and linear in its brokers; a registration is linear in its own topics; a departure in the
topics of that broker. Routes are built when asked for: keeping them encoded would save about a sixth of a query and
more than double the memory of 1,000 brokers (bench/namesrv_scale.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..errors import RequestRefused
from ..model.topic import MASTER_ID, Perm
from ..protocol.bodies.body import DataVersion
from ..protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from ..protocol.bodies.topics import TopicConfig, TopicQueueMappingInfo
from .registration import Departures, MinBrokerChange, Registered, Registration, Replica

Address = tuple[str, str]  # cluster and `host:port`

WRITE, READ_WRITE = Perm.WRITE, Perm.READ_WRITE


@dataclass(slots=True)
class _Broker:
    """A broker name. `data` and `filters` are what routes show of it, replaced as a whole when they change."""

    name: str
    cluster: str
    acting_master: bool = False
    is_drained: bool = False  # nobody shall write to it, until `add_write` or until its last replica is gone
    zone: str | None = None
    replicas: dict[int, Replica] = field(default_factory=dict)
    clusters: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    data: BrokerData | None = None
    filters: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_read_only(self) -> bool:
        return self.is_drained or (self.acting_master and MASTER_ID not in self.replicas)

    def at(self, address: str) -> Replica | None:
        return next((one for one in self.replicas.values() if one.address == address), None)


@dataclass(slots=True)
class _Topic:
    name: str
    queues: dict[str, QueueData] = field(default_factory=dict)  # by broker name
    mappings: dict[str, TopicQueueMappingInfo] | None = None  # of a static topic, by broker name


class RouteTable:
    """Event loop only. What it returns is shared and never changed afterwards, neither here nor by who gets it."""

    def __init__(self) -> None:
        self.expired = 0  # replicas that fell silent, since the start
        self._topics: dict[str, _Topic] = {}
        self._brokers: dict[str, _Broker] = {}
        self._clusters: dict[str, set[str]] = {}
        self._replicas: dict[Address, Replica] = {}
        self._channels: dict[object, set[Address]] = {}

    # --- brokers come -------------------------------------------------------------------------------------------------

    def register(self, new: Registration, now_ms: int, prune_topics: bool = False) -> Registered:
        """Take a broker's word. RequestRefused if its id is not known yet and it comes with a single topic.

        `prune_topics`: topics that the broker no longer names are taken away (deleteTopicWithBrokerRegistration).
        """
        broker = self._brokers.get(new.broker_name)
        holder = broker.replicas.get(new.broker_id) if broker else None
        if (
            holder is not None
            and holder.address != new.address
            and holder.version.state_version > new.version.state_version
        ):
            return self._ignore(new, holder)
        if holder is None and len(new.topics) + len(new.left_out) == 1:
            # A single topic is an addition to what is known already. Alone it would make the broker look complete.
            raise RequestRefused(
                f"register broker failed: {new.broker_name} id {new.broker_id} is not known and came with the single "
                f"topic {next(iter((*new.topics, *new.left_out)))}; register all topics first"
            )
        before = self._replicas.get((new.cluster, new.address))
        changed = before is None or before is not holder or before.version != new.version
        smallest = min(broker.replicas, default=MASTER_ID) if broker else MASTER_ID
        elsewhere = before is not None and before.broker_name != new.broker_name
        left = self._remove([before]) if before is not None and elsewhere else Departures()
        broker, displaced = self._place(new, before, now_ms)
        self._take_topics(broker, new, changed, prune_topics)
        master = broker.replicas.get(MASTER_ID) if new.broker_id != MASTER_ID else None
        return Registered(
            is_new=before is None,
            master_address=master.address if master else None,
            ha_address=master.ha_address if master else None,
            changes=left.changes + ((_came_below(broker, new.ha_address),) if new.broker_id < smallest else ()),
            displaced=left.departed + displaced,
        )

    def heartbeat(self, cluster: str, address: str, now_ms: int) -> bool:
        """Return whether the broker is known; if so it lives on for another time-out."""
        replica = self._replicas.get((cluster, address))
        if replica is None:
            return False
        replica.seen_ms = now_ms
        return True

    def version(self, cluster: str, address: str) -> DataVersion | None:
        """Return the topic table version that this broker last registered."""
        replica = self._replicas.get((cluster, address))
        return replica.version if replica else None

    def _ignore(self, new: Registration, holder: Replica) -> Registered:
        """Refuse a master that was replaced unknowingly: another address has its id with a newer epoch."""
        gone = self._replicas.get((new.cluster, new.address))
        left = self._remove([gone]) if gone is not None else Departures()
        reason = (
            f"{new.broker_name} id {new.broker_id} is held by {holder.address} with state version "
            f"{holder.version.state_version}, newer than {new.version.state_version} of {new.address}"
        )
        return Registered(ignored=reason, changes=left.changes, displaced=left.departed)

    def _place(self, new: Registration, before: Replica | None, now_ms: int) -> tuple[_Broker, tuple[Replica, ...]]:
        """Put the replica where it says it is, in place of what had its id, and out of the id that it had."""
        broker = self._brokers.get(new.broker_name)
        if broker is None:
            broker = self._brokers[new.broker_name] = _Broker(new.broker_name, new.cluster)
        filter_servers = new.filter_servers
        if filter_servers is None:
            filter_servers = before.filter_servers if before else ()
        replica = Replica(
            new.cluster, broker.name, new.broker_id, new.address, new.ha_address, new.channel, new.timeout_ms, now_ms,
            new.version, list(filter_servers),
        )  # fmt: skip
        displaced = {}
        for old in (broker.at(new.address), broker.replicas.get(new.broker_id)):
            if old is not None:
                self._forget(old)
                displaced[old.broker_id, old.key] = old
        displaced.pop((replica.broker_id, replica.key), None)  # itself, as it was
        broker.replicas[replica.broker_id] = replica
        self._replicas[replica.key] = replica
        self._channels.setdefault(replica.channel, set()).add(replica.key)
        broker.acting_master, broker.zone = bool(new.acting_master), new.zone
        self._settle(broker)
        return broker, tuple(displaced.values())

    def _take_topics(self, broker: _Broker, new: Registration, changed: bool, prune: bool) -> None:
        """Take over the topics: the master's to say, or the smallest slave's where slaves are of 5.0 or later."""
        if new.broker_id != MASTER_ID and (new.acting_master is None or new.broker_id != min(broker.replicas)):
            return
        if prune and not new.mappings:
            for name in broker.topics - new.topics.keys():
                self._drop_queues(self._topics[name], broker)
        shared: dict[tuple[int, ...], QueueData] = {}  # most topics of a broker look alike: equal values are kept once
        for name, config in new.topics.items():
            topic = self._topics.get(name)
            if changed or topic is None or broker.name not in topic.queues:
                self._put_queues(name, broker, _queues(broker.name, config, shared))
        for name, mapping in new.mappings.items():
            topic = self._topics.get(name)
            if topic is not None and (changed or mapping.bname not in (topic.mappings or ())):
                topic.mappings = (topic.mappings or {}) | {mapping.bname: mapping}

    # --- brokers go ---------------------------------------------------------------------------------------------------

    def unregister(self, batch: Iterable[tuple[str, str]]) -> Departures:
        """Take away the replicas at these (broker name, address) pairs; unknown ones are no error."""
        found = []
        for name, address in dict.fromkeys(batch):
            broker = self._brokers.get(name)
            replica = broker.at(address) if broker else None
            if replica is not None:
                found.append(replica)
        return self._remove(found)

    def channel_lost(self, channel: object) -> Departures:
        """Remove every broker that last registered over this connection."""
        return self._remove([self._replicas[key] for key in self._channels.get(channel, ())])

    def expire(self, now_ms: int) -> Departures:
        """Remove every broker that has been silent for longer than its time-out."""
        silent = [one for one in self._replicas.values() if one.seen_ms + one.timeout_ms < now_ms]
        for one in silent:
            one.silent_ms = now_ms - one.seen_ms
        return self._remove(silent)

    def _remove(self, replicas: list[Replica]) -> Departures:
        smallest: dict[str, Replica] = {}
        for one in replicas:
            broker = self._brokers[one.broker_name]
            smallest.setdefault(broker.name, broker.replicas[min(broker.replicas)])
        for one in replicas:
            self._forget(one)
        changes = []
        for name, was in smallest.items():
            broker = self._brokers[name]
            self._settle(broker)
            if broker.acting_master and broker.replicas and min(broker.replicas) != was.broker_id:
                changes.append(_went_above(broker, was.address))
        return Departures(tuple(replicas), tuple(changes))

    def _forget(self, replica: Replica) -> None:
        """Remove a replica from every index. The caller settles the broker afterwards."""
        broker = self._brokers[replica.broker_name]
        if broker.replicas.get(replica.broker_id) is replica:
            del broker.replicas[replica.broker_id]
        if self._replicas.get(replica.key) is replica:
            del self._replicas[replica.key]
            keys = self._channels[replica.channel]
            keys.discard(replica.key)
            if not keys:
                del self._channels[replica.channel]

    def _settle(self, broker: _Broker) -> None:
        """Settle clusters, permissions and routes after a broker's replicas changed; a name without replicas goes."""
        clusters = {one.cluster for one in broker.replicas.values()}
        for cluster in broker.clusters - clusters:
            self._clusters[cluster].discard(broker.name)
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        for cluster in clusters - broker.clusters:
            self._clusters.setdefault(cluster, set()).add(broker.name)
        broker.clusters = clusters
        if not broker.replicas:
            for name in tuple(broker.topics):
                self._drop_queues(self._topics[name], broker)
            del self._brokers[broker.name]
            return
        if broker.cluster not in clusters:
            broker.cluster = broker.replicas[min(broker.replicas)].cluster
        if broker.is_read_only:
            for name in broker.topics:
                self._put_queues(name, broker, self._topics[name].queues[broker.name])
        self._show(broker)

    def _show(self, broker: _Broker) -> None:
        addresses = {broker_id: broker.replicas[broker_id].address for broker_id in sorted(broker.replicas)}
        broker.data = BrokerData(
            broker_addrs=addresses, broker_name=broker.name, cluster=broker.cluster, zone_name=broker.zone,
            enable_acting_master=broker.acting_master,
        )  # fmt: skip
        broker.filters = {one.address: one.filter_servers for one in broker.replicas.values() if one.filter_servers}

    # --- topics -------------------------------------------------------------------------------------------------------

    def register_topic(self, name: str, queues: Iterable[QueueData]) -> None:
        """Add one topic on brokers that are there. RequestRefused names one that is not, and then none is taken."""
        pairs = []
        for one in queues:
            broker = self._brokers.get(one.broker_name)
            if broker is None:
                raise RequestRefused(f"topic {name} names broker {one.broker_name}, which is not registered")
            pairs.append((broker, one))
        for broker, one in pairs:
            self._put_queues(name, broker, one)

    def delete_topic(self, name: str, cluster: str | None = None) -> bool:
        """Remove a topic, everywhere or from the brokers of one cluster. Return whether there was one."""
        topic = self._topics.get(name)
        if topic is None:
            return False
        names = set(topic.queues) if cluster is None else topic.queues.keys() & self._clusters.get(cluster, set())
        for broker_name in names:
            self._drop_queues(topic, self._brokers[broker_name])
        return bool(names)

    def wipe_write(self, broker_name: str) -> int:
        """Forbid writing to this broker's topics, and those it registers later, until allowed or all its replicas are
        gone. Return how many there are. In Java any change of the broker's topics and groups ends it."""
        return self._change_perm(broker_name, is_drained=True, add=0)

    def add_write(self, broker_name: str) -> int:
        """Allow writing to and reading of every topic of this broker. Return how many there are."""
        return self._change_perm(broker_name, is_drained=False, add=READ_WRITE)

    def _change_perm(self, broker_name: str, *, is_drained: bool, add: int) -> int:
        broker = self._brokers.get(broker_name)
        if broker is None:
            return 0
        broker.is_drained = is_drained
        for name in broker.topics:
            queues = self._topics[name].queues[broker_name]
            self._put_queues(name, broker, replace(queues, perm=queues.perm | add))
        return len(broker.topics)

    def _put_queues(self, name: str, broker: _Broker, queues: QueueData) -> None:
        if broker.is_read_only and queues.perm & WRITE:
            queues = replace(queues, perm=queues.perm & ~WRITE)
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(name)
        if topic.queues.get(broker.name) != queues:
            topic.queues[broker.name] = queues
            broker.topics.add(topic.name)  # the same string object as the topic's own: 50,000 names are kept once

    def _drop_queues(self, topic: _Topic, broker: _Broker) -> None:
        del topic.queues[broker.name]
        broker.topics.discard(topic.name)
        if not topic.queues:
            del self._topics[topic.name]

    # --- questions ----------------------------------------------------------------------------------------------------

    def route(self, name: str) -> TopicRouteData | None:
        """Return where the topic's queues are, in order of broker name."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        brokers = [self._brokers[name] for name in sorted(topic.queues)]
        filters: dict[str, list[str]] = {}
        for broker in brokers:
            filters |= broker.filters
        return TopicRouteData(
            queue_datas=[topic.queues[broker.name] for broker in brokers],
            broker_datas=[broker.data for broker in brokers if broker.data is not None],
            filter_server_table=filters,
            topic_queue_mapping_by_broker=topic.mappings,
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: one.data for name, one in self._brokers.items() if one.data is not None},
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._clusters.items()},
        )

    def members(self, broker_name: str) -> dict[int, str]:
        """Return id and address of each replica of a broker name; empty for an unknown one."""
        broker = self._brokers.get(broker_name)
        return dict(broker.data.broker_addrs) if broker and broker.data else {}

    def topics(self) -> list[str]:
        return list(self._topics)

    def topic_count(self) -> int:
        return len(self._topics)

    def has_topic(self, name: str) -> bool:
        return name in self._topics

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, ())
        return sorted(set().union(*(self._brokers[name].topics for name in names)))

    def has_flags(self, name: str, wanted: int, unwanted: int = 0) -> bool:
        """Return whether a topic's system flag, as the first of its brokers gave it, has one bit and not the other."""
        topic = self._topics.get(name)
        flags = next(iter(topic.queues.values())).topic_sys_flag if topic else 0
        return bool(flags & wanted) and not flags & unwanted

    def has_channel(self, channel: object) -> bool:
        """Return whether a broker that is there registered over this connection."""
        return channel in self._channels

    def replica_count(self) -> int:
        return len(self._replicas)


def _queues(broker_name: str, config: TopicConfig, shared: dict[tuple[int, ...], QueueData]) -> QueueData:
    key = config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
    if key not in shared:
        shared[key] = QueueData(
            broker_name=broker_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )
    return shared[key]


def _came_below(broker: _Broker, ha_address: str) -> MinBrokerChange:
    """Return the notice to the others that a replica with a smaller id came."""
    smallest = min(broker.replicas)
    others = tuple(one.address for one in broker.replicas.values() if one.broker_id != smallest)
    address = broker.replicas[smallest].address
    return MinBrokerChange(broker.name, smallest, address, others or (address,), ha_address=ha_address)


def _went_above(broker: _Broker, offline_address: str) -> MinBrokerChange:
    """Return the notice to all that remain that the replica with the smallest id left."""
    smallest = min(broker.replicas)
    everyone = tuple(one.address for one in broker.replicas.values())
    return MinBrokerChange(broker.name, smallest, broker.replicas[smallest].address, everyone, offline_address)
