"""Routes and assignments, as clients are shown them."""

from __future__ import annotations

from pathlib import Path

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, MessageType, Permission
from tests.proxy.calling import endpoint


def route_of(topic: str) -> v2.QueryRouteRequest:
    return v2.QueryRouteRequest(topic=v2.Resource(name=topic))


async def test_numbers_of_queues_run_on_over_permissions(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("Uneven", read_queue_nums=3, write_queue_nums=2)
        answer = await grpc.ask("QueryRoute", route_of("Uneven"))
        assert [(queue.id, queue.permission) for queue in answer.message_queues] == [
            (0, Permission.READ),
            (1, Permission.READ_WRITE),
            (2, Permission.READ_WRITE),
        ]
        assert answer.message_queues[0].broker.name == "broker-a"
        grpc.topic("Closed", perm=0)
        closed = await grpc.ask("QueryRoute", route_of("Closed"))
        assert [queue.permission for queue in closed.message_queues] == [Permission.NONE] * 2


async def test_types_follow_the_topics_attribute(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        for name, expected in {
            "": [MessageType.NORMAL],
            "FIFO": [MessageType.FIFO],
            "PRIORITY": [MessageType.PRIORITY],
            "MIXED": [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION],
            "UNSPECIFIED": [MessageType.MESSAGE_TYPE_UNSPECIFIED],
        }.items():
            grpc.topic("T", name)
            answer = await grpc.ask("QueryRoute", route_of("T"))
            assert list(answer.message_queues[0].accept_message_types) == expected, name


async def test_names_that_cannot_be(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        for topic, code in (("", 40002), ("a b", 40002), ("x" * 128, 40002), ("SCHEDULE_TOPIC_XXXX", 40002)):
            assert (await grpc.ask("QueryRoute", route_of(topic))).status.code == code, topic
        assert (await grpc.ask("QueryRoute", route_of("broker-a"))).status.message == "cannot access system topic"
        unknown = (await grpc.ask("QueryRoute", route_of("Nowhere"))).status
        assert unknown.code == Code.TOPIC_NOT_FOUND
        assert unknown.message.startswith("CODE: 17  DESC: No topic route info in name server for the topic: Nowhere")


async def test_without_a_client_id(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        answer = await grpc.ask("QueryRoute", route_of("T"), client=" ")
        assert (answer.status.code, answer.status.message) == (40017, "client id cannot be empty")


async def test_assignments_name_brokers_and_queues_to_groups_in_order(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        grpc.group("orderly", consume_message_orderly=True)

        async def assigned(group: str, topic: str = "T") -> v2.QueryAssignmentResponse:
            request = v2.QueryAssignmentRequest(topic=v2.Resource(name=topic), group=v2.Resource(name=group))
            answer: v2.QueryAssignmentResponse = await grpc.ask("QueryAssignment", request)
            return answer

        assert [one.message_queue.id for one in (await assigned("unknown")).assignments] == [-1]
        assert [one.message_queue.id for one in (await assigned("orderly")).assignments] == [0, 1]
        grpc.topic("WriteOnly", perm=2)
        assert (await assigned("unknown", "WriteOnly")).status.message == "no readable queue"
        assert (await assigned("CID_RMQ_SYS_X")).status.code == Code.ILLEGAL_CONSUMER_GROUP
