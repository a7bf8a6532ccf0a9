"""Namespaces as Java's clients write them into names: `ns%orders`, `%RETRY%ns%billing`. Brokers know nothing of them.

Users say and see names without; everything that goes over the wire has them.
"""

from __future__ import annotations

from ...model import names

SEPARATOR = "%"
_PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX)


def with_namespace(namespace: str, name: str) -> str:
    """Return a topic's or group's name on the wire.

    System topics are everybody's, reply topics a cluster's: they stay.
    """
    if not namespace or not name or _is_common(name):
        return name
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    bare = name[len(prefix) :]
    inside = namespace + SEPARATOR
    return name if bare.startswith(inside) else f"{prefix}{inside}{bare}"


def without_namespace(namespace: str, name: str) -> str:
    """Return the name as its user wrote it; names of other namespaces stay whole."""
    if not namespace:
        return name
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    bare = name[len(prefix) :]
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _is_common(name: str) -> bool:
    return names.is_system_topic(name) or names.is_system_group(name) or name.endswith(names.REPLY_SUFFIX)
