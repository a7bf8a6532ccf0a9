"""A secret that a user hands in: by a file or standard input, never on the command line, which others can read."""

from __future__ import annotations

import sys
from pathlib import Path

from .exits import REFUSED
from .tree import Fail


def read_secret(file: str) -> str:
    """Return the secret of a file, of standard input for "-". Fail if there is none in it."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    secret = text.strip("\r\n")
    if not secret.strip():
        raise Fail(f"{'standard input' if file == '-' else file} has no secret in it", REFUSED)
    return secret
