"""What verdicts on pulls hold: typed values, native or Python, whichever kernel serves. See `state.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .choice import native
from .python import pull_state as _python

if TYPE_CHECKING:
    from .python.pull_state import ChangeFlag, PulledOffset, ResidentFiles

__all__ = ["ChangeFlag", "PulledOffset", "ResidentFiles"]

globals().update({name: getattr(native() or _python, name) for name in __all__})
