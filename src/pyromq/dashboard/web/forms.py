"""Fields of a form, as browsers send them by POST, and the struct that an action wants. Files are not taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

MOST_BYTES = 1 << 16
MOST_FIELDS = 1_200

Pairs = list[tuple[str, str]]


class BadForm(ValueError):
    """It is too large, or no form."""


async def body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body of a request. BadForm: it is too large."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > most:
            raise BadForm(f"the form is larger than {most} bytes")
    return bytes(found)


async def pairs(request: Request, most: int = MOST_BYTES) -> Pairs:
    """Return the fields with their names, in the form's order. BadForm."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise BadForm("it is no form: its type is application/x-www-form-urlencoded")
    text = await body(request, most)
    try:
        return parse_qsl(text.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as fault:
        raise BadForm(f"the form cannot be read: {fault}") from None


async def fields(request: Request) -> dict[str, str]:
    """Return the fields by name; of several of one name the last. BadForm."""
    return dict(await pairs(request))


def wanted_of(given: Pairs, wants: type[msgspec.Struct]) -> Any:
    """Return the struct that the fields make: what is empty is not given, and of a list each field of its name is an
    item. msgspec.ValidationError."""
    hints, values = get_type_hints(wants), dict[str, Any]()
    for name, value in given:
        if name not in hints or value == "":
            continue
        if get_origin(hints[name]) in (list, tuple):
            values.setdefault(name, []).append(value)
        else:
            values[name] = value.replace("\r\n", "\n")
    return msgspec.convert(values, wants, strict=False)


def shown_values(given: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return what a form is filled with when it is shown again."""
    found: dict[str, list[str]] = {}
    for name, value in given:
        found.setdefault(name, []).append(value)
    return found
