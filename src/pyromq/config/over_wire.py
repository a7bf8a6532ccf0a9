"""Settings that a peer changes over the wire: what every daemon checks of such a request, and how it refuses one."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigError, RequestRefused
from ..model.codes import ResponseCode
from . import properties
from .live import NotLive, check_length

SOURCE = "the request"  # what faults of the text are said to be in


@contextmanager
def checked_change(text: str, black_list: AbstractSet[str], overlay: Path) -> Iterator[None]:
    """Refuse a change that may not be made, before it is tried, and one that fails, with the answer that says why."""
    try:
        check_length(text)
        keys = [entry.key for entry in properties.parse(text, SOURCE)]
        if not keys:
            raise RequestRefused("the request has no key=value line", ResponseCode.INVALID_PARAMETER)
        if not black_list.isdisjoint(keys):
            raise RequestRefused("Can not update config in black list.", ResponseCode.NO_PERMISSION)
        yield
    except NotLive as fault:
        raise RequestRefused(str(fault), ResponseCode.NO_PERMISSION) from None
    except ConfigError as fault:
        raise RequestRefused(str(fault), ResponseCode.INVALID_PARAMETER) from None
    except OSError as fault:
        raise RequestRefused(f"not changed: cannot write {overlay}: {fault.strerror or fault}") from None
