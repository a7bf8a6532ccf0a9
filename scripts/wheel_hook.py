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

        kernel = kernel_build.SOURCE / kernel_build.NAME
        if not kernel_build.is_of_these_sources(kernel):
            why = kernel_build.missing()
            if why is None:
                self._folder = tempfile.TemporaryDirectory()
                kernel = Path(self._folder.name) / kernel_build.NAME
                try:
                    kernel_build.build(kernel)
                except (SystemExit, subprocess.CalledProcessError, OSError) as fault:
                    why = f"the compiler failed ({fault})"
            if why is not None:
                self.app.display_warning(f"the native kernel is not built: {why}; the Python kernel serves")
                return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(kernel)] = str(PLACE / kernel_build.NAME)
