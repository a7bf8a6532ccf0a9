"""Alerts, and who has changed what."""

from __future__ import annotations

from ..tables import Area

AREA = Area(name="alerting")
