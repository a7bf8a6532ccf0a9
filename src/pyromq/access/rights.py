"""Who sent a request, and what he may do: what handlers and quotas are given.

`Request.principal` and `Request.rights` (transport/dispatch.py) are set before a handler is called:

    request.principal.name                                      # "" where nobody had to say who he is
    request.rights.check(Resource.TOPIC, topic, Action.GET)     # RequestRefused(NO_PERMISSION), in Java's words
    request.rights.may(Resource.GROUP, group, Action.GET)       # to leave out of a list what one may not see

The needs of a request's row are checked already. A handler asks for what only it finds out: the topic of a message that
the request points at (`NameIn.MESSAGE`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ..protocol.access import Action, Resource


class Proof(Enum):
    """How a principal showed who he is."""

    NONE = "nobody was asked"
    SIGNATURE = "a signed request"
    CERTIFICATE = "the certificate of the connection"
    ADDRESS = "his address, from where nothing need be signed"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sent a request. `source`: the address of his machine, without a port."""

    name: str = ""
    is_super: bool = False
    source: str = ""
    proof: Proof = Proof.NONE

    @property
    def is_known(self) -> bool:
        return bool(self.name)

    @property
    def is_let_in(self) -> bool:
        """Tell whether he has shown who he is, or comes from where nobody need."""
        return self.is_known or self.proof is Proof.ADDRESS


class Rights(Protocol):
    """What a principal may do, as it stands at the moment of each question."""

    def may(self, kind: Resource, name: str, *actions: Action) -> bool:
        """Tell whether one of these actions is allowed on a resource."""
        ...

    def check(self, kind: Resource, name: str, *actions: Action) -> None:
        """Raise RequestRefused(NO_PERMISSION) unless one of these actions is allowed."""
        ...

    def shown(self, code: int, body: Any) -> Any:
        """Return an answer's body, where it is a list without what the principal may not see."""
        ...


class _Everything:
    def may(self, kind: Resource, name: str, *actions: Action) -> bool:
        return True

    def check(self, kind: Resource, name: str, *actions: Action) -> None:
        return None

    def shown(self, code: int, body: Any) -> Any:
        return body


NOBODY = Principal()
EVERYTHING: Rights = _Everything()
