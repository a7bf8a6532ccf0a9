"""Hatchling's hook: a native kernel that lies in the source tree goes into the wheel, which then is for this platform.

Without one the wheel is for every platform, and the Python kernel serves there. Nothing is compiled here.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """The name is hatchling's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        place = Path("src/pyromq/kernel/native") / ("kernel" + str(sysconfig.get_config_var("EXT_SUFFIX")))
        if (Path(self.root) / place).exists():
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"][str(place)] = str(Path(*place.parts[1:]))
