"""How the native kernel is compiled: for `scripts/native` in place, for the wheel's hook into a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pyromq" / "kernel" / "native"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
LIBRARIES = {"kernel": [], "http2": ["-lnghttp2"]}  # modules, and what each is linked to

sys.path.insert(0, str(ROOT / "src"))  # a build of the wheel has nothing but this tree
from pyromq.kernel.choice import sources_mark  # noqa: E402

# An overrun ends the process rather than go on with what it overwrote; the kernel reads frames of anybody.
HARD = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong"]
LINKED = ["-Wl,-z,relro,-z,now,-z,noexecstack"]  # tables of addresses are read-only, and so is the stack as code
FAST = ["-O3", "-fno-semantic-interposition", "-g0", *HARD]
CHECKED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
WARNED = ["-Wall", "-Wextra", *(f"-Wno-{one}" for one in ("unused-parameter", "missing-field-initializers"))]


def missing() -> str | None:
    """Return what a build lacks here, if anything."""
    if shutil.which("gcc") is None:
        return "there is no gcc"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        return "Python's headers are missing (python3-dev)"
    try:
        import Cython  # noqa: F401
    except ImportError:
        return "Cython is not installed"
    return None


def modules() -> dict[str, str | None]:
    """Return the file of each module, and what lacks here to build it, if anything."""
    lacking = http2 = missing()
    if lacking is None:
        probe = ["gcc", "-E", "-x", "c", "-include", "nghttp2/nghttp2.h", os.devnull]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            http2 = "nghttp2's header is missing (Debian: libnghttp2-dev)"
    return {"kernel" + SUFFIX: lacking, "http2" + SUFFIX: http2}


def is_of_these_sources(library: Path) -> bool:
    return library.exists() and sources_mark(library.name.removesuffix(SUFFIX)).encode() in library.read_bytes()


def build(made: Path, flags: list[str] = FAST) -> None:
    """Compile the module of that name into the file. SystemExit or CalledProcessError, behind the compiler's words."""
    from Cython.Compiler.Main import compile_single
    from Cython.Compiler.Options import CompilationOptions

    module = made.name.removesuffix(SUFFIX)
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        written, aside = Path(folder) / f"{module}.c", Path(folder) / made.name
        result = compile_single(
            str(SOURCE / f"{module}.pyx"),
            CompilationOptions(output_file=str(written), include_path=[str(SOURCE)], language_level=3),
            full_module_name=f"pyromq.kernel.native.{module}",
        )
        if result.num_errors:
            raise SystemExit(f"the native module {module} does not compile, see above")
        mark = f'-DKERNEL_SOURCES="{sources_mark(module)}"'
        includes = ["-I", sysconfig.get_paths()["include"], "-I", str(SOURCE)]
        command = ["gcc", mark, "-shared", "-fPIC", "-pthread", "-fwrapv", *flags, *LINKED, *WARNED]
        command += ["-Wno-cast-function-type", *includes, str(written), "-o", str(aside), *LIBRARIES[module]]
        subprocess.run(command, check=True)
        os.replace(aside, made)  # a running process keeps the one that it has mapped
