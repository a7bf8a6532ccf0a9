"""Topics and groups of the cluster as a file, as `pyromq export --json` writes it and `pyromq apply` reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from ...admin import cluster as brokers
from ...admin import definitions
from .served import DownloadFile

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch


async def definitions_file(cluster: ClusterWatch) -> DownloadFile:
    """Return the file. A broker that does not answer makes none of it: what it has would be missing."""
    places = await brokers.masters(cluster.calls)
    found = {place: await definitions.of_broker(cluster.calls, place) for place in places}
    text = msgspec.json.format(msgspec.json.encode(definitions.document(found)), indent=2)

    async def parts() -> AsyncIterator[bytes]:
        yield text + b"\n"

    return DownloadFile(f"{cluster.name}.json", parts())
