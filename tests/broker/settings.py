"""Settings and requests for the tests of this folder."""

from __future__ import annotations

from typing import Any

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import Live, Loaded
from pyromq.protocol.command import Command
from pyromq.transport.dispatch import Request
from tests.broker.peers import FakePeer


def live(**settings: Any) -> Live[BrokerConfig]:
    """Settings that nothing but this test gives."""
    return Live(Loaded(BrokerConfig(**({"broker_name": "broker-a"} | settings))), BROKER_KEYS)


def request(code: int, peer: FakePeer | None = None, body: bytes = b"", **fields: object) -> Request:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return Request(Command(code=code, fields=texts, body=body), peer or FakePeer())
