"""The C++ client, as PyPI's rocketmq 0.4.4 bundles it, in a folder that only its own process has on the path."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from . import cache
from .small_client import SmallClient

FOLDER = Path(__file__).resolve().parent.parent / "cpp"


def packages() -> Path:
    """The folder from which the C++ client can be imported."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise cache.PeerMissing("the C++ client is published for Linux on x86_64 only")

    def build(folder: Path) -> None:
        # pip of our own environment installs into a plain folder: that needs no ensurepip and can be moved.
        target = ["--target", str(folder / "packages"), "--require-hashes", "-r", str(FOLDER / "requirements.txt")]
        command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *target]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.PeerMissing(f"pip could not fetch the C++ client:\n{done.stderr[-2000:]}")

    return cache.once("cpp-rocketmq-0.4.4", build) / "packages"


client = SmallClient(
    "C++ client", lambda: ([sys.executable, str(FOLDER / "client.py")], {"PYTHONPATH": str(packages())})
)
