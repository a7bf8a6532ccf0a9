"""Settings of the daemons: declared (settings), judged (findings), read from every source (load), changed (live)."""

from .findings import SettingFinding, examine_properties, first_error
from .java_keys import IgnoredKeys, JavaKeys, PlannedKeys, RefusedKeys
from .live import Live, NotLive, may_change, with_changes
from .load import Loaded, check_file, examine_file, load
from .settings import Setting, check_ranges, masked, render_all, setting, settings_of

__all__ = [
    "IgnoredKeys",
    "JavaKeys",
    "Live",
    "Loaded",
    "NotLive",
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
    "may_change",
    "render_all",
    "setting",
    "settings_of",
    "with_changes",
]
