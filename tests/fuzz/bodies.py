"""Bodies of fuzzed frames: messages, batches, JSON of the right type, settings; then changed by their structure."""

from __future__ import annotations

import copy
import json
import random
import zlib
from typing import Any

from pyromq.model.message import SysFlag
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from pyromq.protocol.requests import RequestCode
from pyromq.protocol.row import Plain
from tests.fuzz import values
from tests.fuzz.shapes import as_struct, content_of, is_json, tree
from tests.fuzz.values import World

SIZES = (0, 1, 20, 20, 200, 200, 1000, 3000, 9000)
DEEP = ("[" * 3000, '{"a":' * 3000, "[" * 300 + "]" * 300, '{"a":' * 70 + "1" + "}" * 70, "," * 20_000, "{{}:{}}")


LARGE = (
    b"," * 3_900_000,
    b"[" * 1_000_000,
    b'{"a":[' + b"1," * 900_000 + b"1]}",
    bytes((4 << 20) + 1),
    b'{"clientID":"c","producerDataSet":[' + b",".join(b'{"groupName":"g%d"}' % n for n in range(60_000)) + b"]}",
)


def body_of(rng: random.Random, world: World, code: int, fields: dict[str, str]) -> bytes:
    """What an honest client could send with these fields."""
    kind = content_of(code).body
    if kind is Plain.MESSAGE:
        return _message(rng, world, code, fields)
    if kind is Plain.PROPERTIES:
        return "\n".join(f"{rng.choice(values.GROUPS)}={rng.choice(('1024', '1'))}" for _ in range(3)).encode()
    if kind is Plain.TEXT:
        return rng.choice(values.GROUPS).encode()
    if code == RequestCode.REGISTER_BROKER and rng.random() < 0.4:
        made = as_struct(RegisterBrokerBody, tree(rng, world, RegisterBrokerBody))
        return b"" if made is None else encode_registration(made, compressed=True)
    if is_json(kind):
        return as_json(rng, tree(rng, world, kind))
    return rng.randbytes(rng.choice((0, 100))) if kind is not None else b""


def _message(rng: random.Random, world: World, code: int, fields: dict[str, str]) -> bytes:
    if code == RequestCode.SEND_BATCH_MESSAGE or "true" in (fields.get("batch"), fields.get("m")):
        return encode_batch(
            BatchEntry(rng.randbytes(rng.choice(SIZES)), 0, _small(values.properties(rng, world)))
            for _ in range(rng.choice((1, 2, 3, 20)))
        )
    plain = rng.randbytes(100_000 if rng.random() < 0.004 else rng.choice(SIZES))
    flag = fields.get("sysFlag", fields.get("f", "0"))
    if flag.isdecimal() and len(flag) < 6 and int(flag) & SysFlag.COMPRESSED and rng.random() < 0.7:
        return zlib.compress(plain)
    return plain


def _small(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:32767]


def as_json(rng: random.Random, value: Any) -> bytes:
    """Lone surrogates as escapes, or as the three bytes that no UTF-8 decoder takes."""
    ascii_only = rng.random() < 0.5
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode("utf-8", "surrogatepass")


def changed_body(rng: random.Random, world: World, code: int, body: bytes) -> bytes:
    """The body with one thing wrong with it."""
    aim = rng.random()
    if aim < 0.002:
        return rng.choice(LARGE)
    if aim < 0.55 and is_json(content_of(code).body):
        return _changed_json(rng, world, code, body)
    if aim < 0.62:
        return rng.choice(DEEP).encode()
    if aim < 0.70:
        return values.hostile(rng, world).encode("utf-8", "surrogatepass")
    if aim < 0.78:
        return zlib.compress(body)[: rng.choice((-1, 5, 100_000))]
    if aim < 0.82:
        return zlib.compress(bytes(3 << 20))  # a small bomb
    if aim < 0.88:
        return body[: rng.randrange(len(body) + 1)]
    return b"" if aim < 0.92 else body + rng.randbytes(rng.choice((1, 4, 400)))


def _changed_json(rng: random.Random, world: World, code: int, body: bytes) -> bytes:
    """A tree of the type with a part replaced, dropped, repeated or put elsewhere."""
    made = copy.deepcopy(tree(rng, world, content_of(code).body))
    for _ in range(rng.choice((1, 1, 2, 4))):
        made = _changed_tree(rng, world, made)
    text = as_json(rng, made)
    if rng.random() < 0.1:  # the same member twice, with another value
        at = text.find(b"{") + 1
        end = text.find(b":", at)
        text = text[:at] + text[at:end] + b":7," + text[at:] if end > 0 else text
    return text


def _changed_tree(rng: random.Random, world: World, root: Any) -> Any:
    parent, key = _some_place(rng, root)
    if parent is None:
        return _odd(rng, world)
    aim = rng.random()
    if aim < 0.6:
        parent[key] = _odd(rng, world)
    elif aim < 0.75:
        del parent[key]
    elif aim < 0.85 and isinstance(parent, list):
        parent[key:key] = [parent[key]] * rng.choice((1, 3, 200))
    else:
        parent[key] = copy.deepcopy(root) if len(str(root)) < 20_000 else None
    if isinstance(parent, dict) and rng.random() < 0.3:
        parent[values.hostile(rng, world)] = _odd(rng, world)
    return root


def _some_place(rng: random.Random, root: Any) -> tuple[Any, Any]:
    """A list or dictionary somewhere in the tree and one of its keys; (None, None) is the root itself."""
    parent, key, here = None, None, root
    while isinstance(here, dict | list) and here and (parent is None or rng.random() < 0.75):
        parent = here
        key = rng.choice(list(here)) if isinstance(here, dict) else rng.randrange(len(here))
        here = here[key]
    return parent, key


def _odd(rng: random.Random, world: World) -> Any:
    aim = rng.random()
    if aim < 0.5:
        return values.hostile(rng, world)
    if aim < 0.75:
        return rng.choice((0, -1, 1 << 31, 1 << 63, -(1 << 63), 1 << 70, 1.5, 1e308, True, False, None))
    return rng.choice(([], {}, [[]], [None], {"a": {"b": [1]}}, ["x"] * 300, {"": ""}, {"k": None}))
