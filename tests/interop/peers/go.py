"""rocketmq-client-go 2.1.2, through the Go module proxy; our small application over it is built once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from . import cache
from .small_client import SmallClient

FOLDER = Path(__file__).resolve().parent.parent / "go"
SOURCES = ("go.mod", "go.sum", "main.go")


def program() -> Path:
    """The built application; modules are checked against go.sum."""
    content = hashlib.sha256(b"".join((FOLDER / name).read_bytes() for name in SOURCES)).hexdigest()[:12]

    def build(folder: Path) -> None:
        go = cache.tool("go", "golang-go")
        for name in SOURCES:
            shutil.copy(FOLDER / name, folder)
        command = [go, "build", "-mod=readonly", "-buildvcs=false", "-o", "client", "."]
        env = {**os.environ, "CGO_ENABLED": "0"}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
        if done.returncode != 0:
            raise cache.PeerMissing(f"go could not build the client:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    return cache.once(f"go-client-2.1.2-{content}", build) / "client"


client = SmallClient("Go client", lambda: ([str(program())], {}))
