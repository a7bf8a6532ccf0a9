"""Bodies for people: indented JSON, text, or bytes in hex. Pure; what is shown is bounded before it is decoded.

Nothing in a body is executed, fetched or unpacked. What is unseen stays as it is here: whoever shows it escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

MOST_TEXT = 64 * 1024  # bytes of a body that are decoded
MOST_HEX = 16 * 1024  # each takes five times its room
MOST_DEPTH = 64  # of JSON
MOST_INDENTED = 4 * MOST_TEXT  # indentation can blow a small body up
KINDS = ("json", "text", "hex")


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """`kind` is one of KINDS, or `empty`. `shown` of `size` bytes are in the text. `kinds`: those that fit it."""

    kind: str
    text: str
    shown: int
    size: int
    kinds: tuple[str, ...]

    @property
    def is_cut(self) -> bool:
        return self.shown < self.size


def decoded(body: bytes, wanted: str = "") -> DecodedBody:
    """Return the body as the wanted kind, or as the first that fits: JSON, else text, else hex."""
    if not body:
        return DecodedBody("empty", "", 0, 0, ())
    head = body[:MOST_TEXT]
    text = _as_text(head, is_cut=len(body) > len(head))
    pretty = _as_json(body) if text is not None else None
    kinds = tuple(kind for kind, fits in (("json", pretty), ("text", text), ("hex", "")) if fits is not None)
    kind = wanted if wanted in kinds else kinds[0]
    if kind == "json" and pretty is not None:
        return DecodedBody(kind, pretty, len(body), len(body), kinds)
    if kind == "text" and text is not None:
        return DecodedBody(kind, text, len(text.encode()), len(body), kinds)
    return DecodedBody(kind, hex_dump(body[:MOST_HEX]), min(len(body), MOST_HEX), len(body), kinds)


def preview(body: bytes, most: int) -> str:
    """Return the beginning of a body for a cell of a table: its text, with dots where it was cut."""
    head = body[: 4 * most].decode("utf-8", "backslashreplace")
    return head if len(head) <= most and len(body) <= 4 * most else head[: most - 1] + "…"


def _as_text(head: bytes, *, is_cut: bool) -> str | None:
    """Return UTF-8 as text; None: it is none, or has zero bytes, which no text has."""
    if b"\0" in head:
        return None
    try:
        return head.decode()
    except UnicodeDecodeError as fault:
        ends_within = is_cut and fault.start >= len(head) - 3  # the cut went through a character
        return head[: fault.start].decode() if ends_within else None


def _as_json(body: bytes) -> str | None:
    """Return an object or array indented, numbers and names as they stand there; None: it is none, or too deep."""
    if len(body) > MOST_TEXT or body.lstrip()[:1] not in (b"{", b"[") or _depth(body) > MOST_DEPTH:
        return None
    try:
        pretty = msgspec.json.format(body, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None
    return pretty.decode() if len(pretty) <= MOST_INDENTED else None


def _depth(body: bytes) -> int:
    """Return how deep the brackets outside of strings go, right for whatever is JSON."""
    depth = deepest = 0
    in_string = is_escaped = False
    for one in body:
        if in_string:
            if is_escaped:
                is_escaped = False
            elif one == 0x5C:
                is_escaped = True
            elif one == 0x22:
                in_string = False
        elif one == 0x22:
            in_string = True
        elif one in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif one in b"]}":
            depth -= 1
    return deepest


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, sixteen bytes in hex, and what of them is plain ASCII."""
    return "\n".join(_hex_lines(data))


def _hex_lines(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        plain = "".join(chr(one) if 0x20 <= one < 0x7F else "." for one in part)
        yield f"{at:06x}  {part.hex(' '):<47}  {plain}"
