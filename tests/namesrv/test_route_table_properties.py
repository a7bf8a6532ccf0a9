"""The invariants at the top of route_table.py after every step of random histories over a very small world."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyromq.errors import RequestRefused
from pyromq.namesrv.registration import Departures, Registration
from pyromq.namesrv.route_table import RouteTable
from pyromq.protocol.bodies.route import QueueData
from tests.namesrv.builders import mapping, registration, topics, version

NAMES = st.sampled_from(["a", "b"])
CLUSTERS = st.sampled_from(["c1", "c2"])
ADDRESSES = st.sampled_from(["x:1", "y:1", "z:1"])
CHANNELS = st.sampled_from(["ch1", "ch2", "ch3"])
TOPICS = st.sampled_from(["T1", "T2", "T3"])
TIMEOUT_MS = 100


@st.composite
def registrations(draw: st.DrawFn) -> Registration:
    name = draw(NAMES)
    chosen = draw(st.sets(TOPICS))
    return registration(
        name,
        draw(st.integers(0, 2)),
        cluster=draw(CLUSTERS),
        address=draw(ADDRESSES),
        channel=draw(CHANNELS),
        timeout_ms=TIMEOUT_MS,
        zone=draw(st.sampled_from([None, "z"])),
        acting_master=draw(st.sampled_from([None, False, True])),
        version=version(draw(st.integers(0, 1)), draw(st.integers(0, 2))),
        topics=topics(*sorted(chosen), perm=draw(st.sampled_from([4, 6, 7])), queues=draw(st.integers(1, 2))),
        mappings={topic: mapping(topic, name) for topic in draw(st.sets(TOPICS, max_size=1))},
        filter_servers=draw(st.sampled_from([None, [], ["f:1"]])),
    )


def picture(table: RouteTable) -> Any:
    """Everything that can be asked of a table, apart from time."""
    live = {key: (one.broker_name, one.broker_id, one.version) for key, one in table._replicas.items()}
    return table.cluster_info(), {name: table.route(name) for name in table.topics()}, live


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now = 0
        self.seen: dict[tuple[str, str], int] = {}  # the reference: when each replica was last heard of

    @initialize(first=registrations())
    def start_with_one(self, first: Registration) -> None:
        self.register(first, False)

    @rule(new=registrations(), prune=st.booleans())
    def register(self, new: Registration, prune: bool) -> None:
        before = picture(self.table)
        holder = self.table._brokers[new.broker_name].replicas.get(new.broker_id) if self.knows(new) else None
        if holder is None and len(new.topics) == 1:
            with pytest.raises(RequestRefused):
                self.table.register(new, self.now, prune)
            assert picture(self.table) == before
            return
        result = self.table.register(new, self.now, prune)
        for gone in result.displaced:
            if (gone.cluster, gone.address) not in self.table._replicas:
                del self.seen[gone.cluster, gone.address]
        if result.ignored is None:
            self.seen[new.cluster, new.address] = self.now
            assert self.table.members(new.broker_name)[new.broker_id] == new.address
            assert self.table.version(new.cluster, new.address) == new.version
            if new.broker_id == 0:
                assert set(new.topics) <= self.table._brokers[new.broker_name].topics
        else:
            assert (new.cluster, new.address) not in self.table._replicas

    def knows(self, new: Registration) -> bool:
        return new.broker_name in set(self.table._brokers)

    @rule(cluster=CLUSTERS, address=ADDRESSES)
    def heartbeat(self, cluster: str, address: str) -> None:
        known = self.table.heartbeat(cluster, address, self.now)
        assert known == ((cluster, address) in self.seen)
        if known:
            self.seen[cluster, address] = self.now

    @rule(passed=st.sampled_from([0, 1, 50, TIMEOUT_MS, TIMEOUT_MS + 1]))
    def time_passes(self, passed: int) -> None:
        self.now += passed
        silent = {key for key, seen in self.seen.items() if self.now - seen > TIMEOUT_MS}
        assert self.forget(self.table.expire(self.now)) == silent

    @rule(channel=CHANNELS)
    def channel_lost(self, channel: str) -> None:
        over_it = {key for key, one in self.table._replicas.items() if one.channel == channel}
        assert self.forget(self.table.channel_lost(channel)) == over_it

    @rule(batch=st.lists(st.tuples(NAMES, ADDRESSES), max_size=3))
    def unregister(self, batch: list[tuple[str, str]]) -> None:
        departures = self.table.unregister(batch)
        self.forget(departures)
        assert {(one.broker_name, one.address) for one in departures.departed} <= set(batch)
        assert all(address not in self.table.members(name).values() for name, address in batch)

    def forget(self, departures: Departures) -> set[tuple[str, str]]:
        gone = {(one.cluster, one.address) for one in departures.departed}
        for key in gone:
            del self.seen[key]
        return gone

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        assert topic not in (self.table.topics() if cluster is None else self.table.topics_of_cluster(cluster))

    @rule(topic=TOPICS, broker_names=st.sets(NAMES, min_size=1))
    def register_topic(self, topic: str, broker_names: set[str]) -> None:
        queues = [QueueData(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1) for name in broker_names]
        if broker_names <= set(self.table._brokers):
            self.table.register_topic(topic, queues)
        else:
            before = picture(self.table)
            with pytest.raises(RequestRefused):
                self.table.register_topic(topic, queues)
            assert picture(self.table) == before

    @rule(name=NAMES)
    def wipe_write(self, name: str) -> None:
        assert self.table.wipe_write(name) == len(self.queues_of(name))
        assert all(not queues.perm & 2 for queues in self.queues_of(name))

    @rule(name=NAMES)
    def add_write(self, name: str) -> None:
        assert self.table.add_write(name) == len(self.queues_of(name))
        assert all(queues.perm & 4 for queues in self.queues_of(name))

    def queues_of(self, name: str) -> list[QueueData]:
        return [topic.queues[name] for topic in self.table._topics.values() if name in topic.queues]

    # --- the invariants, by their numbers -----------------------------------------------------------------------------

    @invariant()
    def replicas_stand_in_one_place(self) -> None:  # 1
        table = self.table
        placed = [
            (one.cluster, one.address, name, broker_id)
            for name, broker in table._brokers.items()
            for broker_id, one in broker.replicas.items()
        ]
        indexed = [(*key, one.broker_name, one.broker_id) for key, one in table._replicas.items()]
        assert sorted(placed) == sorted(indexed)
        assert set(table._replicas) == set(self.seen)
        by_channel = {(channel, key) for channel, keys in table._channels.items() for key in keys}
        assert by_channel == {(one.channel, key) for key, one in table._replicas.items()}
        assert all(table._channels.values())
        for broker in table._brokers.values():
            addresses = [one.address for one in broker.replicas.values()]
            assert len(addresses) == len(set(addresses))

    @invariant()
    def nothing_is_empty(self) -> None:  # 2
        assert all(broker.replicas for broker in self.table._brokers.values())
        assert all(topic.queues for topic in self.table._topics.values())

    @invariant()
    def topics_and_brokers_agree(self) -> None:  # 3
        by_topic = {(topic.name, name) for topic in self.table._topics.values() for name in topic.queues}
        by_broker = {(topic, broker.name) for broker in self.table._brokers.values() for topic in broker.topics}
        assert by_topic == by_broker

    @invariant()
    def clusters_list_their_brokers(self) -> None:  # 4
        derived: dict[str, set[str]] = {}
        for (cluster, _), replica in self.table._replicas.items():
            derived.setdefault(cluster, set()).add(replica.broker_name)
        assert self.table._clusters == derived
        assert all(name in derived[broker.cluster] for name, broker in self.table._brokers.items())

    @invariant()
    def no_slave_is_writable_in_acting_master_mode(self) -> None:  # 5
        for name, broker in self.table._brokers.items():
            if broker.acting_master and 0 not in broker.replicas:
                assert not any(queues.perm & 2 for queues in self.queues_of(name))

    @invariant()
    def routes_show_what_is_there(self) -> None:
        for name, topic in self.table._topics.items():
            route = self.table.route(name)
            assert route is not None
            assert [one.broker_name for one in route.broker_datas] == sorted(topic.queues)
            for data in route.broker_datas:
                broker = self.table._brokers[data.broker_name]
                assert data.broker_addrs == {i: one.address for i, one in broker.replicas.items()}
                assert (data.cluster, data.zone_name) == (broker.cluster, broker.zone)


RouteTableMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestRouteTable = RouteTableMachine.TestCase
