"""Settings of the daemons: declared once (settings), read from every source (load), changed while running (live)."""

from .java_keys import IgnoredKeys, JavaKeys, PlannedKeys, RefusedKeys
from .live import Live
from .load import Loaded, SettingFinding, check_file, examine_file, examine_properties, first_error, load
from .settings import Setting, check_ranges, masked, render_all, setting, settings_of

__all__ = [
    "IgnoredKeys",
    "JavaKeys",
    "Live",
    "Loaded",
    "PlannedKeys",
    "RefusedKeys",
    "Setting",
    "SettingFinding",
    "check_file",
    "check_ranges",
    "examine_file",
    "examine_properties",
    "first_error",
    "load",
    "masked",
    "render_all",
    "setting",
    "settings_of",
]
