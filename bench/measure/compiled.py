"""C programs of the benchmarks, compiled when they are needed. The scripts of bench/ call it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """The program, in `folder`; made once. Without a compiler the script ends with a line that says so."""
    made = folder / source.stem
    if made.exists():
        return made
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit(f"{source.name} cannot be compiled: there is no cc; type: sudo apt-get install gcc libc6-dev")
    subprocess.run([compiler, "-O2", "-o", made, source, *flags], check=True)
    return made
