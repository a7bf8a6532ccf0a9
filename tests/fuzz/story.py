"""What a story of `sequences.py` works with: a connection, the mint of its frames, what answers taught the world."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as C
from tests.fuzz.frames import Mint
from tests.fuzz.lines import Line

PASSED_ON = ("sysFlag", "queueId", "producerGroup", "reconsumeTimes", "maxReconsumeTimes")
ODD = 0.3  # the chance that a later frame of a story is made wrong


@dataclass
class Story:
    """What a story works with."""

    mint: Mint
    line: Line

    @property
    def rng(self) -> random.Random:
        return self.mint.rng

    async def ask(self, code: int, body: bytes | None = None, odd: float = ODD, **known: object) -> Command | None:
        return await self.line.ask(self.mint.request(code, body, odd, **known))

    def tell(self, code: int, body: bytes | None = None, odd: float = ODD, **known: object) -> None:
        self.line.send(self.mint.request(code, body, odd, **known))

    async def put(self, topic: str, **extra: object) -> Command | None:
        """A send that is accepted most of the time; the world learns where it went."""
        key = f"key-{self.rng.randrange(1000)}"
        pairs = {"KEYS": key, "UNIQ_KEY": f"{self.rng.getrandbits(128):032X}"} | {
            name: str(value) for name, value in extra.items() if name.isupper() or name.startswith("_")
        }
        text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
        known = {"topic": topic, "properties": text, "sysFlag": 0, "queueId": 0, "batch": "false"}
        known |= {name: value for name, value in extra.items() if name in PASSED_ON}
        code = self.rng.choice((C.SEND_MESSAGE, C.SEND_MESSAGE_V2))
        answer = await self.ask(code, self.rng.randbytes(self.rng.choice((1, 30, 900))), odd=0.1, **known)
        self._learn(answer, key)
        return answer

    def _learn(self, answer: Command | None, key: str) -> None:
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return
        world = self.mint.world
        world.learn_text(world.keys, key)
        if (place := place_of(answer)) is not None:
            world.learn(world.places, place)
            world.learn_text(world.ids, answer.fields["msgId"])
        if answer.fields.get("queueOffset", "").isdecimal():
            world.learn(world.offsets, int(answer.fields["queueOffset"]))
        if handle := answer.fields.get("recallHandle"):
            world.learn_text(world.handles, handle)


def place_of(answer: Command) -> int | None:
    """The place in the log: the last 16 digits of the broker's message id."""
    try:
        return int(answer.fields.get("msgId", "")[-16:], 16)
    except ValueError:
        return None
