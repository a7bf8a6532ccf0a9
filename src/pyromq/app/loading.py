"""The app that `pyromq run MODULE:APP` names, imported and checked. Each fault is one sentence, or the module's own."""

from __future__ import annotations

import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from ..errors import ConfigError
from .app import App


def load_app(target: str, folder: Path) -> App:
    """Import `module:app` from a folder. A fault inside the module itself comes through with its own traceback."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"{target!r}: name a module and the app in it, like shop:app")
    if "/" in module_name or not all(module_name.split(".")):  # a path, or a relative name: relative to nothing
        raise ConfigError(f"{module_name!r} is no module's name: write it like shop:app, its folder as --dir")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name is None or not module_name.startswith(fault.name):
            raise  # something that the module itself needs
        raise ConfigError(f"there is no module {module_name!r} in {folder}, nor is it installed") from None
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    near = get_close_matches(attribute, apps, 1) or apps[:1]
    advice = f"Did you mean {module_name}:{near[0]}?" if near else "It has no pyromq.App at all."
    what = "is not there" if found is None else f"is a {type(found).__name__}, not a pyromq.App"
    raise ConfigError(f"{attribute!r} {what} in {module.__file__ or module_name}. {advice}")


def own_part(fault: BaseException) -> str:
    """Return the traceback of what `load_app` raised, from the module's own first line on."""
    frames = list(traceback.walk_tb(fault.__traceback__))
    own = next((at for at, (frame, _) in enumerate(frames) if frame.f_code is load_app.__code__), -1) + 1
    while own < len(frames) and "importlib" in frames[own][0].f_code.co_filename:
        own += 1
    rest = fault.__traceback__
    for _ in range(own):
        rest = rest.tb_next if rest is not None else None
    return "".join(traceback.format_exception(type(fault), fault, rest)).rstrip()
