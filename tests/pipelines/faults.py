"""A pipeline killed at a place: a function of one of its modules ends in a fault, before or after its work.

The driver runs these functions, so the fault ends the query as a kill would: what comes later in the batch is not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

Killed = "killed by the test"


@contextmanager
def instead(module: ModuleType, name: str) -> Iterator[None]:
    """Before the function has done anything."""

    def die(*given: Any, **named: Any) -> Any:
        raise RuntimeError(Killed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, die)
        yield


@contextmanager
def after(module: ModuleType | type, name: str) -> Iterator[None]:
    """When it has done all of it."""
    work = getattr(module, name)

    def die(*given: Any, **named: Any) -> Any:
        work(*given, **named)
        raise RuntimeError(Killed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, die)
        yield
