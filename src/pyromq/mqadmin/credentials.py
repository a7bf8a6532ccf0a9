"""Whose requests these are: the keys of `$ROCKETMQ_HOME/conf/tools.yml`, as the Java tool reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .command import Failed

FILE = Path("conf") / "tools.yml"
_LINE = re.compile(r"""(\w+)\s*:\s*(?:"([^"]*)"|'([^']*)'|([^#\s]*))\s*(?:#.*)?""")


class Credentials(NamedTuple):
    """Empty: requests are not signed."""

    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""


def credentials(environment: Mapping[str, str] = os.environ) -> Credentials:
    """Return the keys of the file; none where there is no such file, or no keys in it."""
    home = environment.get("ROCKETMQ_HOME")
    path = Path(home) / FILE if home else None
    if path is None or not path.is_file():
        return Credentials()
    lines = (_LINE.fullmatch(line.strip()) for line in path.read_text("utf-8").splitlines())
    pairs = {line[1]: line[2] or line[3] or line[4] or "" for line in lines if line}
    found = Credentials(*(pairs.get(name, "") for name in ("accessKey", "secretKey", "securityToken")))
    if bool(found.access_key) != bool(found.secret_key):
        raise Failed(f"{path}: accessKey and secretKey belong together, one of them is missing or empty")
    return found
