"""Plain sends as bytes over one connection, so that they pass whichever kernel serves, and changes among them.

The words of a script's `wire` line, in their order:

KEY                 a send
KEY!                a send without an id of its own, which a native kernel leaves to Python
perm=N              what came so far is written and dealt with; then an administrator changes the topic's permission
brokerPermission=N  the same of the broker
|                   what came so far is written with the first half of the next send; changes in between come then
"""

from __future__ import annotations

from typing import Any

from pyromq.protocol.requests import RequestCode
from tests.broker.virtual import Virtual
from tests.kernel.test_native_send import send
from tests.transport.support import raw_peer

PEER = "127.0.0.1:50001"


class Wire:
    """One connection to one life of a broker."""

    def __init__(self, life: Virtual, topic: str) -> None:
        self._life = life
        self._topic = topic
        self._peer = raw_peer(life.broker.servers[0], PEER)
        self._keys: list[str] = []
        self._buffer = b""
        self._is_cut = False
        self._changes: list[str] = []  # that wait for the half of a send
        self._before = self._taken()

    async def take(self, word: str) -> None:
        if word == "|":
            self._is_cut = True
        elif "=" not in word:
            await self._send(word)
        elif self._is_cut:
            self._changes.append(word)
        else:
            await self._write()
            await self._change(word)

    async def end(self) -> None:
        """Until everything is answered."""
        await self._write()
        await self._peer.answers(len(self._keys))

    def refused(self) -> list[str]:
        codes = {answer.opaque: answer.code for answer in self._peer.received}
        return [key for number, key in enumerate(self._keys) if codes[number]]

    @property
    def by_kernel(self) -> int | None:
        """Messages that a native kernel took; None where none serves."""
        return self._taken() - self._before if self._life.broker.verdicts else None

    def _taken(self) -> int:
        return sum(one.kernel.messages for one in self._life.broker.verdicts)

    async def _send(self, word: str) -> None:
        key = word.removesuffix("!")
        own_id = "" if word.endswith("!") else f"UNIQ_KEY\x01id-{key}\x02"
        pairs = f"{own_id}KEYS\x01{key}\x02"
        frame = send(len(self._keys), topic=self._topic, body=key.encode(), properties=pairs)
        self._keys.append(key)
        if self._is_cut:
            half = len(frame) // 2
            self._buffer += frame[:half]
            await self._write()
            for change in self._changes:
                await self._change(change)
            frame, self._is_cut, self._changes = frame[half:], False, []
        self._buffer += frame

    async def _write(self) -> None:
        self._peer.write(self._buffer)
        self._buffer = b""
        await self._life.clock.settle()

    async def _change(self, word: str) -> None:
        name, _, value = word.partition("=")
        if name == "perm":
            fields: dict[str, Any] = {"topic": self._topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG"}
            fields |= {"readQueueNums": 4, "writeQueueNums": 4, "perm": value}
            answer = await self._life.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)
        else:
            answer = await self._life.call(RequestCode.UPDATE_BROKER_CONFIG, word.encode())
        assert answer.code == 0, f"{word}: {answer.remark}"
