"""One test per rule of the route table, with integers for time and strings for connections."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.errors import RequestRefused
from pyromq.model.topic import Perm
from pyromq.namesrv.registration import MinBrokerChange
from pyromq.namesrv.route_table import RouteTable
from pyromq.protocol.bodies.route import QueueData
from tests.namesrv.builders import mapping, registration, topics, version


def perms(table: RouteTable, topic: str) -> dict[str, int]:
    route = table.route(topic)
    return {queues.broker_name: queues.perm for queues in route.queue_datas} if route else {}


def names(table: RouteTable) -> dict[str, list[str]]:
    return table.cluster_info().cluster_addr_table


# --- registration -----------------------------------------------------------------------------------------------------


def test_a_registered_broker_is_in_routes_clusters_and_members() -> None:
    table = RouteTable()
    result = table.register(registration(zone="z1"), now_ms=0)
    assert (result.is_new, result.master_address, result.changes) == (True, None, ())
    route = table.route("TopicA")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "broker-a-0:10911"}
    assert (route.broker_datas[0].cluster, route.broker_datas[0].zone_name) == ("DefaultCluster", "z1")
    assert route.queue_datas == [QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)]
    assert names(table) == {"DefaultCluster": ["broker-a"]}
    assert table.members("broker-a") == {0: "broker-a-0:10911"}
    assert sorted(table.topics()) == ["TopicA", "TopicB"]


def test_unknown_things_are_answered_with_nothing() -> None:
    table = RouteTable()
    assert table.route("T") is None
    assert table.members("broker-a") == {}
    assert table.version("c", "a") is None
    assert not table.heartbeat("c", "a", 1)
    assert table.topics_of_cluster("c") == []
    assert table.unregister([("broker-a", "a:1")]).departed == ()
    assert table.channel_lost("nobody").departed == ()


def test_a_route_lists_its_brokers_in_order_of_name_and_is_not_touched_by_what_comes_later() -> None:
    table = RouteTable()
    for name in ("broker-c", "broker-a", "broker-b"):
        table.register(registration(name), 0)
    route = table.route("TopicA")
    assert route is not None
    assert [one.broker_name for one in route.broker_datas] == ["broker-a", "broker-b", "broker-c"]
    assert [one.broker_name for one in route.queue_datas] == ["broker-a", "broker-b", "broker-c"]
    table.register(registration("broker-b", 1), 5)
    table.wipe_write("broker-b")
    table.unregister([("broker-c", "broker-c-0:10911")])
    assert route.broker_datas[1].broker_addrs == {0: "broker-b-0:10911"}
    assert route.queue_datas[1].perm == 6
    assert len(route.broker_datas) == 3


def test_slaves_are_told_the_master_and_its_ha_address() -> None:
    table = RouteTable()
    assert table.register(registration(broker_id=1), 0).master_address is None
    table.register(registration(), 0)
    result = table.register(registration(broker_id=1), 0)
    assert (result.master_address, result.ha_address) == ("broker-a-0:10911", "broker-a-0:10912")
    assert table.register(registration(), 0).master_address is None


def test_topics_of_a_slave_are_not_taken_while_there_is_a_smaller_id() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    table.register(registration(broker_id=1, topics=topics("TopicA", "Extra")), 0)
    assert table.route("Extra") is None


@pytest.mark.parametrize(("acting_master", "taken"), [(None, False), (False, True), (True, True)])
def test_the_smallest_slave_speaks_for_the_topics_if_it_is_of_5_0_or_later(
    acting_master: bool | None, taken: bool
) -> None:
    table = RouteTable()
    table.register(registration(broker_id=1, acting_master=acting_master), 0)
    assert (table.route("TopicA") is not None) is taken


def test_an_unknown_id_with_a_single_topic_is_refused_and_leaves_no_trace() -> None:
    table = RouteTable()
    with pytest.raises(RequestRefused, match="single topic Only"):
        table.register(registration(topics=topics("Only")), 0)
    assert names(table) == {}
    assert table.replica_count() == 0
    table.register(registration(), 0)
    table.register(registration(topics=topics("Only"), version=version(2)), 0)
    assert table.route("Only") is not None
    assert table.route("TopicA") is not None  # an addition, not a replacement


def test_a_registration_without_topics_is_taken() -> None:
    table = RouteTable()
    table.register(registration(topics={}), 0)
    assert names(table) == {"DefaultCluster": ["broker-a"]}


# --- data versions ----------------------------------------------------------------------------------------------------


def test_topics_are_taken_over_when_the_data_version_changed_and_otherwise_only_where_missing() -> None:
    table = RouteTable()
    table.register(registration(version=version(1)), 0)
    table.register(registration(version=version(1), topics=topics("TopicA", "TopicC", queues=8)), 0)
    queues = {name: route.queue_datas[0].read_queue_nums for name in table.topics() if (route := table.route(name))}
    assert queues == {"TopicA": 4, "TopicB": 4, "TopicC": 8}
    table.register(registration(version=version(2), topics=topics("TopicA", "TopicB", queues=2)), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.queue_datas[0].read_queue_nums == 2
    assert table.version("DefaultCluster", "broker-a-0:10911") == version(2)


def test_whoever_takes_over_an_id_brings_its_own_topics_whatever_its_data_version() -> None:
    table = RouteTable()
    table.register(registration(broker_id=0, topics=topics("TopicA", "TopicB", queues=4)), 0)
    table.register(registration(broker_id=1, address="s:1"), 0)
    table.register(registration(broker_id=0, address="s:1", topics=topics("TopicA", "TopicB", queues=9)), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.queue_datas[0].read_queue_nums == 9


def test_a_deleted_topic_comes_back_with_the_next_registration_that_has_it() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    assert table.delete_topic("TopicA")
    assert table.route("TopicA") is None
    table.register(registration(), 0)
    assert table.route("TopicA") is not None


def test_topics_that_a_broker_no_longer_has_go_only_if_pruning_is_on() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    fewer = registration(topics=topics("TopicA", "TopicC"), version=version(2))
    table.register(fewer, 0)
    assert table.route("TopicB") is not None
    table.register(fewer, 0, prune_topics=True)
    assert sorted(table.topics()) == ["TopicA", "TopicC"]


def test_static_topics_are_never_pruned() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    static = registration(topics=topics("TopicA", "TopicC"), mappings={"TopicA": mapping("TopicA", "broker-a")})
    table.register(static, 0, prune_topics=True)
    assert sorted(table.topics()) == ["TopicA", "TopicB", "TopicC"]


# --- replicas, ids, addresses -----------------------------------------------------------------------------------------


def test_a_slave_that_becomes_master_leaves_its_old_id() -> None:
    table = RouteTable()
    table.register(registration(broker_id=1, address="x:1"), 0)
    result = table.register(registration(broker_id=0, address="x:1"), 0)
    assert table.members("broker-a") == {0: "x:1"}
    assert [(one.broker_id, one.address) for one in result.displaced] == [(1, "x:1")]
    assert table.route("TopicA") is not None


def test_an_id_goes_to_another_address_unless_that_one_is_of_an_older_epoch() -> None:
    table = RouteTable()
    table.register(registration(address="old:1", version=version(state=3)), 0)
    result = table.register(registration(address="new:1", version=version(state=3)), 0)
    assert result.ignored is None
    assert [one.address for one in result.displaced] == ["old:1"]
    assert table.members("broker-a") == {0: "new:1"}
    late = table.register(registration(address="old:1", version=version(state=2)), 0)
    assert late.ignored is not None
    assert "state version 3" in late.ignored
    assert table.members("broker-a") == {0: "new:1"}
    assert table.version("DefaultCluster", "old:1") is None


def test_an_elected_slave_takes_the_masters_place_and_the_deposed_one_cannot_take_it_back() -> None:
    """The old master hangs: its connection stays, and it knows nothing of the election."""
    table = RouteTable()
    for broker_id, address in ((0, "a:1"), (2, "b:1"), (3, "c:1")):
        table.register(registration(broker_id=broker_id, address=address, version=version(state=1)), 0)
    elected = table.register(registration(broker_id=0, address="b:1", ha_address="b:2", version=version(2, 2)), 0)
    assert {(one.broker_id, one.address) for one in elected.displaced} == {(0, "a:1"), (2, "b:1")}
    assert table.members("broker-a") == {0: "b:1", 3: "c:1"}
    for attempt in (version(1, 1), version(9, 1)):  # also with topics that are newer by their own counter
        assert table.register(registration(address="a:1", version=attempt), 0).ignored is not None
    table.unregister([("broker-a", "a:1")])
    table.channel_lost("channel of a:1")
    assert not table.heartbeat("DefaultCluster", "a:1", 0)
    assert table.members("broker-a") == {0: "b:1", 3: "c:1"}
    route = table.route("TopicA")
    assert route is not None
    assert route.queue_datas[0].perm & Perm.WRITE
    back = table.register(registration(broker_id=1, address="a:1", version=version(1, 1)), 0)
    assert (back.master_address, back.ha_address) == ("b:1", "b:2")
    assert table.members("broker-a") == {0: "b:1", 1: "a:1", 3: "c:1"}


def test_while_a_set_elects_its_topics_stay_writable_and_their_brokers_have_no_master() -> None:
    """So clients know that keys belong there, and wait. Acting masters have another way: nothing is written then."""
    table = RouteTable()
    for broker_id in (0, 1, 2):
        table.register(registration(broker_id=broker_id, version=version(state=1)), 0)
    table.channel_lost("channel of broker-a-0:10911")
    route = table.route("TopicA")
    assert route is not None
    assert route.queue_datas[0].perm & Perm.WRITE
    assert sorted(route.broker_datas[0].broker_addrs) == [1, 2]
    table.register(registration(broker_id=0, address="broker-a-2:10911", version=version(2, 2)), 0)
    assert table.members("broker-a") == {0: "broker-a-2:10911", 1: "broker-a-1:10911"}


def test_a_slave_that_wrongly_claims_to_be_master_is_ignored_and_taken_out() -> None:
    table = RouteTable()
    table.register(registration(version=version(state=3)), 0)
    table.register(registration(broker_id=1, address="s:1"), 0)
    result = table.register(registration(broker_id=0, address="s:1", version=version(state=2)), 0)
    assert result.ignored is not None
    assert table.members("broker-a") == {0: "broker-a-0:10911"}


def test_a_displaced_replica_does_not_linger_after_its_connection_closes() -> None:
    table = RouteTable()
    table.register(registration(address="old:1"), 0)
    table.register(registration(address="new:1"), 0)
    assert table.channel_lost("channel of old:1").departed == ()
    assert table.replica_count() == 1


def test_an_address_under_another_broker_name_leaves_the_first() -> None:
    table = RouteTable()
    table.register(registration("broker-a", address="x:1"), 0)
    table.register(registration("broker-b", address="x:1"), 0)
    assert names(table) == {"DefaultCluster": ["broker-b"]}
    assert perms(table, "TopicA") == {"broker-b": 6}


def test_a_broker_name_in_two_clusters_stands_in_both_until_its_replicas_there_are_gone() -> None:
    table = RouteTable()
    table.register(registration(broker_id=0, cluster="c1"), 0)
    table.register(registration(broker_id=1, cluster="c2"), 0)
    assert names(table) == {"c1": ["broker-a"], "c2": ["broker-a"]}
    table.unregister([("broker-a", "broker-a-0:10911")])
    assert names(table) == {"c2": ["broker-a"]}
    assert table.cluster_info().broker_addr_table["broker-a"].cluster == "c2"


def test_filter_servers_show_in_routes_by_broker_address() -> None:
    table = RouteTable()
    table.register(registration(filter_servers=["f:1", "f:2"]), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.filter_server_table == {"broker-a-0:10911": ["f:1", "f:2"]}
    table.register(registration(filter_servers=None), 0)
    assert table.route("TopicA") == route
    table.register(registration(filter_servers=[]), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.filter_server_table == {}


def test_static_topic_mappings_stand_in_the_route_by_broker_and_leave_with_the_topic() -> None:
    table = RouteTable()
    for name in ("broker-a", "broker-b"):
        table.register(registration(name, mappings={"TopicA": mapping("TopicA", name)}), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.topic_queue_mapping_by_broker is not None
    assert sorted(route.topic_queue_mapping_by_broker) == ["broker-a", "broker-b"]
    table.register(registration(mappings={"TopicA": mapping("TopicA", "broker-a", 7)}, version=version(2)), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.topic_queue_mapping_by_broker is not None
    assert route.topic_queue_mapping_by_broker["broker-a"].epoch == 7
    table.delete_topic("TopicA")
    table.register(registration("broker-c"), 0)
    route = table.route("TopicA")
    assert route is not None
    assert route.topic_queue_mapping_by_broker is None


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_a_broker_lives_until_it_has_been_silent_for_longer_than_its_timeout() -> None:
    table = RouteTable()
    table.register(registration(timeout_ms=120_000), 1_000)
    assert table.expire(121_000).departed == ()
    departures = table.expire(121_001)
    assert [(one.broker_name, one.silent_ms) for one in departures.departed] == [("broker-a", 120_001)]
    assert table.topics() == []
    assert names(table) == {}


def test_a_heartbeat_is_as_good_as_a_registration_for_staying_alive() -> None:
    table = RouteTable()
    table.register(registration(timeout_ms=10_000), 0)
    assert table.heartbeat("DefaultCluster", "broker-a-0:10911", 9_000)
    assert table.expire(19_000).departed == ()
    assert not table.heartbeat("AnotherCluster", "broker-a-0:10911", 19_000)
    assert len(table.expire(19_001).departed) == 1


def test_a_lost_connection_takes_every_broker_that_registered_over_it() -> None:
    table = RouteTable()
    for name in ("broker-a", "broker-b", "broker-c"):
        table.register(registration(name, channel="shared" if name != "broker-c" else "own"), 0)
    departures = table.channel_lost("shared")
    assert sorted(one.broker_name for one in departures.departed) == ["broker-a", "broker-b"]
    assert perms(table, "TopicA") == {"broker-c": 6}


def test_a_broker_that_came_back_over_a_new_connection_survives_the_loss_of_the_old_one() -> None:
    table = RouteTable()
    table.register(registration(channel="first"), 0)
    table.register(registration(channel="second"), 0)
    assert table.channel_lost("first").departed == ()
    assert len(table.channel_lost("second").departed) == 1


def test_a_batch_is_unregistered_at_once() -> None:
    table = RouteTable()
    for name in ("broker-a", "broker-b"):
        table.register(registration(name), 0)
        table.register(registration(name, 1), 0)
    gone = [("broker-a", "broker-a-0:10911"), ("broker-a", "broker-a-1:10911"), ("broker-b", "broker-b-0:10911")]
    departures = table.unregister([*gone, gone[0], ("broker-b", "nobody:1")])
    assert len(departures.departed) == 3
    assert perms(table, "TopicA") == {"broker-b": 6}
    assert table.members("broker-b") == {1: "broker-b-1:10911"}


# --- acting master ----------------------------------------------------------------------------------------------------


def test_when_the_master_leaves_an_acting_master_group_becomes_read_only_and_the_rest_is_told() -> None:
    table = RouteTable()
    table.register(registration(broker_id=0, acting_master=True), 0)
    table.register(registration(broker_id=1, acting_master=True), 0)
    table.register(registration(broker_id=2, acting_master=True), 0)
    departures = table.channel_lost("channel of broker-a-0:10911")
    assert perms(table, "TopicA") == {"broker-a": 4}
    everyone = ("broker-a-1:10911", "broker-a-2:10911")
    assert departures.changes == (MinBrokerChange("broker-a", 1, everyone[0], everyone, "broker-a-0:10911"),)


def test_without_acting_master_nothing_changes_for_the_slaves_when_the_master_leaves() -> None:
    table = RouteTable()
    table.register(registration(broker_id=0), 0)
    table.register(registration(broker_id=1), 0)
    assert table.channel_lost("channel of broker-a-0:10911").changes == ()
    assert perms(table, "TopicA") == {"broker-a": 6}


def test_write_permission_returns_with_the_master_and_the_others_are_told() -> None:
    table = RouteTable()
    table.register(registration(broker_id=1, acting_master=True), 0)
    table.register(registration(broker_id=2, acting_master=True), 0)
    assert perms(table, "TopicA") == {"broker-a": 4}
    assert table.add_write("broker-a") == 2
    assert perms(table, "TopicA") == {"broker-a": 4}  # a slave cannot be written to, whoever asks
    result = table.register(registration(broker_id=0, acting_master=True), 0)
    assert perms(table, "TopicA") == {"broker-a": 6}
    others = ("broker-a-1:10911", "broker-a-2:10911")
    assert result.changes == (
        MinBrokerChange("broker-a", 0, "broker-a-0:10911", others, ha_address="broker-a-0:10912"),
    )


def test_a_departure_that_leaves_the_smallest_id_in_place_tells_nobody() -> None:
    table = RouteTable()
    table.register(registration(broker_id=0, acting_master=True), 0)
    table.register(registration(broker_id=1, acting_master=True), 0)
    assert table.channel_lost("channel of broker-a-1:10911").changes == ()
    assert perms(table, "TopicA") == {"broker-a": 6}


# --- topics -----------------------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_and_given_back_with_the_other_bits_untouched() -> None:
    table = RouteTable()
    table.register(registration(topics=topics("Plain") | topics("Inherit", perm=7)), 0)
    table.register(registration("broker-b", topics=topics("Plain", "Else")), 0)
    assert table.wipe_write("broker-a") == 2
    assert (perms(table, "Plain"), perms(table, "Inherit")) == ({"broker-a": 4, "broker-b": 6}, {"broker-a": 5})
    assert table.add_write("broker-a") == 2
    assert (perms(table, "Plain"), perms(table, "Inherit")) == ({"broker-a": 6, "broker-b": 6}, {"broker-a": 7})
    assert table.wipe_write("nobody") == table.add_write("nobody") == 0


def test_a_wiped_permission_stays_wiped_until_it_is_given_back_or_the_broker_is_gone() -> None:
    table = RouteTable()
    table.register(registration(version=version(1)), 0)
    table.wipe_write("broker-a")
    table.register(registration(version=version(1)), 0)
    assert perms(table, "TopicA") == {"broker-a": 4}
    table.register(registration(version=version(2), topics=topics("TopicA", "New")), 0)
    table.register_topic("Single", [QueueData(broker_name="broker-a", perm=6)])
    assert [perms(table, name) for name in ("TopicA", "New", "Single")] == [{"broker-a": 4}] * 3
    table.add_write("broker-a")
    table.register(registration(version=version(3), topics=topics("TopicA", "Newer")), 0)
    assert [perms(table, name) for name in ("TopicA", "New", "Newer")] == [{"broker-a": 6}] * 3
    table.wipe_write("broker-a")
    table.unregister([("broker-a", "broker-a-0:10911")])
    table.register(registration(version=version(3)), 0)
    assert perms(table, "TopicA") == {"broker-a": 6}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    table = RouteTable()
    table.register(registration("broker-a", cluster="c1"), 0)
    table.register(registration("broker-b", cluster="c2"), 0)
    assert table.delete_topic("TopicA", "c1")
    assert perms(table, "TopicA") == {"broker-b": 6}
    assert not table.delete_topic("TopicA", "c1")
    assert not table.delete_topic("TopicA", "no such cluster")
    assert table.delete_topic("TopicA", "c2")
    assert table.route("TopicA") is None
    assert table.delete_topic("TopicB")
    assert not table.delete_topic("TopicB")


def test_a_single_topic_is_registered_on_known_brokers_only_and_as_a_whole() -> None:
    table = RouteTable()
    table.register(registration(), 0)
    good, bad = QueueData(broker_name="broker-a", perm=6), QueueData(broker_name="broker-x", perm=6)
    with pytest.raises(RequestRefused, match="broker-x"):
        table.register_topic("New", [good, bad])
    assert table.route("New") is None
    table.register_topic("New", [good])
    assert perms(table, "New") == {"broker-a": 6}


def test_topic_lists_of_every_kind() -> None:
    table = RouteTable()
    kinds = topics("Plain") | topics("Unit", flag=1) | topics("Sub", flag=2) | topics("Both", flag=3)
    table.register(registration("broker-a", cluster="c1", topics=kinds), 0)
    table.register(registration("broker-b", cluster="c2"), 0)
    assert [name for name in sorted(table.topics()) if table.has_flags(name, 1)] == ["Both", "Unit"]
    assert [name for name in sorted(table.topics()) if table.has_flags(name, 2)] == ["Both", "Sub"]
    assert [name for name in sorted(table.topics()) if table.has_flags(name, 2, unwanted=1)] == ["Sub"]
    assert not table.has_flags("gone", 1)
    assert table.topics_of_cluster("c1") == ["Both", "Plain", "Sub", "Unit"]
    assert table.topics_of_cluster("c2") == ["TopicA", "TopicB"]


# --- cost -------------------------------------------------------------------------------------------------------------


class NoWalk(dict[str, Any]):
    """Looked up, never walked through: what it costs does not grow with it."""

    def _refuse(self) -> Any:
        raise AssertionError("the whole table was walked")

    __iter__ = keys = values = items = _refuse


def test_routes_registrations_and_departures_never_walk_through_all_topics_or_brokers() -> None:
    table = RouteTable()
    for number in range(20):
        table.register(registration(f"broker-{number}", topics=topics(f"T{number}", f"T{number + 1}")), 0)
    table._topics, table._brokers = NoWalk(table._topics), NoWalk(table._brokers)
    table.register(registration("broker-3", topics=topics("T3", "T99"), version=version(2)), 0, prune_topics=True)
    table.register(registration("broker-3", 1), 0)
    assert perms(table, "T99") == {"broker-3": 6}
    assert perms(table, "T4") == {"broker-4": 6}
    assert table.wipe_write("broker-3") == 2
    assert table.add_write("broker-3") == 2
    assert table.topics_of_cluster("no such") == []
    table.register_topic("T7", [QueueData(broker_name="broker-3", perm=6)])
    table.delete_topic("T8")
    table.heartbeat("DefaultCluster", "broker-3-0:10911", 5)
    assert len(table.channel_lost("channel of broker-5-0:10911").departed) == 1
    assert len(table.unregister([("broker-3", "broker-3-0:10911"), ("broker-3", "broker-3-1:10911")]).departed) == 2
    assert perms(table, "T3") == {"broker-2": 6}
