"""Which kernel serves: the native one where it was built, else Python. `PYROMQ_KERNEL=python|native` forces one.

Looked at once, when the first part of the kernel is imported.
"""

from __future__ import annotations

import os
import struct
import zlib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from ..errors import ConfigError

VARIABLE = "PYROMQ_KERNEL"
PATH_VARIABLE = "PYROMQ_KERNEL_PATH"
_MODULE = "pyromq.kernel.native.kernel"
_HTTP2 = "pyromq.kernel.native.http2"
_SOURCES = Path(__file__).parent / "native"
_SHARED = ("bytes.pxi", "known_user.pxi", "sha1.h")  # sources of both modules
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
        known = [(each, each.lstat()) for each in (folder, *sorted(folder.glob("*.so")))]
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
    return _load(_MODULE)


def native_http2() -> ModuleType | None:
    """Return the native module for HTTP/2, if it serves; None: the twin on `h2` does.

    It is built where nghttp2's header is, and loads where its library is. ConfigError as for the kernel itself.
    """
    return _load(_HTTP2) if kernel_name() == "native" and find_spec(_HTTP2) is not None else None


def http2_name() -> str:
    return "nghttp2" if native_http2() is not None else "h2"


@cache
def _load(name: str) -> ModuleType:
    spec = find_spec(name)
    try:
        if spec is not None and spec.origin is not None and _is_cut_off(Path(spec.origin)):
            raise ImportError(f"{spec.origin}: its end is missing")
        module = import_module(name)
    except ImportError as fault:
        raise ConfigError(
            f"the native kernel cannot be loaded ({fault}): {_remedy()}, or set {VARIABLE}=python"
        ) from None
    if sources_mark(name.rpartition(".")[2]) != module.SOURCES:
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


def sources_mark(module: str = "kernel") -> str:
    """Return a text that changes with every byte of a module's sources; the build puts it into the module."""
    mark = 0
    for file in sorted(each for each in _SOURCES.iterdir() if each.suffix in (".pyx", ".pxd", ".pxi", ".h")):
        if file.name in _SHARED or _is_of_http2(file) == (module == "http2"):
            mark = zlib.crc32(file.read_bytes(), zlib.crc32(file.name.encode(), mark))
    return f"{mark:08x}"


def _is_of_http2(source: Path) -> bool:
    return source.name.startswith(("http2", "nghttp2"))
