"""Searches for secrets: as they are, escaped, in hexadecimal digits, and in Base64 wherever it began."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote


def forms(secret: str) -> set[bytes]:
    """What a secret looks like in a text that was made of it."""
    raw = secret.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode(), quote(secret, safe="").encode()}
    found.add(json.dumps(secret)[1:-1].encode())
    for before in range(3):  # Base64 of a text with it in the middle depends on how many bytes come before it
        inner = base64.b64encode(bytes(before) + raw)
        first, last = -(-before * 4 // 3), (before + len(raw)) // 3 * 4
        found |= {inner[first:last], base64.urlsafe_b64encode(base64.b64decode(inner))[first:last]}
    return found


def told_in(data: bytes, secrets: Iterable[str]) -> list[bytes]:
    """The secrets that stand in some bytes, in the form in which they do."""
    return [form for secret in secrets for form in forms(secret) if form in data]


def told_in_files(folder: Path, secrets: Iterable[str], but: Iterable[Path] = ()) -> dict[Path, list[bytes]]:
    """The files below a folder that tell a secret. `but`: those that may."""
    wanted, allowed = list(secrets), set(but)
    found = {path: told_in(_content(path), wanted) for path in folder.rglob("*") if path not in allowed}
    return {path: forms for path, forms in found.items() if forms}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""  # it was another's next content, and is in his place by now
