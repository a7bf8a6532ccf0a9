"""Filters in one spelling, so that two of them can be compared. Brokers and `pyromq doctor` compare members so."""

from __future__ import annotations

import re

TAG = "TAG"
ALL_TAGS = "*"
_QUOTED_SIGN_OR_BLANKS = re.compile(r"('(?:''|[^']++)*')|\s*+(<>|>=|<=|[=<>(),+-])\s*+|\s++")


def canonical(kind: str | None, expression: str) -> str:
    """Return the filter as it is compared: order, blanks and repetitions of tags do not count, nothing means all.

    Of an SQL92 expression the blanks outside of quotes do not count.
    """
    if (kind or TAG) != TAG:
        text = _QUOTED_SIGN_OR_BLANKS.sub(lambda found: found[1] or found[2] or " ", expression)
        return f"{kind} {text.strip()}"
    tags = {tag.strip() for tag in expression.split("||")} - {""}
    return ALL_TAGS if not tags or ALL_TAGS in tags else " || ".join(sorted(tags))
