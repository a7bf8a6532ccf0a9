"""What a topic may be used for, in words. Imports nothing: the help of commands shows them."""

from __future__ import annotations

PERMISSIONS = {"none": 0, "w": 2, "r": 4, "rw": 6}


def permission(bits: int) -> str:
    return next((word for word, value in PERMISSIONS.items() if value == bits & 6), str(bits))
