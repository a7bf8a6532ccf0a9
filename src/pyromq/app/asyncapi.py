"""The AsyncAPI 3.0 document of an `App`: topics are channels, subscribers receive, publishers send.

Made by `App.asyncapi` of what the decorators declared; nothing is opened. What RocketMQ has and AsyncAPI has no field
for (groups, filters, tags) is in `x-rocketmq`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec

from ..client.arguments import seconds
from ..client.config import ClientConfig, with_namespace
from ..client.errors import Error
from ..client.handle.handlers import Handler, returned_types
from ..client.values import Codec, DescribingCodec, Json
from ..model.message import Property
from .declared import Publication, Subscription

VERSION = "3.0.0"
_SCHEMAS = "#/components/schemas/"
_RAW = "application/octet-stream"

Part = dict[str, Any]


class AsyncApi(TypedDict):
    """The document; `json.dumps` makes the file of it."""

    asyncapi: str
    info: dict[str, str]
    defaultContentType: str
    servers: dict[str, Part]
    channels: dict[str, Part]
    operations: dict[str, Part]
    components: dict[str, dict[str, Part]]


@dataclass(slots=True, eq=False)
class Document:
    """The parts of a document, to which subscriptions are added one by one. `codec_of`: by options of a function."""

    config: ClientConfig
    codec_of: Callable[[Mapping[str, Any]], Codec]
    channels: dict[str, Part] = field(default_factory=dict)
    operations: dict[str, Part] = field(default_factory=dict)
    messages: dict[str, Part] = field(default_factory=dict)
    schemas: dict[str, Part] = field(default_factory=dict)

    def add(self, subscription: Subscription, publications: Sequence[Publication]) -> None:
        """Add what a function receives, replies and sends. Error for a type without a JSON schema."""
        function, codec = subscription.function, self.codec_of(subscription.options)
        returned = returned_types(function)
        about: Part = {"summary": text} if (text := _summary(function)) else {}
        about["x-rocketmq"] = _consuming(subscription, self._on_wire(subscription.group))
        if subscription.replies:
            about["reply"] = self._reply(subscription.group, returned, codec, function)
        for topic in subscription.topics:
            self._operation("receive", topic, [subscription.value_type], codec, function).update(about)
        for each in publications:
            operation = self._operation("send", each.topic, returned, self.codec_of(each.arguments), function)
            operation |= {"x-rocketmq": sending} if (sending := _sending(each)) else {}

    def made(self, name: str, version: str) -> AsyncApi:
        addresses = self.config.name_servers
        names = ["namesrv"] if len(addresses) == 1 else [f"namesrv-{at}" for at in range(1, len(addresses) + 1)]
        about = {"protocol": "rocketmq", "description": "A name server, which knows the brokers of each topic."}
        return {
            "asyncapi": VERSION,
            "info": {"title": name, "version": version},
            "defaultContentType": self.config.codec.content_type,
            "servers": {key: {"host": address, **about} for key, address in zip(names, addresses, strict=True)},
            "channels": self.channels,
            "operations": self.operations,
            "components": {"messages": self.messages, "schemas": self.schemas},
        }

    def _on_wire(self, name: str) -> str:
        return with_namespace(self.config.namespace, name)

    def _operation(self, action: str, topic: str, kinds: Sequence[Any], codec: Codec, function: Handler) -> Part:
        key = self._channel(topic, self._on_wire(topic))
        refs = self._carried(key, kinds, codec, function)
        operation: Part = {"action": action, "channel": {"$ref": f"#/channels/{key}"}, "messages": refs}
        name = getattr(function, "__name__", type(function).__name__)
        self.operations[_unused(f"{name}.{action}.{topic}", self.operations)] = operation
        return operation

    def _reply(self, group: str, kinds: Sequence[Any], codec: Codec, function: Handler) -> Part:
        key = self._channel(f"{group}.replies", None)
        location = f"$message.header#/{Property.REPLY_TO_CLIENT}"
        refs = self._carried(key, kinds, codec, function)
        return {"address": {"location": location}, "channel": {"$ref": f"#/channels/{key}"}, "messages": refs}

    def _channel(self, name: str, address: str | None) -> str:
        """Return the key of a channel, which is made for its first user."""
        for key, channel in self.channels.items():
            if address is not None and channel["address"] == address:
                return key
        key = _unused(name, self.channels)
        self.channels[key] = {"address": address, "messages": {}}
        return key

    def _carried(self, channel: str, kinds: Sequence[Any], codec: Codec, function: Handler) -> list[Part]:
        """Let the channel carry messages of these types, and return references to them. No type: anything."""
        found = [self._message(kind, codec, function) for kind in kinds]
        found = found or [{"name": f"{channel}.message", "contentType": codec.content_type}]
        keys = []
        for message in found:
            message.setdefault("name", f"{channel}.message")
            same = (key for key, known in self.messages.items() if known == message)
            keys.append(next(same, None) or _unused(message["name"], self.messages))
            self.messages[keys[-1]] = message
            self.channels[channel]["messages"][keys[-1]] = {"$ref": f"#/components/messages/{keys[-1]}"}
        return [{"$ref": f"#/channels/{channel}/messages/{key}"} for key in keys]

    def _message(self, kind: Any, codec: Codec, function: Handler) -> Part:
        if kind is bytes:
            return {"contentType": _RAW}
        if isinstance(codec, DescribingCodec):
            return {"name": _name(kind), "contentType": codec.content_type, **codec.describe(kind)}
        is_text = kind is str and isinstance(codec, Json)
        content_type = "text/plain" if is_text else codec.content_type
        return {"name": _name(kind), "contentType": content_type, "payload": self._json_schema(kind, function)}

    def _json_schema(self, kind: Any, function: Handler, number: int = 1) -> Part:
        prefix = "" if number == 1 else f"{number}."
        try:
            schema, parts = _schema_and_parts(kind, f"{_SCHEMAS}{prefix}")
        except Exception as fault:  # a model's own hooks may raise anything
            hint = "Give the function another type, or take pyromq.Received"
            raise Error(f"{function!r}: {_name(kind)} has no JSON schema: {fault}", hint=hint) from None
        named = {f"{prefix}{name}": part for name, part in parts.items()}
        if any(self.schemas.get(name, part) != part for name, part in named.items()):
            return self._json_schema(kind, function, number + 1)  # a class of another module has the name
        self.schemas |= named
        return schema


def _schema_and_parts(kind: Any, place: str) -> tuple[Part, dict[str, Part]]:
    """Return a type's JSON schema, and those of the classes that it names below the place."""
    if hasattr(kind, "model_json_schema"):  # pydantic, without importing it
        schema: Part = kind.model_json_schema(ref_template=f"{place}{{model}}")
        return schema, schema.pop("$defs", {})
    (schema,), parts = msgspec.json.schema_components([kind], ref_template=f"{place}{{name}}")
    return schema, parts


def _consuming(subscription: Subscription, group: str) -> Part:
    options, wanted = subscription.options, subscription.filter
    found: Part = {"group": group}
    if wanted is not None and wanted.expression != "*":
        found |= {"filter": {"type": wanted.expression_type, "expression": wanted.expression}}
    named = {"orderly": "orderly", "broadcast": "broadcast", "max_batch": "maxBatch"}
    return found | {shown: options[name] for name, shown in named.items() if options.get(name)}  # type: ignore[literal-required]


def _sending(publication: Publication) -> Part:
    given = publication.arguments
    delay = given.get("delay")
    found: Part = {
        "tag": given.get("tag"),
        "keys": _words(given.get("keys")),
        "properties": dict(given.get("props") or {}),
        "orderKey": "by a function" if callable(publication.order_key) else publication.order_key,
        "delaySeconds": None if delay is None else seconds(delay),
        "delayLevel": given.get("delay_level"),
    }
    return {name: value for name, value in found.items() if value}


def _words(keys: str | Iterable[str] | None) -> list[str]:
    return [keys] if isinstance(keys, str) else list(keys or ())


def _summary(function: Handler) -> str:
    """Return the first paragraph of its docstring."""
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    return (text or "").partition("\n\n")[0].replace("\n", " ")


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _unused(name: str, known: Mapping[str, Any]) -> str:
    """Return the name as AsyncAPI allows it for a key, with a number where that is used already."""
    word = re.sub(r"[^\w.-]+", "_", name).strip("_")
    return next(each for at in range(len(known) + 1) if (each := word if not at else f"{word}-{at + 1}") not in known)
