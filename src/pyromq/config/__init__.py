"""Settings of the daemons: declared once (settings), read from every source (load), changed while running (live)."""

from .java_keys import Carried, JavaKeys, NoEffect, Refused
from .live import Live
from .load import Finding, Loaded, examine_file, examine_properties, first_error, load
from .settings import Setting, check_ranges, masked, render_all, setting, settings_of

__all__ = [
    "Carried",
    "Finding",
    "JavaKeys",
    "Live",
    "Loaded",
    "NoEffect",
    "Refused",
    "Setting",
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
