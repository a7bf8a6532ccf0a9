"""Files that commands read and write on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from .command import Failed


def read_file(name: str) -> bytes:
    path = Path(name)
    if not path.is_file():
        raise Failed(f"the file path {name} does not exists")
    return path.read_bytes()


def write_aside(path: Path, content: bytes) -> None:
    """In a folder that others may write to as well: a link in our way is not followed, and nobody else may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
