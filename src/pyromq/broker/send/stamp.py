"""The properties that a broker adds to what a client sent, and those that it takes away. Pure bytes.

Most messages carry none of the reserved names, so the usual way is one search and one join; only a message that was
consumed and is sent again has to be taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...model.message import Property
from ...protocol.properties import decode_properties, rejoin_properties
from .property_rules import without_own

# Set anew by each broker, or meant for the way out only: a client's own value would be a lie.
RESERVED = (Property.CLUSTER, Property.MSG_REGION, Property.TRACE_ON, Property.POP_CK)
_HAS_RESERVED = re.compile("(?:^|\x02)(?:" + "|".join(map(re.escape, RESERVED)) + ")\x01")
_HAS_ID = re.compile(f"(?:^|\x02){Property.UNIQ_KEY}\x01([^\x02]+)")


class Stamp:
    """Of one broker. `new_id` makes an id for a message that has none."""

    def __init__(self, cluster: str, region: str, new_id: Callable[[], str]) -> None:
        self._cluster = cluster
        self._region = region
        self._new_id = new_id
        self.tails = {trace: self._tail(trace) for trace in (True, False)}

    def _tail(self, trace_on: bool) -> str:
        own = {
            Property.MSG_REGION: self._region,
            Property.TRACE_ON: str(trace_on).lower(),
            Property.CLUSTER: self._cluster,
        }
        return "".join(f"{name}\x01{value}\x02" for name, value in own.items())

    def single(self, properties: str, trace_on: bool) -> tuple[bytes, str]:
        """Return the stored properties of a message that came alone, and its unique id."""
        if _HAS_RESERVED.search(properties):
            pairs = decode_properties(properties)
            for name in RESERVED:
                pairs.pop(name, None)
            properties = rejoin_properties(pairs).decode()
        elif properties and not properties.endswith("\x02"):
            properties += "\x02"
        found = _HAS_ID.search(properties)
        if found is not None:
            return (properties + self.tails[trace_on]).encode(), found[1]
        unique = self._new_id()
        return f"{properties}{Property.UNIQ_KEY}\x01{unique}\x02{self.tails[trace_on]}".encode(), unique

    def changed(self, properties: Mapping[str, str], trace_on: bool) -> tuple[bytes, str]:
        """Return the stamped text and the unique id of properties that were changed on the way."""
        return self.single(rejoin_properties(properties).decode(), trace_on)

    def inner_batch(self, properties: str, count: int, trace_on: bool) -> tuple[bytes, str]:
        """Return the properties of a batch that is stored as one record: it says how many messages are in it."""
        pairs = without_own(decode_properties(properties))
        return self.changed(pairs | {Property.INNER_NUM: str(count)}, trace_on)


def unique_id(properties: str) -> str | None:
    found = _HAS_ID.search(properties)
    return None if found is None else found[1]
