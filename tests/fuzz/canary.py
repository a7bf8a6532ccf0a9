"""An honest client on a connection of its own. Whatever else arrives, its requests are answered, and correctly.

Each round: a heartbeat, a send, a pull that brings the message back byte for byte, the same message by key and by
place, an offset stored and read, the route of its topic, a value of the name server's KV table.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from pyromq.access.signatures import Signer
from pyromq.ambient import SystemClock
from pyromq.errors import CallTimedOut, ConnectionLost
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.body import decode_body, encode_body
from pyromq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.command import Command
from pyromq.protocol.properties import properties_text
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.fuzz.lines import Broken
from tests.fuzz.signers import ADMIN, MIGHTY, RIGHTS, SECRET, WORKER
from tests.wire import decode_messages

TOPIC, GROUP, NAME = "canary-topic-7f3a9c", "canary-group-7f3a9c", "127.0.0.1@canary"
ANSWER_S = 60.0
TRIES = 300
PAUSE_S = 0.1


class Canary:
    """Event loop only. `is_asked`: the daemons ask who it is; then it is their administrator."""

    def __init__(self, broker: str, namesrv: str, *, is_asked: bool = False) -> None:
        self._broker = broker
        self._namesrv = namesrv
        self._rng = random.Random(7)
        self._is_asked = is_asked
        self._client = self._connect()
        self._kept: dict[int, bytes] = {}  # by offset, all in queue 0
        self.rounds = 0
        self.slowest_s = 0.0

    def _connect(self) -> RemotingClient:
        sign = Signer(ADMIN, SECRET).sign if self._is_asked else None
        return RemotingClient(clock=SystemClock(), rng=random.Random(8), sign=sign)

    async def prepare(self) -> None:
        """Make the topic and the KV entry that the rounds use, and the users of the campaign."""
        if self._is_asked:
            await self._make_users()
        fields: dict[str, Any] = {
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        await self._ask(self._broker, RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)
        kv: dict[str, Any] = {"namespace": "canary-space", "key": "canary-key", "value": "canary-value"}
        await self._ask(self._namesrv, RequestCode.PUT_KV_CONFIG, **kv)

    async def _make_users(self) -> None:
        """Make them at the broker, which tells the name server before it answers."""
        for name, kind in ((MIGHTY, "Super"), (WORKER, "Normal")):
            user = json.dumps({"password": SECRET, "userType": kind}).encode()
            await self._ask(self._broker, RequestCode.AUTH_CREATE_USER, user, username=name)
        rows = [{"resource": each, "actions": ["Pub", "Sub", "List"], "decision": "Allow"} for each in RIGHTS]
        policy = json.dumps({"policies": [{"entries": rows}]}).encode()
        await self._ask(self._broker, RequestCode.AUTH_CREATE_ACL, policy, subject=f"User:{WORKER}")
        await self._until_found(self._namesrv, RequestCode.AUTH_GET_USER, username=WORKER)

    async def round(self) -> None:
        """Broken says what was not answered as it should."""
        await self._heartbeat()
        body = self._rng.randbytes(self._rng.choice((1, 50, 2000)))
        key = f"canary-{self.rounds}"
        offset = await self._send(body, key)
        place = await self._pull(offset, body)
        await self._find(key, place, body)
        await self._keep_offset(offset)
        await self._look_up()
        self._kept[offset] = body
        self.rounds += 1

    def moved(self, broker: str, namesrv: str) -> None:
        """The daemons were started again."""
        self._broker, self._namesrv = broker, namesrv
        self._client = self._connect()

    async def check_kept(self) -> None:
        """Everything that was ever sent is still there, except what retention took with its file of the log."""
        answer = await self._ask(self._broker, RequestCode.GET_MIN_OFFSET, topic=TOPIC, queueId="0")
        for offset, body in self._kept.items():
            if offset >= int(answer.fields["offset"]):
                await self._pull(offset, body)

    async def loop_holds(self) -> list[str]:
        """Which requests held the broker's event loop for long, by its own count. On a busy machine it is no fault."""
        answer = await self._ask(self._broker, RequestCode.INSPECT)
        holds = json.loads(bytes(answer.body)).get("loopHolds", [])
        return [f"{one['code']}: {one['times']} times, {one['longestMs']} ms" for one in holds]

    async def close(self) -> None:
        await self._client.close()

    # -- single requests ----------------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        subscription = SubscriptionData(topic=TOPIC, sub_string="*")
        data = HeartbeatData(
            client_id=NAME,
            consumer_data_set=[ConsumerData(group_name=GROUP, subscription_data_set=[subscription])],
            producer_data_set=[ProducerData(group_name=GROUP)],
        )
        await self._ask(self._broker, RequestCode.HEART_BEAT, encode_body(data))

    async def _send(self, body: bytes, key: str) -> int:
        fields: dict[str, Any] = {
            "a": GROUP,
            "b": TOPIC,
            "c": "TBW102",
            "d": "1",
            "e": "0",
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": properties_text({"KEYS": key, "UNIQ_KEY": f"CANARY{self.rounds:026d}"}),
        }
        answer = await self._ask(self._broker, RequestCode.SEND_MESSAGE_V2, body, **fields)
        return int(answer.fields["queueOffset"])

    async def _pull(self, offset: int, body: bytes) -> int:
        fields: dict[str, Any] = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": "0",
            "queueOffset": str(offset),
            "maxMsgNums": "1",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
        }
        answer = await self._until_found(self._broker, RequestCode.PULL_MESSAGE, **fields)
        message = decode_messages(answer.body)[0]
        if (message.queue_offset, message.body) != (offset, body):
            raise Broken(f"the canary sent {body[:40]!r} to {offset} and pulled {message.body[:40]!r}")
        return message.physical_offset

    async def _find(self, key: str, place: int, body: bytes) -> None:
        fields: dict[str, Any] = {
            "topic": TOPIC,
            "key": key,
            "maxNum": "1",
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 62),
        }
        by_key = await self._until_found(self._broker, RequestCode.QUERY_MESSAGE, **fields)
        by_place = await self._ask(self._broker, RequestCode.VIEW_MESSAGE_BY_ID, topic=TOPIC, offset=str(place))
        for answer in (by_key, by_place):
            if decode_messages(answer.body)[0].body != body:
                raise Broken(f"the canary's {key} at {place} is shown as {bytes(answer.body[:200])!r}")

    async def _keep_offset(self, offset: int) -> None:
        where: dict[str, Any] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
        await self._ask(self._broker, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=str(offset), **where)
        answer = await self._ask(self._broker, RequestCode.QUERY_CONSUMER_OFFSET, **where)
        if answer.fields.get("offset") != str(offset):
            raise Broken(f"the canary stored offset {offset} and reads {answer.fields}")

    async def _look_up(self) -> None:
        answer = await self._until_found(self._namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)
        brokers = {one.broker_name: one.broker_addrs for one in decode_body(TopicRouteData, answer.body).broker_datas}
        if self._broker not in dict(brokers.get("canary-broker", {})).values():
            raise Broken(f"the canary's route is {bytes(answer.body)!r}")
        kept = await self._ask(self._namesrv, RequestCode.GET_KV_CONFIG, namespace="canary-space", key="canary-key")
        if kept.fields.get("value") != "canary-value":
            raise Broken(f"the canary's KV entry is {kept.fields}")

    async def _until_found(self, address: str, code: int, **fields: str) -> Command:
        """The index and the queues follow the log a moment later, and routes a new topic."""
        answer = await self._call(address, code, b"", fields)
        for _ in range(TRIES):
            if answer.code == ResponseCode.SUCCESS:
                return answer
            await asyncio.sleep(PAUSE_S)
            answer = await self._call(address, code, b"", fields)
        raise Broken(f"the canary's request {code} {fields} is answered {answer.code}: {answer.remark}")

    async def _ask(self, address: str, code: int, body: bytes = b"", **fields: str) -> Command:
        answer = await self._call(address, code, body, fields)
        for _ in range(TRIES):
            if answer.code != ResponseCode.SYSTEM_BUSY:
                break
            await asyncio.sleep(PAUSE_S)
            answer = await self._call(address, code, body, fields)
        if answer.code == ResponseCode.SUCCESS:
            return answer
        raise Broken(f"the canary's request {code} {fields} is answered {answer.code}: {answer.remark}")

    async def _call(self, address: str, code: int, body: bytes, fields: dict[str, str]) -> Command:
        began = time.monotonic()
        try:
            return await self._client.call(address, Command(code=code, fields=fields, body=body), ANSWER_S)
        except (CallTimedOut, ConnectionLost) as fault:
            raise Broken(f"the canary's request {code} is not answered: {fault}") from None
        finally:
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
