"""Stores that the Java broker wrote, unpacked for a test, and their manifests."""

from __future__ import annotations

import functools
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden"


def unpack(name: str, folder: Path, *, with_wheel: bool = False) -> Path:
    """The store folder `name` (clean or crashed) below `folder`; the timer wheel (38 MB) only where it is wanted."""
    with tarfile.open(GOLDEN / f"store-{name}.tar.gz") as archive:
        members = [member for member in archive if with_wheel or not member.name.endswith("/timerwheel")]
        archive.extractall(folder, members, filter="data")
    return folder / "store"


@functools.cache
def manifest(name: str) -> dict[str, Any]:
    with gzip.open(GOLDEN / f"store-{name}.json.gz") as file:
        content: dict[str, Any] = json.load(file)
    return content


def apply_variant(store: Path, variant: str) -> None:
    """One of the damaged variants of the crashed store."""
    for edit in manifest("crashed")["variants"][variant]["edits"]:
        with (store / edit["file"]).open("r+b") as file:
            file.seek(edit["offset"])
            file.write(bytes.fromhex(edit["hex"]))
