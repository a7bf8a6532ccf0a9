"""One line of the audit log, and the chain: the hash of a line covers the line and the hash of the one before it.

    {"seq": 7, "time": "2026-11-18T20:03:34.123Z", "kind": "call", ..., "hash": "9f8a..."}

`hash` is the SHA-256 of the previous line's hash (64 hexadecimal digits) followed by the bytes of this line in front of
`,"hash":`. It covers bytes, so nobody has to agree on how JSON is written. Everything outside printable ASCII is
escaped: no name can forge a line, and no terminal is tricked by one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

START = "0" * 64  # what stands for the hash of the line before the first one
_MARK = b',"hash":"'
_END = b'"}'
_HASH_CHARS = 64
_LONGEST = 1024  # characters of one text
_MOST_ITEMS = 64  # of one list or table
_DEEPEST = 6
LONGEST_LINE = 64 << 10  # a field that makes a line longer than this is left out, and the line says so


@dataclass(frozen=True, slots=True)
class Link:
    """A line's place in the chain."""

    seq: int
    hash: str


FIRST = Link(0, START)


def encode(before: Link, now_ms: int, kind: str, fields: dict[str, Any]) -> tuple[bytes, Link]:
    """Return a line with its end, and the place that it has after `before`."""
    seq = before.seq + 1
    entry = {"seq": seq, "time": stamp(now_ms), "kind": kind, **{name: _cut(value) for name, value in fields.items()}}
    text = _json(entry)
    while len(text) > LONGEST_LINE:
        longest = max((name for name in fields if name in entry), key=lambda name: len(_json(entry[name])))
        del entry[longest]
        entry["leftOut"] = f"{entry.get('leftOut', '')} {longest}".strip()
        text = _json(entry)
    covered = text.encode()[:-1]
    digest = hash_of(before.hash, covered)
    return covered + _MARK + digest.encode() + _END + b"\n", Link(seq, digest)


def hash_of(before: str, covered: bytes) -> str:
    return hashlib.sha256(before.encode() + covered).hexdigest()


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it was read. `covered`: the bytes that its hash is about."""

    covered: bytes
    entry: dict[str, Any]
    link: Link

    def follows(self, before: Link) -> bool:
        """Return whether the line is the next one, and as it was written."""
        return self.link.seq == before.seq + 1 and hash_of(before.hash, self.covered) == self.link.hash


def decode(raw: bytes) -> Line | None:
    """Return what stands in the bytes of a line without its end; None if they are no line of an audit log."""
    covered, mark, rest = raw.rpartition(_MARK)
    if not mark or len(rest) != _HASH_CHARS + len(_END) or not rest.endswith(_END):
        return None
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or type(seq := entry.get("seq")) is not int:
        return None
    return Line(covered, entry, Link(seq, rest[:_HASH_CHARS].decode("ascii", "replace")))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)


def _cut(value: Any, depth: int = 0) -> Any:
    """Return the value with long texts, lists and tables cut: a peer may send names of a megabyte."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}... and {len(value) - _LONGEST} more"
    if depth >= _DEEPEST and isinstance(value, dict | list | tuple):
        return "..."
    if isinstance(value, dict):
        kept = {str(_cut(str(name))): _cut(one, depth + 1) for name, one in list(value.items())[:_MOST_ITEMS]}
        return kept if len(value) <= _MOST_ITEMS else {**kept, "...": f"{len(value) - _MOST_ITEMS} more"}
    if isinstance(value, list | tuple):
        items = [_cut(one, depth + 1) for one in value[:_MOST_ITEMS]]
        return items if len(value) <= _MOST_ITEMS else [*items, f"... and {len(value) - _MOST_ITEMS} more"]
    return value


def stamp(now_ms: int) -> str:
    """Return a time as it stands in lines: in UTC, and in the order of texts."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now_ms % 1000:03d}Z"
