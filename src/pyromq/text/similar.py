"""Names that look like one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` Closest: 'orders'.`, or nothing."""
    from difflib import get_close_matches  # not at the top: most names exist

    near = get_close_matches(name, list(known), 3)
    return f" Closest: {', '.join(map(repr, near))}." if near else ""
