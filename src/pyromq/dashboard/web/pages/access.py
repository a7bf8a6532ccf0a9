"""Users and what they may do."""

from __future__ import annotations

from ..tables import Area

AREA = Area(name="access")
