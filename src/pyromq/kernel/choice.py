"""Which kernel serves: the native one where it was built, else Python. `PYROMQ_KERNEL=python|native` forces one.

Looked at once, when the first part of the kernel is imported.
"""

from __future__ import annotations

import os
import struct
import zlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from ..errors import ConfigError

VARIABLE = "PYROMQ_KERNEL"
PATH_VARIABLE = "PYROMQ_KERNEL_PATH"
_MODULE = "pyromq.kernel.native.kernel"
_SOURCES = Path(__file__).parent / "native"
_ELF = b"\x7fELF\x02\x01"  # of 64 bits, little-endian
_SECTIONS = struct.Struct("<40xQ10xHH")  # in its head: where their table begins, bytes of an entry, entries
_MAKEFILE = Path(__file__).parents[3] / "Makefile"  # of a clone; what is installed has none


def is_built() -> bool:
    return find_spec(_MODULE) is not None


def kernel_name() -> str:
    """Return `native` or `python`. ConfigError if the environment asks for one that is not there."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "native"):
        raise ConfigError(f"{VARIABLE}={wanted}: say python or native, or unset it")
    if wanted == "native" and not is_built():
        raise ConfigError(f"{VARIABLE}=native: the native kernel is not built here; {_remedy()}, or say python")
    return "native" if wanted != "python" and is_built() else "python"


def other_build() -> Path | None:
    """Return the folder of PYROMQ_KERNEL_PATH, whose kernel is loaded instead of ours: for `make sanitize` and tests.

    What it holds runs with all rights of this process. So it must be asked for twice, by PYROMQ_KERNEL=native too, and
    nobody but this user and root may be able to write there. ConfigError otherwise.
    """
    named = os.environ.get(PATH_VARIABLE, "")
    if not named:
        return None
    if os.environ.get(VARIABLE, "") != "native":
        raise ConfigError(
            f"{PATH_VARIABLE}={named} loads another native kernel: say {VARIABLE}=native too, or unset it"
        )
    folder = Path(named)
    try:
        known = [(each, each.lstat()) for each in (folder, *sorted(folder.glob("kernel.*")))]
    except OSError as fault:
        raise ConfigError(f"{PATH_VARIABLE}={named}: {fault.strerror}; name a folder with a native kernel") from None
    for each, found in known:
        if not folder.is_absolute() or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise ConfigError(
                f"{PATH_VARIABLE}={named} is refused: others could put a library there. {each} has to be named by its "
                f"whole path, belong to user {os.geteuid()} or root, and be writable by nobody else; its owner is "
                f"{found.st_uid}, its rights are {found.st_mode & 0o777:o}"
            )
    return folder


def is_forced() -> bool:
    """Return whether the environment chose the kernel: it serves because somebody wants it."""
    return os.environ.get(VARIABLE, "") != ""


def native() -> ModuleType | None:
    """Return the native module, if it serves.

    ConfigError if it was built from other sources than those that lie here.
    """
    if kernel_name() != "native":
        return None
    spec = find_spec(_MODULE)
    try:
        if spec is not None and spec.origin is not None and _is_cut_off(Path(spec.origin)):
            raise ImportError(f"{spec.origin}: its end is missing")
        module = import_module(_MODULE)
    except ImportError as fault:
        raise ConfigError(
            f"the native kernel cannot be loaded ({fault}): {_remedy()}, or set {VARIABLE}=python"
        ) from None
    if sources_mark() != module.SOURCES:
        raise ConfigError(
            f"the native kernel {module.__file__} was built from other sources than the ones here: {_remedy()}, "
            f"or set {VARIABLE}=python"
        )
    return module


def _is_cut_off(library: Path) -> bool:
    """Return whether its end is missing, by an interrupted copy, say: importing it would kill the process (SIGBUS).

    The sections' table is at the end.
    """
    with library.open("rb") as file:
        head = file.read(_SECTIONS.size)
    if len(head) < _SECTIONS.size or not head.startswith(_ELF):
        return False  # too short, or no such file: the import says so
    begin, entry_bytes, entries = _SECTIONS.unpack(head)
    end: int = begin + entry_bytes * entries
    return library.stat().st_size < end


def _remedy() -> str:
    if _MAKEFILE.exists():
        return "run `make native` (it needs gcc)"
    return "install gcc and Python's headers, then pyromq again (pip install --force-reinstall --no-deps)"


def sources_mark() -> str:
    """Return a text that changes with every byte of the kernel's sources; the build puts it into the module."""
    mark = 0
    for file in sorted(each for each in _SOURCES.iterdir() if each.suffix in (".pyx", ".pxd", ".pxi", ".h")):
        mark = zlib.crc32(file.read_bytes(), zlib.crc32(file.name.encode(), mark))
    return f"{mark:08x}"
