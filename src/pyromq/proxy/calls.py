"""Who calls and how long he waits, read from a call's metadata."""

from __future__ import annotations

from dataclasses import dataclass

from ..access.rights import EVERYTHING, NOBODY, Principal, Rights
from ..model.client_info import Language
from ..protocol.grpc.v2 import Code
from ..transport.http2.calls import Call
from .statuses import Denied

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
CLIENT_VERSION = "x-mq-client-version"
BROKER_S = 2.0  # a broker has so long to answer, as in Java's proxy

_LANGUAGES = {each.name: each for each in Language}


@dataclass(frozen=True, slots=True)
class Caller:
    """One call's client. `deadline` is monotonic; None: it waits for as long as it takes."""

    client_id: str
    language_name: str
    client_version: str
    remote: str
    deadline: float | None = None
    principal: Principal = NOBODY
    rights: Rights = EVERYTHING
    judged: int | None = None  # by which version of the directory; None: nobody is judged

    @property
    def language(self) -> Language:
        """Return the language. ValueError in Java's words: few calls need it, those refuse an unknown one."""
        return language_of(self.language_name)

    @property
    def known_language(self) -> Language | None:
        return _LANGUAGES.get(self.language_name)

    def remaining_ms(self, monotonic: float) -> int | None:
        """Return how long the client still waits; None for ever."""
        return None if self.deadline is None else max(0, int((self.deadline - monotonic) * 1000))


def language_of(name: str) -> Language:
    found = _LANGUAGES.get(name)
    if found is None:
        raise ValueError(f"No enum constant org.apache.rocketmq.remoting.protocol.LanguageCode.{name}")
    return found


def caller_of(
    call: Call, principal: Principal = NOBODY, rights: Rights = EVERYTHING, judged: int | None = None
) -> Caller:
    """Return who calls. Denied (40017) without a client id."""
    metadata = call.metadata
    client_id = metadata.get(CLIENT_ID, "")
    if not client_id.strip():
        raise Denied(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    language, version = metadata.get(LANGUAGE, ""), metadata.get(CLIENT_VERSION, "")
    return Caller(client_id, language, version, call.remote, call.deadline, principal, rights, judged)
