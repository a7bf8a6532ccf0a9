"""Which kernel serves: the native one where it was built, else Python. `PYROMQ_KERNEL=python|native` forces one.

Looked at once, when the first part of the kernel is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..errors import ConfigError

VARIABLE = "PYROMQ_KERNEL"
_MODULE = "pyromq.kernel.native.kernel"


def is_built() -> bool:
    return find_spec(_MODULE) is not None


def kernel_name() -> str:
    """`native` or `python`. ConfigError if the environment asks for one that is not there."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "python", "native"):
        raise ConfigError(f"{VARIABLE}={wanted}: say python or native, or unset it")
    if wanted == "native" and not is_built():
        raise ConfigError(
            f"{VARIABLE}=native: the native kernel is not built here; run `make native` (it needs gcc), or say python"
        )
    return "native" if wanted != "python" and is_built() else "python"


def native() -> ModuleType | None:
    """The native module, if it serves."""
    return import_module(_MODULE) if kernel_name() == "native" else None
