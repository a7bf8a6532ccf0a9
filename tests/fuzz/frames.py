"""Makes frames: a plausible request of some code, changed by its structure, in either header encoding, then by bytes.

`Mint.frame()` is all that a campaign needs. What comes out depends on the random generator and on the world alone, so a
burst of a seed is the same again as long as the answers taught the world the same.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from pyromq.model.client_info import Language, Version
from pyromq.protocol.headers.send import LONG_NAMES
from pyromq.protocol.requests import ROWS, RequestCode
from tests.fuzz import values
from tests.fuzz.bodies import body_of, changed_body
from tests.fuzz.shapes import fields_of
from tests.fuzz.signers import Signers
from tests.fuzz.values import World
from tests.protocol.fuzz import _mutate
from tests.protocol.recorded import Recorded, recorded_frames

C = RequestCode
SENDS = (C.SEND_MESSAGE, C.SEND_MESSAGE_V2, C.SEND_BATCH_MESSAGE, C.SEND_REPLY_MESSAGE, C.SEND_REPLY_MESSAGE_V2)
SHORT = (C.SEND_MESSAGE_V2, C.SEND_BATCH_MESSAGE, C.SEND_REPLY_MESSAGE_V2)
PULLS = (C.PULL_MESSAGE, C.LITE_PULL_MESSAGE)
SETTINGS = (
    C.UPDATE_BROKER_CONFIG,
    C.UPDATE_NAMESRV_CONFIG,
)  # `settings_story.py` alone sends these, and puts all back
# Answered when something happens, or when a client has answered: nobody waits for these.
MAY_WAIT = frozenset(
    (
        *(
            *PULLS,
            C.SEND_REPLY_MESSAGE,
            C.SEND_REPLY_MESSAGE_V2,
            C.GET_CONSUMER_RUNNING_INFO,
            C.CONSUME_MESSAGE_DIRECTLY,
            C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        ),
        *(C.INVOKE_BROKER_TO_RESET_OFFSET, C.GET_CONSUMER_STATUS_FROM_CLIENT),
        C.END_TRANSACTION,  # an end that leaves it open is not answered, as in Java
    )
)
MARKS = ("ns", "nsd", "bname", "oway", "lo")  # optional in nearly every header: would crowd out the others
FLAGS = (1, 2, 3, 2, 3, 4, -1, 1 << 30, -(1 << 31))
CODES = (0, -1, 1, 9, 999, 32767, 32768, 65535, 3442, -32768, 200050, 1 << 30, -(1 << 31), (1 << 31) - 1)
ENCODINGS = (0, 0, 0, 1, 1, 1, 2, 255)


class Made(NamedTuple):
    """A frame as bytes.

    `owed`: the opaque under which an answer must come. `ends`: the stream is out of step behind it.
    """

    wire: bytes
    code: int
    owed: int | None = None
    ends: bool = False


class Mint:
    """Frames for a daemon that serves `served`; the others of RocketMQ's codes come along now and then.

    `signers`: who sends them, to one that asks."""

    def __init__(self, rng: random.Random, world: World, served: Sequence[int], signers: Signers | None = None) -> None:
        self.rng = rng
        self._signers = signers
        self.world = world
        self._served = [code for code in served if code not in SETTINGS]
        self._busy = [code for code in (*SENDS, *SENDS, *PULLS, C.HEART_BEAT) if code in served] or self._served
        self._others = [code for code in ROWS if code not in SETTINGS]
        self._opaque = 0

    def frame(self) -> Made:
        aim = self.rng.random()
        if aim < 0.25:
            return self.request(self.rng.choice(self._busy))
        return self.request(self.rng.choice(self._served if aim < 0.93 else self._others))

    def request(self, code: int, body: bytes | None = None, odd: float = 0.75, **known: object) -> Made:
        """A frame of this code. `known` fields are set; `odd` is the chance that something is made wrong."""
        rng = self.rng
        fields = self._fields(code) | {name: str(value) for name, value in known.items()}
        draft = _Draft(code, fields, body_of(rng, self.world, code, fields) if body is None else body)
        if rng.random() < odd:
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                self._change(draft)
        if code in SHORT and rng.random() < 0.9:
            draft.fields = {LONG_NAMES.get(name, name): value for name, value in draft.fields.items()}
        self._opaque = self._opaque + 1 & 0x3FFFFFFF
        if self._signers is not None:
            told_code = draft.code if draft.told_code is None else draft.told_code
            self._signers.sign(told_code, draft.fields, draft.typed, draft.body, must_pass=not odd)
        return self._wire(draft, odd)

    def _fields(self, code: int) -> dict[str, str]:
        rng = self.rng
        return {
            one.name: values.plausible(rng, self.world, one.name, one.kind)
            for one in fields_of(code)
            if one.required or rng.random() < (0.05 if one.name in MARKS else 0.4)
        }

    # -- by structure -------------------------------------------------------------------------------------------------

    def _change(self, draft: _Draft) -> None:
        rng, fields = self.rng, draft.fields
        aim = rng.random()
        name = rng.choice(list(fields)) if fields else "topic"
        if aim < 0.45:
            fields[name] = values.hostile(rng, self.world)
        elif aim < 0.52:
            fields.pop(name, None)
        elif aim < 0.58:
            fields[values.hostile(rng, self.world)] = values.hostile(rng, self.world)
        elif aim < 0.62:
            other = rng.choice(fields_of(rng.choice(self._others)) or fields_of(C.SEND_MESSAGE))
            fields[other.name] = values.hostile(rng, self.world)
        elif aim < 0.66:
            draft.twice = (name, values.hostile(rng, self.world))
        elif aim < 0.70:
            draft.typed[name] = rng.choice((0, -1, 1 << 40, 1.5, True, None, [], {"a": 1}, ["x"]))
        elif aim < 0.88:
            draft.body = changed_body(rng, self.world, draft.code, draft.body)
        elif aim < 0.91:
            draft.flag = rng.choice(FLAGS)
        elif aim < 0.93:
            draft.told_code = rng.choice(CODES)
        elif aim < 0.95:
            draft.opaque = rng.choice((0, -1, (1 << 31) - 1, -(1 << 31), 1 << 40))
        else:
            self._change_envelope(draft)

    def _change_envelope(self, draft: _Draft) -> None:
        rng = self.rng
        draft.language = rng.choice(("JAVA", "CPP", "", "nonsense", "😀", "12", "-1"))
        draft.version = rng.choice((0, -1, 1, 399, 1 << 15, 1 << 31))
        draft.remark = rng.choice((None, values.hostile(rng, self.world)))
        for number in range(rng.choice((0, 0, 40, 1100))):
            draft.fields[f"x{number}"] = "y"

    # -- as bytes -----------------------------------------------------------------------------------------------------

    def _wire(self, draft: _Draft, odd: float) -> Made:
        rng = self.rng
        opaque = self._opaque if draft.opaque is None else draft.opaque
        code = draft.code if draft.told_code is None else draft.told_code
        binary = rng.random() < 0.4 and -32768 <= code <= 32767
        header = (_binary if binary else _json)(draft, code, opaque)
        whole = draft.opaque is None and draft.told_code is None and draft.flag == 0 and draft.code not in MAY_WAIT
        aim = rng.random() / odd if odd else 1.0
        if aim < 0.04:  # bytes of the header or the body, with length words that fit
            header = bytes(_mutate(rng, header, corpus())) if aim < 0.02 else header
            draft.body = draft.body if aim < 0.02 else bytes(_mutate(rng, draft.body, corpus()))
            whole = False
        wire = _framed(binary, header, draft.body)
        if 0.04 <= aim < 0.055:
            return self._out_of_step(wire, len(header), draft.code)
        return Made(wire, draft.code, opaque if whole else None)

    def _out_of_step(self, wire: bytes, header_length: int, code: int) -> Made:
        rng = self.rng
        aim = rng.random()
        if aim < 0.4:
            words = (
                rng.choice((0, 3, 4, -1, len(wire), 1 << 24, (1 << 31) - 1)),
                rng.choice((0, header_length, 1 << 23)),
            )
            wire = struct.pack(">iI", words[0], rng.choice(ENCODINGS) << 24 | words[1] & 0xFFFFFF) + wire[8:]
        elif aim < 0.7:
            wire = wire[: rng.randrange(len(wire))]
        else:
            wire = bytes(_mutate(rng, wire, corpus()))
        return Made(wire, code, ends=True)


class _Draft:
    """A request before it is bytes."""

    def __init__(self, code: int, fields: dict[str, str], body: bytes) -> None:
        self.code = code
        self.fields = fields
        self.body = body
        self.typed: dict[str, Any] = {}  # of JSON headers: values that are no texts
        self.twice: tuple[str, str] | None = None
        self.flag = 0
        self.told_code: int | None = None
        self.opaque: int | None = None
        self.language = "JAVA"
        self.version: int = Version.CURRENT
        self.remark: str | None = None


@cache
def corpus() -> list[Recorded]:
    """Frames recorded from Java, for splices; none that changes settings."""
    return [one for one in recorded_frames() if one.code not in SETTINGS]


_compact = json.JSONEncoder(separators=(",", ":")).encode  # as Java writes it: the kernel reads no other form itself


def _json(draft: _Draft, code: int, opaque: int) -> bytes:
    head = {"code": code, "flag": draft.flag, "language": draft.language, "opaque": opaque, "version": draft.version}
    if draft.remark is not None:
        head["remark"] = draft.remark
    fields = _compact(draft.fields | draft.typed)
    if draft.twice is not None:
        again = f"{json.dumps(draft.twice[0])}:{json.dumps(draft.twice[1])}"
        fields = f"{fields[:-1]},{again}}}" if len(fields) > 2 else f"{{{again}}}"
    return f'{_compact(head)[:-1]},"extFields":{fields},"serializeTypeCurrentRPC":"JSON"}}'.encode()


def _binary(draft: _Draft, code: int, opaque: int) -> bytes:
    pairs = [*draft.fields.items(), *([draft.twice] if draft.twice else [])]
    block = b"".join(_pair(name, value) for name, value in pairs)
    remark = _text(draft.remark or "")
    language = Language.JAVA if draft.language == "JAVA" else len(draft.language) * 50 & 0xFF
    fixed = struct.pack(
        ">hBhiii",
        code,
        language,
        draft.version & 0x7FFF,
        (opaque + (1 << 31)) % (1 << 32) - (1 << 31),
        draft.flag,
        len(remark),
    )
    return fixed + remark + struct.pack(">i", len(block)) + block


def _pair(name: str, value: str) -> bytes:
    key, data = _text(name)[:0x7FFF], _text(value)
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(data)) + data


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _framed(binary: bool, header: bytes, body: bytes) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), binary << 24 | len(header) & 0xFFFFFF) + header + body
