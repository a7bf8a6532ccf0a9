"""What waits for somebody: dead letters, timers, transactions."""

from __future__ import annotations

from ..tables import Area

AREA = Area(name="care")
