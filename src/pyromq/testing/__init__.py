"""The types of the pytest fixtures, for annotations: `rmq_broker: RmqBroker`, `rmq_client: RmqClient`.

They are loaded when they are first used: pytest imports this package in every run where pyromq is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker import RmqBroker as RmqBroker
    from .client import NothingCame as NothingCame
    from .client import RmqClient as RmqClient
    from .clock import ManualClock as ManualClock
    from .settling import NotSettled as NotSettled

_MODULE_OF = {
    "RmqBroker": "broker",
    "NothingCame": "client",
    "RmqClient": "client",
    "ManualClock": "clock",
    "NotSettled": "settling",
}

__all__ = [*_MODULE_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
