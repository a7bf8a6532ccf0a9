"""The resources that one request asks for: the needs of its row (`protocol/access.py`), with the names that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from ..errors import RequestRefused
from ..model import names
from ..model.codes import ResponseCode
from ..protocol.access import Action, NameIn, Need, Resource
from ..protocol.command import Command
from ..protocol.requests import ROWS

_OF_THE_GROUP = {Action.PUB: Action.SUB}  # sending to a retry topic or reading it is consuming


class Want(NamedTuple):
    """One of `actions` on a resource. `name` None: on any resource of the kind, and the answer is screened."""

    kind: Resource
    name: str | None
    actions: tuple[Action, ...]


def wants(command: Command, read_body: Callable[[], Any], cluster: str) -> Iterator[Want]:
    """Yield what a request of a known code asks for. RequestRefused if it lacks a name that it must have.

    `read_body` decodes the body by the row; it is called only where a need stands in the body. What a handler has to
    find out first (NameIn.MESSAGE) is left to it."""
    for need in ROWS[command.code].needs:
        if need.name_in is NameIn.SERVER:
            yield Want(need.resource, cluster, need.actions)
        elif need.name_in is NameIn.ALL:
            yield Want(need.resource, None, need.actions)
        elif need.name_in is NameIn.HEADER:
            yield from _named(need, _from_header(need, command))
        elif need.name_in is NameIn.BODY:
            yield from _named(need, members(read_body(), _attributes(command.code, need.name)))


def _from_header(need: Need, command: Command) -> list[str | None]:
    text = command.fields.get(need.name, "")
    return [*(text.split(need.separator) if need.separator else [text])]


def _named(need: Need, found: list[str | None]) -> Iterator[Want]:
    given = [name for name in found if name is not None and name.strip()]
    if not need.optional and len(given) < max(1, len(found)):
        raise RequestRefused(
            f"the request names no {need.resource.value.lower()} ({need.name}), so nobody can be allowed it",
            ResponseCode.NO_PERMISSION,
        )
    for name in given:
        yield resolved(need.resource, name, need.actions)


def resolved(kind: Resource, name: str, actions: tuple[Action, ...]) -> Want:
    """Return what stands behind a name: a retry or dead letter topic is its group's."""
    if kind is Resource.TOPIC:
        for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
            if name.startswith(prefix):
                own = tuple(dict.fromkeys(_OF_THE_GROUP.get(action, action) for action in actions))
                return Want(Resource.GROUP, name.removeprefix(prefix), own)
    return Want(kind, name, actions)


@cache
def _attributes(code: int, path: str) -> tuple[str, ...]:
    """Return the attributes that lead to a member of a row's body, which the row names as it stands on the wire."""
    kind: Any = ROWS[code].takes.body
    found = []
    for member in path.split("."):
        field = next(each for each in msgspec.structs.fields(kind) if each.encode_name == member)
        found.append(field.name)
        kind = next((one for one in get_args(field.type) if one is not type(None)), field.type)
    return tuple(found)


def members(value: Any, path: tuple[str, ...]) -> list[str | None]:
    """Return what stands at the end of a path of attributes, of each item of the lists on the way."""
    if value is None:
        return [None]
    if isinstance(value, list | tuple | set | frozenset):
        return [found for item in value for found in members(item, path)]
    if not path:
        return [str(value)]
    return members(getattr(value, path[0]), path[1:])
