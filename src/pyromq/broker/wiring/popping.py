"""Popping: handing out single messages for a time, and everything that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.requests import RequestCode as Code
from ...transport.dispatch import Handler, bind
from ..pop.rollback import roll_back
from .foundation import Foundation
from .serving import SendParts


class PopParts:
    """Event loop only."""

    def __init__(self, base: Foundation, sends: SendParts) -> None:
        self._base, self._sends = base, sends

    def handlers(self) -> Iterator[tuple[int, Handler]]:
        """Return what `surface.py` binds: a code whose handler is not here yet keeps its row's refusal."""
        yield bind(Code.POP_ROLLBACK, roll_back)
