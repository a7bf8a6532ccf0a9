"""What to type to install an optional package of ours: a command that works where this Python is, pasted as it is.

Whoever cloned PyroMQ or installed it from a file has it from there and not from PyPI, so the place is named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..model.foreign_text import shell_word

_CLONE = Path(__file__).parents[3]


def install_command(extra: str) -> str:
    """Return the command that installs the extra into this Python's environment."""
    if (_CLONE / "pyproject.toml").is_file():
        place = f"-e {shell_word(f'{_CLONE}[{extra}]')}"  # as it is installed now: the clone's own files are run
    else:
        place = shell_word(f"{_installed_from()}[{extra}]")
    return f"{shell_word(sys.executable)} -m pip install {place}"


def _installed_from() -> str:
    """Return the folder or wheel that pip was given; our name if it came from an index."""
    from importlib.metadata import PackageNotFoundError, distribution  # not at the top: every command comes here
    from urllib.parse import unquote, urlsplit

    try:
        given = distribution("pyromq").read_text("direct_url.json")
    except PackageNotFoundError:
        given = None
    url = urlsplit(json.loads(given)["url"]) if given else None
    return unquote(url.path) if url is not None and url.scheme == "file" else "pyromq"
