"""Words of routes that more than one room uses. The values themselves are the bodies of `protocol/bodies/route.py`."""

from __future__ import annotations

MASTER_ID = 0  # of the replicas of a broker name; the others are slaves
