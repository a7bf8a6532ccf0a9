"""A cluster that names everything as an attacker would: answers are spoiled on their way, requests mended.

Commands run in the test's own thread against real servers; what they ask goes out with honest names, so that servers
know them, and what they are told comes with escapes, line ends and markup in every name, value and remark that is no
number, address or word of the protocol. What is printed must be harmless, whatever command it was.
"""

from __future__ import annotations

import json
import pkgutil
import re
import threading
from collections.abc import Collection
from importlib import import_module
from typing import Any

import pytest

from pyromq.protocol import bodies
from pyromq.protocol.bodies.body import Body
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient

FORGED = "FORGED all is well"
HOSTILE = f"\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u200b\x00\r\n{FORGED}\n\t[red]"
ESCAPED = "\\x1b[2J"
IN_JSON = json.dumps(HOSTILE, ensure_ascii=False)[1:-1]
IN_PROPERTIES = "".join(one if "!" <= one <= "~" else f"\\u{ord(one):04x}" for one in HOSTILE)
OURS = 30_000  # from here on requests of PyroMQ's own, whose answers are plain JSON
SETTINGS = (RequestCode.GET_BROKER_CONFIG, RequestCode.GET_NAMESRV_CONFIG)

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?')
# Numbers, addresses, words of the protocol (CLUSTERING), and what Python or Java compares with: other text is a name.
_KEPT = re.compile(r"[-\d., ;:%]*|[\w.\[\]-]+:\d+|[A-Z][A-Z0-9_]*|true|false|null|V\d\w+|\{.*\}|\[.*\]", re.DOTALL)
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def _field_names() -> frozenset[str]:
    """Of all bodies: as keys of objects they are the protocol's, other keys are names."""
    for each in pkgutil.iter_modules(bodies.__path__, f"{bodies.__name__}."):
        import_module(each.name)
    found: set[str] = set()
    waiting: list[Any] = [Body]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        found |= {str(name) for name in kind.__struct_encode_fields__}
    return frozenset(found)


FIELDS = _field_names()


def spoiled_json(text: str, honest: Collection[str] = (), *, is_ours: bool = False) -> str:
    """Also where it is JSON of Java's kind, with objects as keys. Names that the command line has stay as they are."""

    def _is_ours(key: str) -> bool:
        return is_ours and re.fullmatch("[a-z][A-Za-z0-9]*", key) is not None

    def spoil(found: re.Match[str]) -> str:
        content, colon = found[1], found[2] or ""
        if _KEPT.fullmatch(content) or content in honest or (colon and (content in FIELDS or _is_ours(content))):
            return found[0]
        return f'"{content}{IN_JSON}"{colon}'

    return _STRING.sub(spoil, text)


def spoiled_properties(text: str) -> str:
    return "".join(line if line.endswith("=") else line + IN_PROPERTIES + "\n" for line in text.splitlines() if line)


def spoil(code: int, answer: Command, honest: Collection[str] = ()) -> None:
    body = bytes(answer.body)
    if code in SETTINGS:
        answer.body = spoiled_properties(body.decode()).encode()
    elif body[:1] in (b"{", b"["):
        answer.body = spoiled_json(body.decode(), honest, is_ours=code >= OURS).encode()
    answer.fields = {
        name: value if _KEPT.fullmatch(value) else value + HOSTILE for name, value in answer.fields.items()
    }
    if answer.remark:
        answer.remark += HOSTILE


def mend(request: Command) -> None:
    request.fields = {name: value.replace(HOSTILE, "") for name, value in request.fields.items()}
    body = bytes(request.body)
    for each in (HOSTILE, IN_JSON, json.dumps(HOSTILE)[1:-1], json.dumps(HOSTILE).lower()[1:-1]):
        body = body.replace(each.encode(), b"")
    request.body = body


@pytest.fixture
def hostile_names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """For what the test's thread asks; servers and members, which have threads of their own, see the truth.

    Names that the test puts into the set stay as they are: those that its command line has.
    """
    known: set[str] = set()
    honest = RemotingClient.call

    async def call(self: RemotingClient, address: str, request: Command, timeout_s: float) -> Command:
        if threading.current_thread() is not threading.main_thread():
            return await honest(self, address, request, timeout_s)
        mend(request)
        answer = await honest(self, address, request, timeout_s)
        spoil(request.code, answer, known)
        return answer

    monkeypatch.setattr(RemotingClient, "call", call)
    return known


def check_harmless(printed: str, *, bodies: bool = False) -> None:
    """Nothing unseen is in it, and no line of it is forged; bodies have lines of their own."""
    found = _UNSEEN.search(printed.replace("\r\n", "\n"))
    assert found is None, printed[max(0, found.start() - 60) : found.end() + 60].encode("unicode_escape")
    if not bodies:
        forged = [line for line in printed.splitlines() if line.strip().startswith(FORGED)]
        assert not forged, printed.encode("unicode_escape")
