from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from pyromq.client.errors import BadMessage
from pyromq.client.handle.handlers import worker
from pyromq.client.received import Received
from pyromq.client.values import decode_value, encode_value
from pyromq.model.message import Property
from pyromq.protocol.bodies.keyed import MessageQueue
from tests.client.messages import stored


@dataclass
class Order:
    id: int


@dataclass
class Reading:
    degrees: float


class Struct(msgspec.Struct):
    name: str


class Model:
    """What the SDK needs to know of a pydantic model."""

    def __init__(self, name: str) -> None:
        self.name = name

    def model_dump_json(self) -> str:
        return f'{{"name":"{self.name}"}}'

    @classmethod
    def model_validate_json(cls, body: bytes) -> Model:
        return cls(msgspec.json.decode(body)["name"])


@pytest.mark.parametrize(
    ("value", "body", "kind"),
    [
        (b"raw", b"raw", bytes),
        ("Größe", "Größe".encode(), str),
        (Order(1), b'{"id":1}', Order),
        (Struct("x"), b'{"name":"x"}', Struct),
        ({"a": [1, 2]}, b'{"a":[1,2]}', dict),
        ([1.5], b"[1.5]", list[float]),
    ],
)
def test_values_go_there_and_back(value: Any, body: bytes, kind: Any) -> None:
    assert encode_value(value) == body
    assert decode_value(body, kind) == value


def test_pydantic_models_speak_for_themselves() -> None:
    assert encode_value(Model("x")) == b'{"name":"x"}'
    assert decode_value(b'{"name":"y"}', Model).name == "y"
    assert encode_value(memoryview(b"view")) == b"view"


def test_real_pydantic_models_go_there_and_back_and_their_faults_are_named() -> None:
    class Invoice(pydantic.BaseModel):
        order: int
        total: Decimal

    invoice = Invoice(order=7, total=Decimal("9.50"))
    assert decode_value(encode_value(invoice), Invoice) == invoice
    with pytest.raises(ValueError, match="order"):
        decode_value(b'{"total": 1}', Invoice)


def test_what_does_not_fit_says_so() -> None:
    with pytest.raises(BadMessage, match="a object cannot be"):
        encode_value(object())
    with pytest.raises(ValueError, match="the body is no Order"):
        decode_value(b'{"id":"x"}', Order)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("\ud800", "a str cannot be a message body: .* surrogates not allowed. Send bytes"),
        ({"a": "\ud800"}, "a dict cannot be .* surrogates not allowed"),
        (float("nan"), "a float cannot be a message body: JSON has no number nan"),
        ([{"a": (1, float("inf"))}], "JSON has no number inf"),
        (Reading(float("nan")), "a Reading cannot be a message body: JSON has no number nan"),
    ],
)
def test_what_json_and_utf8_do_not_have(value: Any, said: str) -> None:
    with pytest.raises(BadMessage, match=said):
        encode_value(value)


def test_nothing_is_a_value_too() -> None:
    assert encode_value({"a": None, "b": [1.5, "null"]}) == b'{"a":null,"b":[1.5,"null"]}'


QUEUE = MessageQueue(broker_name="a", queue_id=0, topic="T")


async def test_handlers_of_every_shape() -> None:
    received = Received(stored(7, b'{"id":3}', reconsume_times=2), QUEUE)
    got: list[Any] = []

    async def message(msg):  # type: ignore[no-untyped-def]
        got.append(msg)

    async def typed(msg: Received) -> None:
        got.append(msg)

    async def value(order: Order) -> None:
        got.append(order)

    async def both(order: Order, msg: Received, note: str = "default") -> None:
        got.append((order, msg, note))

    class Called:
        async def __call__(self, order: dict[str, int]) -> None:
            got.append(order)

    def blocking(body: bytes, msg: Received) -> None:
        got.append(body)

    for handler in (message, typed, value, both, Called(), blocking):
        handling = worker(handler)
        await handling.run([received])
        handling.close()
    assert got == [received, received, Order(3), (Order(3), received, "default"), {"id": 3}, b'{"id":3}']
    assert worker(typed).is_blocking is False


def test_a_message_that_comes_again_is_still_itself() -> None:
    properties = {Property.RETRY_TOPIC: "orders", Property.ORIGIN_MESSAGE_ID: "OLD", Property.SHARDING_KEY: "k"}
    received = Received(stored(7, topic="%RETRY%g", properties=properties, reconsume_times=2), QUEUE)
    assert (received.topic, received.id, received.attempt, received.order_key) == ("orders", "OLD", 3, "k")
    assert received.born_host == "127.0.0.1:10911"
    named = Received(stored(7, properties=properties | {Property.UNIQ_KEY: "UNIQUE"}), QUEUE)
    assert named.id == "UNIQUE"
