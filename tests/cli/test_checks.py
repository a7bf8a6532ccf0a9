"""What `pyromq doctor` makes of answers that a healthy cluster of ours does not give. No sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.admin.calls import Calls
from pyromq.admin.checkup import mode_checks, order_checks, server_checks, topic_checks
from pyromq.admin.checkup.checked import CheckedCluster, CheckResult
from pyromq.admin.cluster import BrokerPlace
from pyromq.broker.clients.subscriptions import Conflict
from pyromq.client.connect.answers import Answer
from pyromq.client.connect.session import Session
from pyromq.client.errors import TimedOut, Unreachable, refused
from pyromq.model.codes import ResponseCode
from pyromq.model.group import MessageRequestMode
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.connections import (
    ClientConnection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pyromq.protocol.bodies.heartbeat import (
    MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody,
    SubscriptionData,
)
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.offsets import ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody, QueueTimeSpan
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from pyromq.protocol.command import Command
from pyromq.protocol.headers.header import Header
from pyromq.protocol.requests import RequestCode
from pyromq.protocol.row import AnyRow
from pyromq.testing.clock import ManualClock

NAMES, A, B = "10.0.0.1:9876", "10.0.0.2:10911", "10.0.0.3:10911"
PLACE = BrokerPlace("C", "broker-a", 0, A)


class Told(Calls):
    """Answers by address and code; what is not there cannot be reached."""

    def __init__(self, answers: dict[tuple[str, int], Any], name_servers: tuple[str, ...] = (NAMES,)) -> None:
        self.clock = ManualClock()
        session = SimpleNamespace(config=SimpleNamespace(name_servers=name_servers), clock=self.clock)
        super().__init__(cast(Session, session))
        self.answers = answers

    async def ask(
        self,
        address: str,
        row: AnyRow,
        header: Header | None = None,
        body: Any = None,
        *,
        known: Iterable[int] = (),
    ) -> Answer[Any, Any]:
        answer = self.answers.get((address, row))
        if answer is None:
            raise Unreachable(f"cannot connect to {address}", address=address)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ResponseCode):
            if answer not in known:
                raise refused(answer, "no", address)
            return Answer(row, Command(code=answer), address)
        return Answer(row, Command(code=0, body=encode_body(answer)), address, empty=b"{}")

    async def ask_name_server(
        self, row: AnyRow, header: Header | None = None, *, known: Iterable[int] = ()
    ) -> Answer[Any, Any]:
        return await self.ask(NAMES, row, header, known=known)


def cluster(**brokers: str) -> ClusterInfo:
    table = {
        name: BrokerData(broker_name=name, cluster="C", broker_addrs={0: address}) for name, address in brokers.items()
    }
    return ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": list(brokers)})


Check = Callable[[CheckedCluster], AsyncIterator[CheckResult]]


async def found(check: Check, calls: Calls, **patient: Any) -> list[CheckResult]:
    return [one async for one in check(CheckedCluster(calls, **patient))]


async def test_name_servers_that_disagree_or_are_silent() -> None:
    other, silent = "10.0.0.8:9876", "10.0.0.9:9876"
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    calls = Told({(NAMES, code): cluster(a=A), (other, code): cluster(b=B)}, (NAMES, other, silent))
    told = await found(server_checks.name_servers, calls)
    assert [one.state for one in told] == ["good", "good", "broken", "broken"]
    assert "10.0.0.9:9876 does not answer" in told[2].text
    assert told[3].check == "name servers agree"
    assert "Give every broker the whole list" in told[3].cure


async def test_an_advertised_address_that_cannot_be_reached() -> None:
    calls = Told({(NAMES, RequestCode.GET_BROKER_CLUSTER_INFO): cluster(a=A)})
    told = await found(server_checks.brokers, calls)
    assert [(one.check, one.state) for one in told] == [("advertised address", "broken"), ("brokers", "broken")]
    assert told[0].cure.startswith("Is it running?")
    assert "brokerIP1" in told[0].cure
    assert told[1].ends_it
    nobody = await found(server_checks.brokers, Told({(NAMES, RequestCode.GET_BROKER_CLUSTER_INFO): cluster()}))
    assert [one.text for one in nobody] == ["no broker is registered"]


async def test_a_broker_that_takes_connections_and_does_not_answer() -> None:
    answers: dict[tuple[str, int], Any] = {(NAMES, RequestCode.GET_BROKER_CLUSTER_INFO): cluster(a=A)}
    answers[A, RequestCode.GET_BROKER_RUNTIME_INFO] = TimedOut(f"no answer from {A} within 3 s", address=A)
    told = await found(server_checks.brokers, Told(answers))
    assert told[0].cure.startswith("Is it running, or does it hang")
    assert "brokerIP1" not in told[0].cure


async def test_an_order_configuration_that_names_a_broker_that_is_gone() -> None:
    orders = {"bills": "broker-a:4", "orders": "broker-a:4;broker-b:4", "shop": "broker-b:8"}
    calls = Told({(NAMES, RequestCode.GET_KVLIST_BY_NAMESPACE): KVTable(table=orders)})
    first, second = await found(order_checks.order_configs, calls, brokers=[PLACE])
    assert (first.state, second.state) == ("broken", "broken")
    assert "orders is ordered over broker-a:4;broker-b:4, and broker-b is not registered" in first.text
    assert first.cure.startswith("Start broker-b again")
    assert first.command == "pyromq kv set ORDER_TOPIC_CONFIG orders broker-a:4 --dry-run"
    assert second.command == "pyromq kv delete ORDER_TOPIC_CONFIG shop --dry-run"
    assert await found(order_checks.order_configs, calls, brokers=[PLACE], topic="bills") == []
    none = Told({(NAMES, RequestCode.GET_KVLIST_BY_NAMESPACE): ResponseCode.QUERY_NOT_FOUND})
    assert await found(order_checks.order_configs, none, brokers=[PLACE]) == []


async def test_an_order_configuration_that_nobody_can_read() -> None:
    orders = {"old": "garbage", "orders": "broker-a"}
    calls = Told({(NAMES, RequestCode.GET_KVLIST_BY_NAMESPACE): KVTable(table=orders)})
    configs = {"broker-a": {"orders": TopicConfig(topic_name="orders", write_queue_nums=4, order=True)}}
    old, now = await found(order_checks.order_configs, calls, brokers=[PLACE], configs=configs)
    assert (old.state, now.state) == ("broken", "broken")
    assert "ORDER_TOPIC_CONFIG of orders is 'broker-a', and 'broker-a' in it is not BROKER:QUEUES" in now.text
    assert now.text.endswith("sends to orders fail")
    assert now.command == "pyromq kv set ORDER_TOPIC_CONFIG orders broker-a:4 --dry-run"
    assert old.command == "pyromq kv delete ORDER_TOPIC_CONFIG old --dry-run"


async def test_an_order_configuration_that_is_missing_or_has_other_queues_than_the_brokers() -> None:
    calls = Told({(NAMES, RequestCode.GET_KVLIST_BY_NAMESPACE): KVTable(table={"steps": "broker-a:4;broker-b:4"})})
    ordered = {name: TopicConfig(topic_name=name, write_queue_nums=2, order=True) for name in ("moves", "steps")}
    both = [PLACE, BrokerPlace("C", "broker-b", 0, B)]
    for name in ("%RETRY%ledger", "%DLQ%ledger"):  # of an orderly group: nobody chooses among their queues by key
        ordered[name] = TopicConfig(topic_name=name, write_queue_nums=1, order=True)
    of_both = {"broker-a": ordered, "broker-b": ordered}
    missing, other = await found(order_checks.order_configs, calls, brokers=both, configs=of_both)
    assert (missing.state, other.state) == ("warning", "warning")
    assert "the name servers have no ORDER_TOPIC_CONFIG of it" in missing.text
    assert missing.command == "pyromq kv set ORDER_TOPIC_CONFIG moves 'broker-a:2;broker-b:2' --dry-run"
    assert other.text.endswith("and its brokers have broker-a:2;broker-b:2")
    assert other.cure.startswith("Sends to queues that are not there fail. ")
    here = {"broker-a": {"moves": ordered["moves"]}}
    assert await found(order_checks.order_configs, calls, brokers=both, configs=here) == [], "one broker has it"


async def test_a_name_without_a_master() -> None:
    slave = ClusterInfo(broker_addr_table={"a": BrokerData(broker_name="a", broker_addrs={1: A})})
    calls = Told(
        {(NAMES, RequestCode.GET_BROKER_CLUSTER_INFO): slave, (A, RequestCode.GET_BROKER_RUNTIME_INFO): KVTable()}
    )
    assert ("master", "broken") in [(one.check, one.state) for one in await found(server_checks.brokers, calls)]


async def test_loopback_told_to_others() -> None:
    here = BrokerPlace("C", "broker-a", 0, "127.0.0.1:10911")
    (one,) = await found(server_checks.loopback, Told({}), brokers=[here])
    assert (one.state, "127.0.0.1:10911" in one.text) == ("warning", True)
    assert await found(server_checks.loopback, Told({}, ("127.0.0.1:9876",)), brokers=[here]) == []


async def test_clocks_disks_and_permissions() -> None:
    calls = Told({})
    booted = str(calls.clock.now_ms() - 60_000)
    for seconds, used, states in (
        (60, "0.50", ("good", "good")),
        (90, "0.80", ("warning", "warning")),
        (0, "0.95", ("warning", "broken")),
    ):
        runtime = f"[ 0 days, 0 hours, {seconds // 60} minutes, {seconds % 60} seconds ]"
        reached = {A: {"bootTimestamp": booted, "runtime": runtime, "commitLogDiskRatio": used}}
        (clock,) = await found(server_checks.clocks, calls, brokers=[PLACE], reached=reached)
        (disk,) = await found(server_checks.disks, calls, brokers=[PLACE], reached=reached)
        assert (clock.state, disk.state) == states
    assert (
        "30 s ahead"
        in (
            await found(
                server_checks.clocks,
                calls,
                brokers=[PLACE],
                reached={A: {"bootTimestamp": booted, "runtime": "[ 0 days, 0 hours, 1 minutes, 30 seconds ]"}},
            )
        )[0].text
    )


async def test_which_kernel_serves() -> None:
    forced = {"kernelForced": True}
    for kernel, more, state in (("native", {}, "good"), ("python", {}, "warning"), ("python", forced, "good")):
        told = {"kernel": kernel, "ready": True, "troubles": [], **more}
        (one,) = await found(
            server_checks.readiness, Told({(A, RequestCode.INSPECT): told}), brokers=[PLACE], reached={A: {}}
        )
        assert one.state == state
        assert f"served by the {kernel} kernel" in one.text
        assert ("make native" in one.cure) == (state == "warning")
        assert ("PYROMQ_KERNEL" in one.text) == bool(more)
    apache = Told({(A, RequestCode.INSPECT): ResponseCode.REQUEST_CODE_NOT_SUPPORTED})
    (one,) = await found(server_checks.readiness, apache, brokers=[PLACE], reached={A: {"brokerVersionDesc": "V5_5_0"}})
    assert "is Apache's, version V5_5_0" in one.text


async def test_records_that_were_put_aside_and_loops_that_died_are_told() -> None:
    told = {"kernel": "native", "ready": True, "troubles": [], "quarantined": 2, "loopFaults": {"timers": "1 times"}}
    _, aside, loops = await found(
        server_checks.readiness, Told({(A, RequestCode.INSPECT): told}), brokers=[PLACE], reached={A: {}}
    )
    assert (aside.state, aside.check) == ("warning", "quarantine")
    assert "2 records" in aside.text
    assert "pyromq store quarantine" in aside.cure
    assert (loops.state, loops.check) == ("warning", "loops")
    assert "timers" in loops.text


@pytest.mark.parametrize(("refused", "words"), [(False, "stored, as Java's broker does"), (True, "refused")])
async def test_messages_of_a_wrong_type_are_told(refused: bool, words: str) -> None:
    line = {"topic": "orders", "takes": "NORMAL", "given": "FIFO", "messages": 7, "refused": refused}
    told = {"kernel": "native", "ready": True, "troubles": [], "mistyped": [line]}
    _, one = await found(
        server_checks.readiness, Told({(A, RequestCode.INSPECT): told}), brokers=[PLACE], reached={A: {}}
    )
    assert (one.state, one.check) == ("warning", "message type")
    assert f"broker-a got 7 FIFO messages within a day for orders of type NORMAL: {words}" in one.text
    assert one.command == "pyromq topic create orders-fifo --type FIFO"


async def test_a_topic_is_compared_within_its_cluster() -> None:
    other = "10.0.0.4:10911"
    places = [PLACE, BrokerPlace("C", "broker-b", 0, B), BrokerPlace("D", "broker-d", 0, other)]

    async def told(**having: set[str]) -> list[tuple[str, str]]:
        answers: dict[tuple[str, int], Any] = {(NAMES, RequestCode.GET_ROUTEINFO_BY_TOPIC): TopicRouteData()}
        for place in places:
            table = {name: TopicConfig(topic_name=name) for name in having[place.name[-1]]}
            answers[place.address, RequestCode.GET_ALL_TOPIC_CONFIG] = TopicConfigAndMappingSerializeWrapper(
                topic_config_table=table
            )
        reached: dict[str, dict[str, str]] = {place.address: {} for place in places}
        return [
            (one.state, one.text)
            for one in await found(topic_checks.routes, Told(answers), brokers=places, reached=reached)
        ]

    assert await told(a={"orders"}, b={"orders"}, d={"bills"}) == [
        ("good", "2 topics have routes, on all brokers of their clusters")
    ]
    assert await told(a={"orders"}, b=set(), d={"orders"}) == [
        ("warning", "orders is on 1 of 2 brokers of C (broker-a)")
    ]


def group_answers(consumed: float, delay_ms: int, wants: tuple[str, ...]) -> dict[tuple[str, int], Any]:
    queue = MessageQueue(broker_name="broker-a", queue_id=2, topic="orders")
    progress = ConsumeStats(
        consume_tps=consumed, offset_table=ByQueue({queue: OffsetWrapper(broker_offset=9, consumer_offset=4)})
    )
    members = [ClientConnection(client_id=f"c{number}", client_addr="10.0.0.1:1") for number in range(len(wants))]
    answers: dict[tuple[str, int], Any] = {
        (A, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG): SubscriptionGroupWrapper(
            subscription_group_table={"billing": SubscriptionGroupConfig(group_name="billing")}
        ),
        (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): ConsumerConnection(connection_set=members)
        if members
        else ResponseCode.CONSUMER_NOT_ONLINE,
        (A, RequestCode.GET_CONSUME_STATS): progress,
        (A, RequestCode.GET_TOPIC_STATS_INFO): ResponseCode.TOPIC_NOT_EXIST,  # it has no retry topic
        (A, RequestCode.QUERY_CONSUME_TIME_SPAN): QueryConsumeTimeSpanBody(
            consume_time_span_set=[QueueTimeSpan(message_queue=queue, delay_time=delay_ms)]
        ),
    }
    return answers


async def test_stuck_offsets_and_groups_that_nobody_serves() -> None:
    hour = 3_600_000
    for consumed, delay, members, expected in (
        (0.0, hour, ("*",), "stuck"),
        (0.0, hour, (), "lag"),
        (5.0, hour, ("*",), "groups"),
        (0.0, 1000, ("*",), "groups"),
    ):
        calls = Told(group_answers(consumed, delay, members))
        inspected: dict[str, Any] = {A: {"conflicts": []}}
        (one,) = await found(topic_checks.consumers, calls, brokers=[PLACE], reached={A: {}}, inspected=inspected)
        assert one.check == expected
        if expected == "stuck":
            assert one.command == "pyromq group skip billing orders -b broker-a --queue 2 --messages 1 --dry-run"
            assert "shall never see that message" in one.cure


async def test_members_that_want_different_things() -> None:
    conflict = Conflict("billing", "c0", "10.0.0.1:1", "orders: a", "c1", "10.0.0.2:1", "orders: b")
    calls = Told(group_answers(5.0, 0, ("a", "b")))
    inspected: dict[str, Any] = {A: {"conflicts": [str(conflict)], "refusedConsumers": [str(conflict)]}}
    both = await found(topic_checks.consumers, calls, brokers=[PLACE], reached={A: {}}, inspected=inspected)
    assert [(one.check, one.state) for one in both[:2]] == [("subscriptions", "broken"), ("subscriptions", "warning")]
    for one in both[:2]:
        assert "c0 (10.0.0.1:1) subscribes to orders: a; c1 (10.0.0.2:1), which was there first, to" in one.text
        assert "pyromq group clients billing" in one.cure


async def test_members_of_apaches_broker_are_asked_what_they_want() -> None:
    class Asked(Told):
        async def ask(
            self, address: str, row: AnyRow, header: Header | None = None, *rest: Any, **how: Any
        ) -> Answer[Any, Any]:
            if row == RequestCode.GET_CONSUMER_RUNNING_INFO and header is not None:
                tag = {"c0": "a", "c1": "b"}[header.to_fields()["clientId"]]
                wanted = [SubscriptionData(topic="orders", sub_string=tag)]
                body = encode_body(ConsumerRunningInfo(subscription_set=wanted))
                return Answer(row, Command(code=0, body=body), address)
            return await super().ask(address, row, header, *rest, **how)

    calls = Asked(group_answers(5.0, 0, ("a", "b")))
    (one, *_) = await found(topic_checks.consumers, calls, brokers=[PLACE], reached={A: {}})
    assert (one.check, one.state) == ("subscriptions", "broken")
    assert "group billing: c0 (10.0.0.1:1) subscribes to orders: a; c1 (10.0.0.1:1) subscribes to orders: b" in one.text


# --- groups that are set to pop ---------------------------------------------------------------------------------------


def mode_answers(mode: str, queues: ByQueue[ProcessQueueInfo]) -> dict[tuple[str, int], Any]:
    one = SetMessageRequestModeRequestBody(consumer_group="billing", topic="orders", mode=MessageRequestMode[mode])
    online = ConsumerConnection(connection_set=[ClientConnection(client_id="c0", client_addr="10.0.0.1:1")])
    return {
        (A, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE): MessageRequestModeSerializeWrapper(
            message_request_mode_map={"orders": {"billing": one}}
        ),
        (A, RequestCode.GET_CONSUMER_CONNECTION_LIST): online,
        (A, RequestCode.GET_CONSUMER_RUNNING_INFO): ConsumerRunningInfo(mq_table=queues),
    }


def pulls_from(topic: str) -> ByQueue[ProcessQueueInfo]:
    return ByQueue({MessageQueue(broker_name="broker-a", queue_id=0, topic=topic): ProcessQueueInfo()})


async def of_modes(answers: dict[tuple[str, int], Any], **only: str) -> list[CheckResult]:
    return await found(mode_checks.request_modes, Told(answers), brokers=[PLACE], reached={A: {}}, **only)


async def test_a_member_that_pulls_what_its_group_pops_is_named() -> None:
    (one,) = await of_modes(mode_answers("POP", pulls_from("orders")))
    assert (one.check, one.state, one.command) == ("modes", "warning", "pyromq group mode billing orders pull")
    assert "1 member of it pulls" in one.text
    assert "(c0)" in one.text
    assert "setClientRebalance(false)" in one.cure


async def test_groups_whose_members_pop_or_that_pull_are_well() -> None:
    (one,) = await of_modes(mode_answers("POP", pulls_from("%RETRY%billing")))
    assert (one.state, one.text) == ("good", "1 group set to pop: no member pulls")
    assert await of_modes(mode_answers("PULL", pulls_from("orders"))) == []
    assert await of_modes(mode_answers("POP", pulls_from("orders")), group="other") == []


async def test_brokers_without_modes_and_members_that_tell_nothing_are_no_finding() -> None:
    silent = mode_answers("POP", pulls_from("orders"))
    silent[A, RequestCode.GET_CONSUMER_RUNNING_INFO] = TimedOut("it does not answer", address=A)
    assert [one.state for one in await of_modes(silent)] == ["good"]
    assert await of_modes({(A, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE): ResponseCode.SYSTEM_ERROR}) == []


async def test_a_group_that_pops_a_fifo_topic_out_of_order_is_named() -> None:
    topics = {"steps": TopicConfig(topic_name="steps", attributes={"message.type": "FIFO"})}
    for is_orderly, popped, expected in (
        (False, ["steps", "orders"], ["warning"]),
        (True, ["steps"], ["good"]),
        (False, ["orders"], ["good"]),
        (False, None, ["good"]),
    ):
        config = SubscriptionGroupConfig(group_name="billing", consume_message_orderly=is_orderly)
        answers: dict[tuple[str, int], Any] = {
            (A, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG): SubscriptionGroupWrapper(
                subscription_group_table={"billing": config}
            ),
            (A, RequestCode.GET_CONSUME_STATS): ConsumeStats(popped=popped),
        }
        how: dict[str, Any] = {"brokers": [PLACE], "reached": {A: {}}, "configs": {"broker-a": topics}}
        results = await found(order_checks.fifo_groups, Told(answers), **how)
        assert [one.state for one in results] == expected
        if expected == ["warning"]:
            assert "billing pops steps, a FIFO topic, and is not orderly" in results[0].text
            assert results[0].command == "pyromq group update billing --orderly --dry-run"
