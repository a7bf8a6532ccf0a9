"""PyroMQ: Apache RocketMQ's whole system in Python. This front door names the SDK; the rest is imported from its room.

Names are loaded when they are first used, so that `import pyromq` costs nothing in servers and on the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .app.app import App as App
    from .app.asyncapi import AsyncApi as AsyncApi
    from .app.depends import Depends as Depends
    from .client import sync as sync
    from .client.client import Client as Client
    from .client.client import connect as connect
    from .client.config import ClientConfig as ClientConfig
    from .client.consume.options import ConsumeOptions as ConsumeOptions
    from .client.consume.options import PullOptions as PullOptions
    from .client.consume.pull_consumer import PullConsumer as PullConsumer
    from .client.consume.push_consumer import PushConsumer as PushConsumer
    from .client.core.allocation import Average as Average
    from .client.core.allocation import AverageByCircle as AverageByCircle
    from .client.core.allocation import ConsistentHash as ConsistentHash
    from .client.core.allocation import Fixed as Fixed
    from .client.core.allocation import MachineRoom as MachineRoom
    from .client.core.allocation import MachineRoomNearby as MachineRoomNearby
    from .client.core.process_queue import FlowLimits as FlowLimits
    from .client.core.retry import Reject as Reject
    from .client.core.retry import Retry as Retry
    from .client.core.retry import RetryLater as RetryLater
    from .client.errors import BadAnswer as BadAnswer
    from .client.errors import BadMessage as BadMessage
    from .client.errors import Closed as Closed
    from .client.errors import Error as Error
    from .client.errors import NoBroker as NoBroker
    from .client.errors import NoNameServer as NoNameServer
    from .client.errors import NotSupported as NotSupported
    from .client.errors import ReceiptExpired as ReceiptExpired
    from .client.errors import Refused as Refused
    from .client.errors import SubscriptionConflict as SubscriptionConflict
    from .client.errors import TimedOut as TimedOut
    from .client.errors import TopicNotFound as TopicNotFound
    from .client.errors import Unreachable as Unreachable
    from .client.errors import Unreadable as Unreadable
    from .client.keywords import ClientSettings as ClientSettings
    from .client.keywords import ConsumeSettings as ConsumeSettings
    from .client.keywords import PullSettings as PullSettings
    from .client.keywords import SendArguments as SendArguments
    from .client.keywords import SimpleSettings as SimpleSettings
    from .client.middleware import Draft as Draft
    from .client.middleware import Middleware as Middleware
    from .client.pop.options import SimpleOptions as SimpleOptions
    from .client.pop.popped import Popped as Popped
    from .client.pop.simple_consumer import SimpleConsumer as SimpleConsumer
    from .client.produce.batches import Batching as Batching
    from .client.produce.outgoing import Packing as Packing
    from .client.produce.producer import Producer as Producer
    from .client.produce.sending import SendPolicy as SendPolicy
    from .client.produce.sending import SendResult as SendResult
    from .client.produce.sending import SendStatus as SendStatus
    from .client.produce.transaction_table import TransactionTable as TransactionTable
    from .client.produce.transactions import Transaction as Transaction
    from .client.received import Received as Received
    from .client.subscription import Filter as Filter
    from .client.subscription import tag as tag
    from .client.values import Codec as Codec
    from .client.values import DescribingCodec as DescribingCodec
    from .client.values import Json as Json
    from .codecs.avro import Avro as Avro
    from .codecs.protobuf import Protobuf as Protobuf
    from .middleware.idempotence import Idempotence as Idempotence
    from .middleware.idempotence import SeenInDatabase as SeenInDatabase
    from .middleware.idempotence import SeenInMemory as SeenInMemory
    from .middleware.opentelemetry import OpenTelemetry as OpenTelemetry
    from .middleware.prometheus import Prometheus as Prometheus
    from .model.group import ConsumeFromWhere as ConsumeFromWhere
    from .protocol.bodies.keyed import MessageQueue as MessageQueue
    from .protocol.compression import Compression as Compression
    from .query.front import arrow as arrow
    from .query.front import sql as sql
    from .transport.tls import ClientTls as ClientTls
    from .transport.tls import Verify as Verify

# Which module has which names, with blanks between them; `sync` is a module itself.
_FROM = {
    "app.app": "App",
    "app.asyncapi": "AsyncApi",
    "app.depends": "Depends",
    "client.produce.batches": "Batching",
    "client.client": "Client connect",
    "client.config": "ClientConfig",
    "client.consume.options": "ConsumeOptions PullOptions",
    "client.keywords": "ClientSettings ConsumeSettings PullSettings SendArguments SimpleSettings",
    "client.core.allocation": "Average AverageByCircle ConsistentHash Fixed MachineRoom MachineRoomNearby",
    "client.core.process_queue": "FlowLimits",
    "client.core.retry": "Reject Retry RetryLater",
    "client.errors": "BadAnswer BadMessage Closed Error NoBroker NoNameServer "
    "NotSupported ReceiptExpired Refused SubscriptionConflict TimedOut TopicNotFound Unreachable Unreadable",
    "client.middleware": "Draft Middleware",
    "client.pop.options": "SimpleOptions",
    "client.pop.popped": "Popped",
    "client.pop.simple_consumer": "SimpleConsumer",
    "client.produce.outgoing": "Packing",
    "client.produce.producer": "Producer",
    "client.consume.pull_consumer": "PullConsumer",
    "client.consume.push_consumer": "PushConsumer",
    "client.received": "Received",
    "client.produce.sending": "SendPolicy SendResult SendStatus",
    "client.subscription": "Filter tag",
    "client.values": "Codec DescribingCodec Json",
    "codecs.avro": "Avro",
    "codecs.protobuf": "Protobuf",
    "client.produce.transaction_table": "TransactionTable",
    "client.produce.transactions": "Transaction",
    "middleware.idempotence": "Idempotence SeenInDatabase SeenInMemory",
    "middleware.opentelemetry": "OpenTelemetry",
    "middleware.prometheus": "Prometheus",
    "model.group": "ConsumeFromWhere",
    "protocol.bodies.keyed": "MessageQueue",
    "protocol.compression": "Compression",
    "query.front": "arrow sql",
    "transport.tls": "ClientTls Verify",
}
_MODULE_OF = {name: module for module, names in _FROM.items() for name in names.split()}

__all__ = ["__version__", "sync", *_MODULE_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module(".client.sync", __name__)
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
