"""Namespaces as Java's clients write them into names: `ns%orders`, `%RETRY%ns%billing`. Brokers know nothing of them.

Users say and see names without; everything that goes over the wire has them.
"""

from __future__ import annotations

from ...model import names

SEPARATOR = "%"
_PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX)


def with_namespace(namespace: str, name: str) -> str:
    """Return a topic's or group's name on the wire. System topics, which are everybody's, and reply topics stay."""
    if not namespace or not name or _is_common(name):
        return name
    prefix, bare = _parts(name)
    inside = namespace + SEPARATOR
    return name if bare.startswith(inside) else f"{prefix}{inside}{bare}"


def without_namespace(namespace: str, name: str) -> str:
    """Return the name as its user wrote it; names of other namespaces stay whole."""
    if not namespace:
        return name
    prefix, bare = _parts(name)
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _parts(name: str) -> tuple[str, str]:
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    return prefix, name[len(prefix) :]


def _is_common(name: str) -> bool:
    return names.is_system_topic(name) or names.is_system_group(name) or name.endswith(names.REPLY_SUFFIX)
