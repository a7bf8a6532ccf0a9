"""What a broker believes of its machine: steps of the wall clock, and a disk whose syncs are slow (shim.c)."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from tests.support import require

SOURCE = Path(__file__).with_name("shim.c")
_LAYOUT = struct.Struct("=qq")


def built_shim(folder: Path) -> Path:
    """Return the shim as a library, compiled into this folder."""
    library = folder / "shim.so"
    try:
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE, "-ldl"],
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        require(False, "`gcc` is not installed: apt-get install gcc")
    return library


class Shim:
    """The shim of one host's broker."""

    def __init__(self, library: Path, told: Path) -> None:
        self._told = told
        self._clock_s = self._sync_s = 0.0
        self._tell()
        self.env = {"LD_PRELOAD": str(library), "PYROMQ_SHIM": str(told)}

    def step_clock(self, seconds: float) -> None:
        """Let the wall clock be off by so much from now on; 0: right."""
        self._clock_s = seconds
        self._tell()

    def slow_syncs(self, seconds: float) -> None:
        """Let each sync last longer by so much from now on."""
        self._sync_s = seconds
        self._tell()

    def _tell(self) -> None:
        """Write in place: whoever has the file mapped sees it."""
        self._told.touch()
        with self._told.open("r+b") as file:
            file.write(_LAYOUT.pack(round(self._clock_s * 1e9), round(self._sync_s * 1e9)))
