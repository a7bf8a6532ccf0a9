"""Hatchling's hook: the native kernel goes into the wheel, which then is for this platform and Python.

One that lies in the source tree is taken if it is of these sources, else one is built, for `pip install .` too. Where
that cannot be done the wheel is for every platform, one line says why, and the Python kernel serves there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = Path("pyromq/kernel/native")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """The name is hatchling's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # `make native` builds in place
            return
        sys.path.insert(0, str(Path(self.root) / "scripts"))
        import kernel_build

        self._folder = tempfile.TemporaryDirectory()
        for name, why in kernel_build.modules().items():
            made = kernel_build.SOURCE / name
            if not kernel_build.is_of_these_sources(made):
                made = Path(self._folder.name) / name
                if why is None:
                    why = self._failure(kernel_build, made)
                if why is not None:
                    self.app.display_warning(f"{name} is not built: {why}; its twin in Python serves")
                    continue
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"][str(made)] = str(PLACE / name)

    def _failure(self, kernel_build: Any, made: Path) -> str | None:
        """Build a module; return why that failed, if it did."""
        try:
            kernel_build.build(made)
        except (SystemExit, subprocess.CalledProcessError, OSError) as fault:
            return f"the compiler failed ({fault})"
        return None
