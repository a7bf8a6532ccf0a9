"""A blocking remoting client in a few lines of struct and json, made without our own protocol code on purpose.

It plays the well-behaved client beside a broken one, and asks name servers what mqadmin does not show.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any

UPDATE_AND_CREATE_TOPIC = 17
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
PUT_KV_CONFIG = 100
GET_KV_CONFIG = 101
REGISTER_BROKER = 103
GET_ROUTE = 105
GET_CLUSTER_INFO = 106
GET_ALL_TOPICS = 206
GET_KV_LIST = 219
TOPICS_OF_CLUSTER = 224
SYSTEM_TOPICS = 304
UNIT_TOPICS = (311, 312, 313)
BROKER_MEMBERS = 901

V5_5_0 = 513

_opaques = itertools.count(1)


@dataclass
class Answer:
    code: int
    remark: str
    fields: dict[str, str]
    body: bytes


def request_frame(
    code: int, fields: dict[str, str] | None = None, body: bytes = b"", version: int = V5_5_0, language: str = "JAVA"
) -> bytes:
    header: dict[str, Any] = {"code": code, "flag": 0, "language": language, "opaque": next(_opaques)}
    header |= {"extFields": fields or {}, "version": version, "serializeTypeCurrentRPC": "JSON"}
    packed = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(packed) + len(body), len(packed)) + packed + body


def connect(address: str, source: str | None = None, timeout_s: float = 30.0, tls: bool = False) -> socket.socket:
    host, port = address.rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), timeout_s, source_address=(source, 0) if source else None)
    if not tls:
        return plain
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as Java's clients do unless told otherwise
    return context.wrap_socket(plain)


class Client:
    """One connection, one request at a time."""

    def __init__(self, address: str, *, tls: bool = False) -> None:
        self._socket = connect(address, tls=tls)
        self._stream = self._socket.makefile("rb")

    def call(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", version: int = V5_5_0) -> Answer:
        self._socket.sendall(request_frame(code, fields, body, version))
        return read_answer(self._stream)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_answer(stream: Any) -> Answer:
    head = stream.read(8)
    if len(head) < 8:
        raise ConnectionError("the server closed the connection instead of answering")
    total, word = struct.unpack(">iI", head)
    payload = stream.read(total - 4)
    header = json.loads(payload[: word & 0xFFFFFF])
    return Answer(header["code"], header.get("remark", ""), header.get("extFields", {}), payload[word & 0xFFFFFF :])


def ask(
    address: str, code: int, fields: dict[str, str] | None = None, version: int = V5_5_0, body: bytes = b""
) -> Answer:
    """One request on a connection of its own."""
    with Client(address) as client:
        return client.call(code, fields, body, version=version)


def json_with_bare_keys(body: bytes) -> Any:
    """A body in which fastjson wrote numbers as keys without quotes (`{0:"..."}`)."""
    return json.loads(re.sub(rb"([{,]\s*)(\d+):", rb'\1"\2":', body))


def register_broker(
    client: Client, name: str, topics: list[str], address: str = "127.0.0.1:10911", ha: str = "127.0.0.1:10912"
) -> Answer:
    """Register as a broker would; it stays known for as long as the connection is open."""
    table = {
        topic: {
            "topicName": topic,
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {},
        }
        for topic in topics
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    body = {"filterServerList": [], "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}}
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": "DefaultCluster", "brokerId": "0"}
    fields |= {"haServerAddr": ha, "compressed": "false", "bodyCrc32": "0"}
    return client.call(REGISTER_BROKER, fields, json.dumps(body).encode())


def create_topic(broker: str, topic: str, queues: int, attributes: str = "") -> None:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    if attributes:
        fields["attributes"] = attributes
    answer = ask(broker, UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == 0, answer


def create_group(broker: str, group: str, *, in_order: bool = False, retries: int = 16) -> None:
    config = {"groupName": group, "consumeMessageOrderly": in_order, "retryMaxTimes": retries}
    answer = ask(broker, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(config).encode())
    assert answer.code == 0, answer
