"""ali-ons 3.12.0: the Node client of the remoting protocol, written in JavaScript by others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import cache
from .small_client import SmallClient

FOLDER = Path(__file__).resolve().parent.parent / "node"


def runtime() -> str:
    """The `node` command."""
    return cache.tool("node", "nodejs")


def modules() -> Path:
    """The node_modules folder, exactly as package-lock.json says."""

    def build(folder: Path) -> None:
        npm = cache.tool("npm", "npm")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(FOLDER / name, folder)
        done = subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.PeerMissing(f"npm could not fetch ali-ons:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    return cache.once("node-ali-ons-3.12.0", build) / "node_modules"


client = SmallClient("ali-ons", lambda: ([runtime(), str(FOLDER / "client.js")], {"NODE_PATH": str(modules())}))
