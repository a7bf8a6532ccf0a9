"""A server that stands in for Apache's where ours lacks a capability: it answers with what was recorded or is given."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyromq.ambient import SystemClock
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Dispatcher, Handler, Reply, Request
from pyromq.transport.server import Server

from .golden import GOLDEN

Asked = list[tuple[int, dict[str, str], str]]
Answers = Mapping[Any, Reply]  # by request code


def recorded_answers(*codes: int) -> dict[tuple[int, str, str], Reply]:
    """Answers of Java's broker by request code, fields and body. Where the same was asked twice, the good one."""
    pairs: dict[str, dict[str, dict[str, Any]]] = {}
    for line in (GOLDEN / "frames" / "index.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame["requestCode"] in codes and frame["peer"] == "broker" and frame["serialize"] == "JSON":
            pairs.setdefault(frame["pair"], {})[frame["dir"]] = frame
    found: dict[tuple[int, str, str], Reply] = {}
    for pair in pairs.values():
        if "request" not in pair or "response" not in pair:
            continue
        asked, answered = pair["request"], pair["response"]
        key = (asked["code"], _fields(asked["header"].get("extFields")), _body(asked.get("body_text")))
        if key not in found or answered["code"] == 0:
            body = (answered.get("body_text") or "").encode()
            fields = answered["header"].get("extFields") or {}
            found[key] = Reply(answered["code"], remark=answered.get("remark"), fields=fields, body=body)
    return found


def _fields(fields: Mapping[str, str] | None) -> str:
    return json.dumps(fields or {}, sort_keys=True)


def _body(text: str | None) -> str:
    return json.dumps(json.loads(text), sort_keys=True) if text else ""


class StandIn:
    """Name server, broker and controller in one. `asked` is what came, in order."""

    def __init__(self, answers: Answers | None = None, *recorded: int) -> None:
        self.asked: Asked = []
        self.address = ""
        self.others: dict[str, str] = {}  # further brokers of its cluster, by name
        self._answers = answers or {}
        self._recorded = recorded_answers(*recorded) if recorded else {}

    def handlers(self) -> dict[int, Handler]:
        found: dict[int, Handler] = {
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
        }
        return found | dict.fromkeys({code for code, *_ in self._recorded} | self._answers.keys(), self._answer)

    def _answer(self, request: Request) -> Reply:
        text = request.raw_body.decode()
        command = request.command
        self.asked.append((command.code, dict(command.fields), text))
        if command.code in self._answers:
            return self._answers[command.code]
        return self._recorded[(command.code, _fields(command.fields), _body(text))]

    def _brokers(self) -> dict[str, BrokerData]:
        addresses = {"broker-a": self.address} | self.others
        return {
            name: BrokerData(broker_name=name, cluster="DefaultCluster", broker_addrs={0: address})
            for name, address in addresses.items()
        }

    def _cluster(self, request: Request) -> Reply:
        brokers = self._brokers()
        clusters = {"DefaultCluster": list(brokers)}
        return Reply(body=encode_body(ClusterInfo(broker_addr_table=brokers, cluster_addr_table=clusters)))

    def _route(self, request: Request) -> Reply:
        queues = [QueueData(broker_name="broker-a", perm=6, read_queue_nums=1, write_queue_nums=1)]
        return Reply(body=encode_body(TopicRouteData(broker_datas=[*self._brokers().values()], queue_datas=queues)))


@contextmanager
def standing_in(stand_in: StandIn) -> Iterator[StandIn]:
    """It listens while the block runs, on a loop in a thread of its own."""
    started, stopped = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = Server(Dispatcher(stand_in.handlers()), clock=SystemClock())
        stand_in.address = await server.start("127.0.0.1", 0)
        started.set()
        await stopped.wait()
        await server.stop(0)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(120)
    try:
        yield stand_in
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(120)
        loop.close()
