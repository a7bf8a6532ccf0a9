"""Messages: found, looked into, followed, sent."""

from __future__ import annotations

from ..tables import Area

AREA = Area(name="messages")
