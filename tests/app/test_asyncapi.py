"""The AsyncAPI document of an app: topics, operations, messages and their schemas; and the command that writes it.

AsyncAPI's own JSON schema of 3.0.0 is too large to keep here. Its rules that we could break are checked one by one:
allowed and required fields, keys, and references that lead somewhere.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from click.testing import CliRunner
from google.protobuf.timestamp_pb2 import Timestamp

import pyromq
from pyromq.cli.main import cli
from pyromq.errors import ConfigError
from tests.codecs.shop import ORDER_2
from tests.codecs.shop import Order as AvroOrder

KEY = re.compile(r"[\w.-]+")
# Of each kind of object: the fields that AsyncAPI 3.0.0 requires, and the others of its fields that we use.
FIELDS = {
    "document": ({"asyncapi", "info"}, {"servers", "defaultContentType", "channels", "operations", "components"}),
    "info": ({"title", "version"}, set()),
    "servers": ({"host", "protocol"}, {"description"}),
    "channels": (set(), {"address", "messages"}),
    "operations": ({"action", "channel"}, {"messages", "summary", "reply"}),
    "messages": (set(), {"name", "contentType", "payload"}),
}


@dataclass
class Line:
    sku: str


@dataclass
class Order:
    id: int
    lines: list[Line]


class Part(pydantic.BaseModel):
    total: float


class Invoice(pydantic.BaseModel):
    order: int
    parts: list[Part] = []


class Payment(msgspec.Struct):
    amount: int


class Refund(TypedDict):
    why: str


def shop() -> pyromq.App:
    app = pyromq.App("10.0.0.1:9876;10.0.0.2:9876", name="Shop", version="2.1", namespace="eu")

    @app.subscriber("orders", "phone_orders", group="billing", filter=pyromq.tag("paid"), orderly=True)
    @app.publisher("invoices", tag="new", keys=["k"], order_key="one", delay=timedelta(minutes=1))
    async def bill(order: Order) -> Invoice | None:
        """Bill an order
        at once.

        What follows is not in the summary."""

    @app.subscriber("orders", group="watch", filter=pyromq.sql("total > 10"), broadcast=True)
    async def watch(msg: pyromq.Received) -> None: ...

    @app.subscriber("questions", group="answers", replies=True)
    def answer(refund: Refund) -> int:
        return 1

    @app.subscriber("payments", group="sums", max_batch=10)
    @app.subscriber("more_payments", group="other_sums", max_batch=10)
    async def add(payments: list[Payment]) -> None: ...

    @app.subscriber("texts", group="texts")
    @app.publisher("anything", order_key=lambda value: "k")
    async def texts(text: str): ...  # type: ignore[no-untyped-def]

    @app.subscriber("stamps", group="stamps", codec=pyromq.Protobuf())
    @app.publisher("avro", codec=pyromq.Avro({AvroOrder: ORDER_2}))
    async def stamps(stamp: Timestamp) -> AvroOrder:
        return AvroOrder(1, "ann")

    return app


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(json.dumps(shop().asyncapi()))


def referenced(part: Any) -> list[str]:
    if isinstance(part, list):
        return [ref for each in part for ref in referenced(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if "$ref" in part else []
    return own + [ref for each in part.values() for ref in referenced(each)]


def target(document: Any, ref: str) -> Any:
    found = document
    for name in ref.removeprefix("#/").split("/"):
        found = found[name]
    return found


def faults(document: Any) -> list[str]:
    """Return what AsyncAPI 3.0.0 does not allow in a document of ours."""
    kinds: list[tuple[str, Any]] = [("document", document), ("info", document["info"])]
    for name in ("servers", "channels", "operations"):
        kinds += [(name, each) for each in document[name].values()]
    kinds += [("messages", each) for each in document["components"]["messages"].values()]
    found = []
    for kind, part in kinds:
        required, others = FIELDS[kind]
        names = {name for name in part if not name.startswith("x-")}
        found += [f"{kind}: {name}" for name in sorted((required - names) | (names - required - others))]
    keyed = [document[name] for name in ("servers", "channels", "operations")]
    found += [key for each in [*keyed, *document["components"].values()] for key in each if not KEY.fullmatch(key)]
    for operation in document["operations"].values():
        carrying = [operation, *([operation["reply"]] if "reply" in operation else [])]
        for each in carrying:
            inside = f"{each['channel']['$ref']}/messages/"
            found += [ref for ref in referenced(each["messages"]) if not ref.startswith(inside)]
    for ref in referenced(document):
        try:
            target(document, ref)
        except KeyError:
            found.append(ref)
    return found


def message(document: Any, operation: str) -> Any:
    (ref,) = document["operations"][operation]["messages"]
    return target(document, target(document, ref["$ref"])["$ref"])


def test_a_document_keeps_the_rules(document: Any) -> None:
    assert faults(document) == []


def test_the_check_can_fail(document: Any) -> None:
    bad = json.loads(json.dumps(document))
    del bad["info"]["version"]
    bad["operations"]["a b"] = {"action": "send", "channel": {"$ref": "#/channels/gone"}, "messages": [], "tag": 1}
    bad["operations"]["watch.receive.orders"]["messages"][0]["$ref"] = "#/components/messages/Order"
    expected = ["info: version", "operations: tag", "a b", "#/components/messages/Order", "#/channels/gone"]
    assert sorted(faults(bad)) == sorted(expected)


def test_what_stands_at_its_head(document: Any) -> None:
    assert document["asyncapi"] == "3.0.0"
    assert document["info"] == {"title": "Shop", "version": "2.1"}
    assert document["defaultContentType"] == "application/json"
    hosts = {name: (each["host"], each["protocol"]) for name, each in document["servers"].items()}
    assert hosts == {"namesrv-1": ("10.0.0.1:9876", "rocketmq"), "namesrv-2": ("10.0.0.2:9876", "rocketmq")}


def test_topics_are_channels_with_their_names_on_the_wire(document: Any) -> None:
    addresses = {key: each["address"] for key, each in document["channels"].items()}
    topics = ["orders", "phone_orders", "invoices", "questions", "payments", "more_payments", "texts", "anything"]
    expected = {name: f"eu%{name}" for name in [*topics, "stamps", "avro"]}
    assert addresses == expected | {"answers.replies": None}
    assert set(document["channels"]["orders"]["messages"]) == {"Order", "orders.message"}


def test_functions_are_operations(document: Any) -> None:
    operations = document["operations"]
    assert sorted(operations) == sorted(
        [
            "bill.receive.orders",
            "bill.receive.phone_orders",
            "bill.send.invoices",
            "watch.receive.orders",
            "answer.receive.questions",
            "add.receive.payments",
            "add.receive.more_payments",
            "texts.receive.texts",
            "texts.send.anything",
            "stamps.receive.stamps",
            "stamps.send.avro",
        ]
    )
    assert {each["action"] for name, each in operations.items() if ".send." in name} == {"send"}
    bill = operations["bill.receive.phone_orders"]
    assert bill["summary"] == "Bill an order at once."
    assert bill["x-rocketmq"] == {
        "group": "eu%billing",
        "filter": {"type": "TAG", "expression": "paid"},
        "orderly": True,
    }
    watch = operations["watch.receive.orders"]["x-rocketmq"]
    assert watch["filter"] == {"type": "SQL92", "expression": "total > 10"}
    assert watch["broadcast"] is True
    assert operations["add.receive.payments"]["x-rocketmq"] == {"group": "eu%sums", "maxBatch": 10}
    assert operations["bill.send.invoices"]["x-rocketmq"] == {
        "tag": "new",
        "keys": ["k"],
        "orderKey": "one",
        "delaySeconds": 60,
    }
    assert operations["texts.send.anything"]["x-rocketmq"] == {"orderKey": "by a function"}


def test_replies_go_to_who_asked(document: Any) -> None:
    reply = document["operations"]["answer.receive.questions"]["reply"]
    assert reply["address"] == {"location": "$message.header#/REPLY_TO_CLIENT"}
    assert reply["channel"] == {"$ref": "#/channels/answers.replies"}
    (ref,) = reply["messages"]
    assert target(document, target(document, ref["$ref"])["$ref"])["payload"] == {"type": "integer"}


def test_messages_have_the_schemas_of_their_types(document: Any) -> None:
    schemas = document["components"]["schemas"]
    assert message(document, "bill.receive.orders")["payload"] == {"$ref": "#/components/schemas/Order"}
    assert schemas["Order"]["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line"}
    assert schemas["Order"]["required"] == ["id", "lines"]
    invoice = message(document, "bill.send.invoices")["payload"]
    assert invoice["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Part"}
    assert schemas["Part"]["properties"]["total"]["type"] == "number"
    assert message(document, "add.receive.payments")["payload"] == {"$ref": "#/components/schemas/Payment"}
    assert message(document, "answer.receive.questions")["payload"] == {"$ref": "#/components/schemas/Refund"}


def test_messages_have_the_content_types_of_their_codecs(document: Any) -> None:
    assert message(document, "bill.receive.orders")["contentType"] == "application/json"
    raw = message(document, "watch.receive.orders")
    assert raw == {"name": "orders.message", "contentType": "application/octet-stream"}
    assert message(document, "texts.receive.texts")["contentType"] == "text/plain"
    assert message(document, "texts.send.anything") == {"name": "anything.message", "contentType": "application/json"}
    stamp = message(document, "stamps.receive.stamps")
    assert stamp["contentType"] == "application/x-protobuf"
    assert stamp["x-protobuf"]["message"] == "google.protobuf.Timestamp"
    avro = message(document, "stamps.send.avro")
    assert (avro["contentType"], avro["payload"]["schema"]["name"]) == ("application/avro", "shop.Order")


def test_classes_of_the_same_name_are_kept_apart() -> None:
    app = pyromq.App()
    kinds = [make_dataclass("Order", [(name, int)]) for name in ("a", "b", "a")]
    for number, kind in enumerate(kinds):

        async def handle(order: Any) -> None: ...

        handle.__annotations__["order"] = kind
        app.subscriber("orders", group=f"g{number}")(handle)
    found: Any = app.asyncapi()
    assert faults(found) == []
    keys = ["handle.receive.orders", "handle.receive.orders-2", "handle.receive.orders-3"]
    payloads = [target(found, message(found, key)["payload"]["$ref"]) for key in keys]
    assert [list(each["properties"]) for each in payloads] == [["a"], ["b"], ["a"]]
    assert len(found["components"]["messages"]) == 2


def test_what_cannot_be_described_or_started_is_refused() -> None:
    class Strange: ...

    app = pyromq.App()

    @app.subscriber("orders", group="g")
    async def handle(strange: Any) -> None: ...

    handle.__annotations__["strange"] = Strange
    with pytest.raises(pyromq.Error, match=r"handle.*: Strange has no JSON schema"):
        app.asyncapi()
    with pytest.raises(ConfigError, match="there is no 'namspace'; did you mean namespace"):
        pyromq.App(namspace="x").asyncapi()  # type: ignore[call-arg]
    with pytest.raises(pyromq.Error, match="version is 2, and not a string"):
        pyromq.App(version=2)  # type: ignore[arg-type]


SOURCE = """
import pyromq
app = pyromq.App(name="Shop")
@app.subscriber("orders", group="billing")
async def bill(order: dict[str, int]) -> None: ...
"""


@pytest.fixture
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(opened: socket.socket, _: object) -> None:
        if opened.type == socket.SOCK_STREAM:
            raise AssertionError("something was opened")
        raise OSError("no network")  # of the probe for our own address, which sends nothing

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("PYROMQ_NAMESRV", "10.0.0.9:9876")
    (tmp_path / "described.py").write_text(SOURCE)
    return tmp_path


@pytest.mark.parametrize("file", ["-", "shop.json"])
def test_the_command_writes_it_and_opens_nothing(shop_file: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(shop_file)
    done = CliRunner().invoke(cli, ["run", "described:app", "--asyncapi", file])
    assert (done.exit_code, done.stderr) == (0, "")
    text = done.stdout if file == "-" else (shop_file / file).read_text("utf-8")
    assert text.startswith('{\n  "asyncapi": "3.0.0"')
    found = json.loads(text)
    assert faults(found) == []
    assert (found["info"]["title"], found["servers"]["namesrv"]["host"]) == ("Shop", "10.0.0.9:9876")


@pytest.mark.parametrize("other", [["--workers", "2"], ["--reload"]])
def test_the_command_runs_nothing_beside_it(shop_file: Path, other: list[str]) -> None:
    done = CliRunner().invoke(cli, ["run", "described:app", "--dir", str(shop_file), "--asyncapi", "-", *other])
    assert done.exit_code == 64
    assert "--asyncapi runs nothing: leave out --workers and --reload" in done.stderr


def test_a_file_that_cannot_be_written_is_one_line(shop_file: Path) -> None:
    file = str(shop_file / "gone" / "shop.json")
    done = CliRunner().invoke(cli, ["run", "described:app", "--dir", str(shop_file), "--asyncapi", file])
    assert done.exit_code != 0
    assert "No such file or directory" in done.stderr
    assert "Traceback" not in done.output
