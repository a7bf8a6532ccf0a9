"""Every RPC times every kind of caller, by grpcio against a whole broker: only what may pass passes."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from pyromq.access.directory import Directory
from pyromq.access.forms import policies_of
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.schema import RPCS
from pyromq.proxy.access import wants_of
from tests.access.matrix import DISABLED, NORMAL, ON, SECRET, SUPER, make_users
from tests.broker.running import running_broker
from tests.broker.test_grpc_port import ports

UNAUTHORIZED = v2.Code.UNAUTHORIZED
TOPIC, GROUP = v2.Resource(name="T"), v2.Resource(name="G")
QUEUE = v2.MessageQueue(topic=TOPIC, id=0)
OF_BOTH: dict[str, Any] = {"group": GROUP, "topic": TOPIC}
OF_QUEUE: dict[str, Any] = {"group": GROUP, "message_queue": QUEUE}
MESSAGE = v2.Message(topic=TOPIC, body=b"x", system_properties=v2.SystemProperties(message_id="01", message_type=1))
SUBSCRIPTION = v2.Subscription(group=GROUP, subscriptions=[v2.SubscriptionEntry(topic=TOPIC)])
PUBLISHING = v2.Settings(publishing=v2.Publishing(topics=[TOPIC]), client_type=v2.ClientType.PRODUCER)

# What each RPC is asked; one that is missing fails the test.
REQUESTS: dict[str, Any] = {
    "QueryRoute": v2.QueryRouteRequest(topic=TOPIC),
    "Heartbeat": v2.HeartbeatRequest(group=GROUP, client_type=v2.ClientType.PUSH_CONSUMER),
    "SendMessage": v2.SendMessageRequest(messages=[MESSAGE]),
    "QueryAssignment": v2.QueryAssignmentRequest(**OF_BOTH),
    "ReceiveMessage": v2.ReceiveMessageRequest(**OF_QUEUE),
    "PullMessage": v2.PullMessageRequest(**OF_QUEUE),
    "AckMessage": v2.AckMessageRequest(**OF_BOTH),
    "ForwardMessageToDeadLetterQueue": v2.ForwardMessageToDeadLetterQueueRequest(**OF_BOTH),
    "ChangeInvisibleDuration": v2.ChangeInvisibleDurationRequest(**OF_BOTH),
    "UpdateOffset": v2.UpdateOffsetRequest(**OF_QUEUE),
    "GetOffset": v2.GetOffsetRequest(**OF_QUEUE),
    "QueryOffset": v2.QueryOffsetRequest(message_queue=QUEUE),
    "EndTransaction": v2.EndTransactionRequest(topic=TOPIC),
    "RecallMessage": v2.RecallMessageRequest(topic=TOPIC),
    "NotifyClientTermination": v2.NotifyClientTerminationRequest(group=GROUP),
    "SyncLiteSubscription": v2.SyncLiteSubscriptionRequest(**OF_BOTH),
    "Telemetry": v2.TelemetryCommand(settings=PUBLISHING),
}


def credentials(name: str, secret: str = SECRET, off: timedelta = timedelta()) -> list[tuple[str, str]]:
    date = (datetime.now(UTC) + off).strftime("%Y%m%dT%H%M%SZ")
    digest = hmac.new(secret.encode(), date.encode(), "sha1").hexdigest().upper()
    header = f"MQv2-HMAC-SHA1 Credential={name}/region/service, SignedHeaders=x-mq-date-time, Signature={digest}"
    return [("authorization", header), ("x-mq-date-time", date)]


async def ask(channel: grpc.aio.Channel, name: str, metadata: list[tuple[str, str]]) -> int:
    """Return the code of the first answer; 0: the call ended without one, by another fault."""
    rpc, call = RPCS[name], channel.unary_unary
    if name in ("ReceiveMessage", "PullMessage"):
        call = channel.unary_stream
    elif name == "Telemetry":
        call = channel.stream_stream
    method = call(rpc.path, request_serializer=lambda one: one.SerializeToString())
    who = [("x-mq-client-id", "me"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.0"), *metadata]
    asked = iter([REQUESTS[name]]) if name == "Telemetry" else REQUESTS[name]
    try:
        running = method(asked, metadata=who, timeout=5)
        first = await (running.read() if hasattr(running, "read") else running)
        running.cancel()
    except grpc.aio.AioRpcError:
        return 0
    return int(getattr(v2, rpc.response).FromString(first).status.code) if isinstance(first, bytes) else 0


def allow(directory: Directory, *granted: tuple[str, str]) -> None:
    if NORMAL in directory.policies:
        directory.remove(NORMAL)
    for resource, action in granted:
        entry = PolicyEntryInfo(resource=resource, actions=[action], decision="Allow")
        directory.put(NORMAL, policies_of(AclInfo(policies=[PolicyInfo(entries=[entry])])))


@pytest.mark.parametrize("port", ["grpc", "main"])
async def test_only_who_may_calls(tmp_path: Path, port: str) -> None:
    async with running_broker(tmp_path, grpc_server_port=0, **ON) as broker:
        directory = broker.broker.base.access.table.directory
        make_users(directory)
        await check_every_call(ports(broker.broker)[port], directory)


async def check_every_call(address: str, directory: Directory) -> None:
    """Each RPC times each kind of caller. `directory`: of the server there, with the users of the matrix."""
    assert REQUESTS.keys() == RPCS.keys()
    async with grpc.aio.insecure_channel(address) as channel:
        strangers = {
            "nobody": [],
            "wrong": credentials(SUPER, "guessed"),
            "unknown": credentials("stranger"),
            "disabled": credentials(DISABLED),
            "old": credentials(SUPER, off=-timedelta(hours=1)),
            "undated": credentials(SUPER)[:1],
        }
        for name in RPCS:
            answers = {kind: await ask(channel, name, metadata) for kind, metadata in strangers.items()}
            assert answers == dict.fromkeys(strangers, UNAUTHORIZED), name
            wanted = [(f"{want.kind.value}:{want.name}", want.actions[0].value) for want in wants_of(REQUESTS[name])]
            assert wanted
            for missing in wanted:
                allow(directory, *(one for one in wanted if one != missing))
                assert await ask(channel, name, credentials(NORMAL)) == UNAUTHORIZED, (name, missing)
            allow(directory, *wanted)
            assert await ask(channel, name, credentials(NORMAL)) != UNAUTHORIZED, name
            assert await ask(channel, name, credentials(SUPER)) != UNAUTHORIZED, name


def test_each_message_of_a_send_is_judged() -> None:
    other = v2.Message(topic=v2.Resource(name="Other"), body=b"x", system_properties=MESSAGE.system_properties)
    asked = [want.name for want in wants_of(v2.SendMessageRequest(messages=[MESSAGE, other]))]
    assert asked == ["T", "Other"]
