"""Java's two integers, and values as Java writes them in text.

What does not fit an integer is refused where it is read, not where it would be packed or shown.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


def java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
