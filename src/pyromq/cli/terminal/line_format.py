"""Lines as a user asks for them: `pyromq sub -f '{topic} {queue}@{offset} {prop:region} {body}'`. Pure.

Names in braces are those of `--json`, and `prop:NAME`; braces themselves are written twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter
from typing import TYPE_CHECKING, Any

import click

from ...text.similar import closest
from .printing import to_json

if TYPE_CHECKING:
    from ...client.received import Received

Part = Callable[["Received"], str]

PARTS: dict[str, Callable[[Received], Any]] = {
    "messageId": lambda msg: msg.id,
    "topic": lambda msg: msg.topic,
    "broker": lambda msg: msg.queue.broker_name,
    "queue": lambda msg: msg.queue.queue_id,
    "offset": lambda msg: msg.offset,
    "attempt": lambda msg: msg.attempt,
    "bornMs": lambda msg: msg.born_ms,
    "storedMs": lambda msg: msg.stored_ms,
    "tag": lambda msg: msg.tag or "",
    "keys": lambda msg: list(msg.keys),
    "properties": lambda msg: msg.properties,
    "body": lambda msg: msg.body.decode("utf-8", "backslashreplace"),
}
PROPERTY = "prop"
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
_ESCAPE = re.compile(r"\\[nt\\]")


def facts(msg: Received) -> dict[str, Any]:
    return {name: part(msg) for name, part in PARTS.items()}


def line_format(text: str) -> Part:
    """Return the function that makes a line of a message. UsageError names what is wrong, and what is allowed."""
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as fault:
        raise click.UsageError(f"--format {text!r}: {fault}. Write braces themselves as {{{{ and }}}}") from None
    parts: list[Part] = []
    for literal, name, detail, conversion in pieces:
        if literal:
            constant = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], literal)
            parts.append(lambda _, constant=constant: constant)  # type: ignore[misc]
        if name is not None:
            parts.append(_part(text, name, detail or "", conversion))
    return lambda msg: "".join(part(msg) for part in parts)


def _part(text: str, name: str, detail: str, conversion: str | None) -> Part:
    if name == PROPERTY and detail:
        return lambda msg: msg.properties.get(detail, "")
    if name == "keys" and not detail and conversion is None:
        return lambda msg: " ".join(msg.keys)
    if name in PARTS and not detail and conversion is None:
        return lambda msg: found if isinstance(found := PARTS[name](msg), str) else to_json(found)
    known = [*PARTS, f"{PROPERTY}:NAME"]
    written = name + (f"!{conversion}" if conversion else "") + (f":{detail}" if detail else "")
    near = closest(name, known) or f" There are {', '.join(known)}."
    raise click.UsageError(f"--format {text!r}: a message has no {written!r}.{near}")
