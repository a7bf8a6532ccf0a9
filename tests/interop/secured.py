"""Servers with authentication and authorization on, ours and Java's, and the users of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import wire
from .peers import ours
from .peers.java import free_broker_port
from .signing import Administrator, signed
from .waiting import eventually

ADMIN, INNER, SECRET = "admin", "inner", "a long secret"
SHOP, SHOPS = "shop", "shop's secret"
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ADMIN, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": INNER, "secretKey": SECRET}),
}
_AUTH = "org.apache.rocketmq.auth"
JAVA_SETTINGS = SETTINGS | {
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}


class Secured:
    """Our name server and broker, and a user who may send to and read `orders*` with groups `shop*`."""

    def __init__(self, stack: ExitStack, home: Path) -> None:
        self.names = ours.NameServer(home / "names", SETTINGS)
        stack.callback(self.names.kill)
        port = free_broker_port()
        self.broker = ours.Broker(home / "broker", [self.names.address], SETTINGS | {"grpcServerPort": str(port)})
        stack.callback(self.broker.kill)
        self.endpoint = f"127.0.0.1:{port}"
        self.administrator = Administrator(self.broker.address, ADMIN, SECRET)
        self.administrator.make_user(SHOP, SHOPS)
        self.administrator.allow(SHOP, Topic="orders*", Group="shop*")

    def new_topic(self, topic: str, kind: str = "NORMAL") -> str:
        """Make a topic that the name server has a route of when this returns."""
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "attributes": f"+message.type={kind}"}
        self.administrator.must(wire.UPDATE_AND_CREATE_TOPIC, fields)
        eventually(lambda: self.route(topic).code == 0, f"{topic} has a route")
        return topic

    def has_refused(self, why: str) -> bool:
        """Tell whether broker or name server have refused a request for that, by their audit logs."""
        logs = [*self.broker.home.rglob("audit-*.jsonl"), *self.names.home.rglob("audit-*.jsonl")]
        rows = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
        return any(row["kind"] == "refusal" and row["why"].startswith(why) for row in rows)

    def route(self, topic: str) -> wire.Answer:
        fields = signed({"topic": topic}, b"", ADMIN, SECRET)
        return wire.ask(self.names.address, wire.GET_ROUTE, fields)


@contextmanager
def secured(home: Path) -> Iterator[Secured]:
    with ExitStack() as stack:
        yield Secured(stack, home)
