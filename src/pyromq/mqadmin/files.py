"""Files that commands read and write on this machine, and whose requests these are: the keys of
`$ROCKETMQ_HOME/conf/tools.yml`, as the Java tool reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..model.foreign_text import file_name
from .command import Failed


def read_file(name: str) -> bytes:
    path = Path(name)
    if not path.is_file():
        raise Failed(f"the file path {name} does not exists")
    return path.read_bytes()


def write_private(base: Path, folders: Sequence[str], name: str, content: bytes) -> Path:
    """Write the file into these folders below `base`, for this user alone, and return its path.

    `base` may be a folder that everybody writes to, as /tmp is. The folders must be ours: a link in their place, or one
    that others own or may write to, is refused as `Failed`. `name` is text from elsewhere and becomes the name of one
    file in there (`foreign_text.file_name`); what stood under that name is replaced, and a link never followed.
    """
    name = file_name(name)
    path = base.joinpath(*folders, name)
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            outer, descriptor = descriptor, _own_folder(descriptor, folder, path.parent)
            os.close(outer)
        _replace(descriptor, name, content)
    finally:
        os.close(descriptor)
    return path


def _own_folder(outer: int, name: str, path: Path) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=outer)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
    except OSError as fault:
        raise Failed(f"{path}: {name} is no folder of ours ({fault.strerror}). Remove it, or set TMPDIR") from None
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return descriptor
    os.close(descriptor)
    raise Failed(
        f"{path}: {name} belongs to user {found.st_uid} with rights {found.st_mode & 0o777:o}, and others could put "
        "files of theirs there. Remove it, or set TMPDIR to a folder of your own"
    )


def _replace(folder: int, name: str, content: bytes) -> None:
    """Write under another name first, that nobody had before; the renaming replaces a link and does not follow it."""
    aside = f"{name}.{os.getpid()}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(aside, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


FILE = Path("conf") / "tools.yml"
_LINE = re.compile(r"""(\w+)\s*:\s*(?:"([^"]*)"|'([^']*)'|([^#\s]*))\s*(?:#.*)?""")


class Credentials(NamedTuple):
    """Empty: requests are not signed."""

    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""


def credentials(environment: Mapping[str, str] = os.environ) -> Credentials:
    """Return the keys of the file; where there is none, or no keys in it, those of PYROMQ_ACCESS_KEY and its like."""
    home = environment.get("ROCKETMQ_HOME")
    path = Path(home) / FILE if home else None
    around = Credentials(environment.get("PYROMQ_ACCESS_KEY", ""), environment.get("PYROMQ_SECRET_KEY", ""))
    if path is None or not path.is_file():
        return around
    lines = (_LINE.fullmatch(line.strip()) for line in path.read_text("utf-8").splitlines())
    pairs = {line[1]: line[2] or line[3] or line[4] or "" for line in lines if line}
    found = Credentials(*(pairs.get(name, "") for name in ("accessKey", "secretKey", "securityToken")))
    if bool(found.access_key) != bool(found.secret_key):
        raise Failed(f"{path}: accessKey and secretKey belong together, one of them is missing or empty")
    return found if found.access_key else around
